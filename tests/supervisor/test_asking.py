"""Asking a supervisor that ends: its last words count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from appbackplane.supervisor.commands import asking
from appbackplane.supervisor.commands.asking import Asker
from appbackplane.transport.batching import SendResult
from appbackplane.transport.codec import Encoder, batch
from appbackplane.transport.discovery import Location
from appbackplane.transport.envelope import reply
from appbackplane.transport.errors import PeerDown

ANSWER = b"", batch([Encoder().encode(reply(1, "the answer"))])


class ScriptedLink:
    """Gives these frames, and then none. Its descriptor and that of the supervisor's end are readable at once."""

    def __init__(self, *frames: tuple[bytes, bytes] | None) -> None:
        self.frames = [*frames]
        self.fd = os.eventfd(1)

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        return SendResult.SENT

    def receive(self) -> tuple[bytes, bytes] | None:
        return self.frames.pop(0) if self.frames else None

    def fileno(self) -> int:
        return self.fd


@pytest.fixture
def asker(request: pytest.FixtureRequest) -> Iterator[Asker]:
    """Of a supervisor that has ended. The parameter: what its link gives."""
    asker, link = Asker.__new__(Asker), ScriptedLink(*request.param)
    asker._location, asker.pid, asker.pidfd = Location(Path("/"), "demo"), 7, link.fd
    asker._link, asker._peer, asker._encoder, asker._asked = cast(Any, link), b"", Encoder(), 0
    yield asker
    os.close(link.fd)


@pytest.mark.parametrize("asker", [(None, ANSWER), (None, None, None, ANSWER)], indirect=True)
def test_an_answer_just_before_the_end_is_one(asker: Asker) -> None:
    """Whenever this process comes to read it."""
    assert asker.ask("supervisor.restart") == "the answer"


@pytest.mark.parametrize("asker", [()], indirect=True)
def test_who_ended_without_an_answer_is_named(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LAST_WORDS_S", 0.0)
    with pytest.raises(PeerDown, match=r"the supervisor of 'demo' \(pid 7\) ended before it answered"):
        asker.ask("supervisor.restart")
    assert asker.take_last() is None
