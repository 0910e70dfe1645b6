"""Groups: tests that share something expensive are run by one worker of pytest-xdist (tests/conftest.py)."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def shared() -> None:
    """Stands for a system that all tests of a file use."""


@pytest.mark.usefixtures("shared")
def test_tests_that_share_something_are_kept_together(request: pytest.FixtureRequest) -> None:
    """Each worker would start a system, or a JVM, of its own; and nothing but the time would tell.

    pytest-xdist looks for the group in the id.
    """
    if not hasattr(request.config, "workerinput") or not request.config.option.loadgroup:
        pytest.skip("all tests are run by one process, or given to whichever is free")
    assert request.node.nodeid.endswith(f"@{request.path.as_posix()}")
