"""The laws of the scheduler (DESIGN, section 4), a file each. `scripts/mutate laws` shows that each can fail."""

from __future__ import annotations

import pytest

from appbackplane.runtime.testing import VirtualBackplane


@pytest.fixture
def backplane() -> VirtualBackplane:
    """A backplane with the defaults, in which nothing has happened yet."""
    return VirtualBackplane()
