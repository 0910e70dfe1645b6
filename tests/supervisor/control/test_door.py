"""The door of a supervisor that has few descriptors left keeps who waits, and nobody who has gone."""

from __future__ import annotations

import resource
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from appbackplane.supervisor.control.door import CLEAR_EVERY, WAITING_MAX, Door


def knock(path: Path) -> None:
    """Connect, and hang up. Raises BlockingIOError: the queue is full."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        probe.connect(str(path))


def test_those_who_have_hung_up_are_cleared_from_the_queue_while_it_stays_shut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """129 verbs that had given up kept the queue full for as long as the door was shut: nobody else could wait."""
    path = tmp_path / "s.sock"
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (10, 10))
    door = Door(path)
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(path))
        served.listen()
        door.look()
        assert door.is_shut
        with suppress(BlockingIOError):
            for _ in range(2 * WAITING_MAX):
                knock(path)
        with pytest.raises(BlockingIOError):
            knock(path)
        for _ in range(CLEAR_EVERY):
            door.look()
        assert door.is_shut
        for _ in range(WAITING_MAX):
            knock(path)
        door.close()
