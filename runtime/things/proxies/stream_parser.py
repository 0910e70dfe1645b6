"""Stream parser: server-sent events, from the bytes of a connection (HTML standard, section 9.2). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Bytes of one event, and of a line of it: those of a value (http_consumer.BODY_BYTES_MAX).
EVENT_BYTES_MAX: Final = 1 << 20


class StreamOverflow(ValueError):
    """An event is longer than `EVENT_BYTES_MAX`."""


class StreamEvent(NamedTuple):
    """One event. `kind`: "message", if the stream names none."""

    kind: str
    data: str


class StreamParser:
    """Feed it bytes; it returns the events that end in them. `last_id`: for the next connection."""

    def __init__(self) -> None:
        self.last_id = ""
        self._rest = b""
        self._kind = ""
        self._data: list[str] = []
        self._bytes = 0

    def restart(self) -> None:
        """Another connection begins: what the last one has left is no event."""
        self._rest, self._kind, self._data, self._bytes = b"", "", [], 0

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Raises `StreamOverflow`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            raise StreamOverflow(f"an event of more than {EVENT_BYTES_MAX:,} bytes")
        found = []
        for line in lines:
            self._bytes += len(line)
            if self._bytes > EVENT_BYTES_MAX:
                raise StreamOverflow(f"an event of more than {EVENT_BYTES_MAX:,} bytes")
            text = line.removesuffix(b"\r").decode(errors="replace")
            if text:
                self._take(text)
                continue
            if self._data:
                found.append(StreamEvent(self._kind or "message", "\n".join(self._data)))
            self._kind, self._data, self._bytes = "", [], 0
        return found

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
