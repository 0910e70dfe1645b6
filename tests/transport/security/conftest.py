"""A house that listens, a guest that it trusts, and strangers that it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .house import PATIENT, Guest, House


@pytest.fixture
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    """It runs, and trusts nobody. It has time for a handshake, unless a test gives it the limits of a link."""
    with House(tmp_path / "house", getattr(request, "param", PATIENT)) as house:
        yield house


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Callable[[str], Guest]]:
    """Makes guests, each with a pair of its own."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(Guest(tmp_path / name, PATIENT))


@pytest.fixture
def friend(house: House, guest: Callable[[str], Guest]) -> Guest:
    """Trusted, connected, and served."""
    friend = guest("friend")
    house.trust("friend", friend.key)
    friend.connect(house)
    assert friend.waits(b"first") == b"first"
    return friend
