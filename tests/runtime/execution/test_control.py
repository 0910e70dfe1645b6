"""What passes between the supervisor and a backplane, on a link whose far end is the test."""

from pathlib import Path
from typing import Any

from appbackplane.runtime.execution.sentinel.control import Answer, Control
from appbackplane.runtime.testing import MemoryLink
from appbackplane.transport import codec
from appbackplane.transport.envelope import CALL, CAST, REPLY, Envelope


def test_the_last_flush_sends_and_hears_nothing() -> None:
    """A process that stops has closed its link: a directory that comes then has nobody who could follow it."""
    link, heard, woken = MemoryLink(), list[str](), list[bool]()
    waiting: list[Answer] = []

    def on_directory(body: Any, answer: Answer) -> None:
        heard.append("directory")

    def on_move(body: Any, answer: Answer) -> None:
        waiting.append(answer)

    handlers = {"control.directory": on_directory, "control.move": on_move}
    control = Control(link, Path("/nowhere"), handlers, lambda: woken.append(True))  # type: ignore[arg-type]
    peer = b"supervisor"

    def deliver(envelope: Envelope) -> None:
        link.deliver(peer, codec.batch([codec.Encoder().encode(envelope)]))

    deliver(Envelope(CALL, 7, 0, "control.move", None, None, None, {}))
    control.turn()
    waiting[0]({}, None)
    deliver(Envelope(CAST, 0, 0, "control.directory", None, None, None, {}))
    control.flush()
    assert [(e.kind, e.id) for _, frame in link.sent for e in codec.decode(frame)] == [(REPLY, 7)]
    assert (heard, woken) == ([], [True])
    control.turn()
    assert heard == ["directory"]
