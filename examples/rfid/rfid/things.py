"""Things: readers and their antennas, as the gateway serves them; and the outbox through which events reach the repository."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from appbackplane.runtime import AppObject, BackplaneError, Busy, every, operation
from appbackplane.runtime.things import Thing, event, prop

from .epc import uri_of
from .epcis import event_of_pass, text_of

#: Events that wait for the repository, 1 KB each: hours of a dock door.
UNSENT_MAX: Final = 10_000
#: Events in one capture, and seconds between two.
BATCH_MAX, SEND_S = 500, 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TagSeen:
    """A tag is present. `since`: its first read."""

    epc: str
    since: str


@dataclass(frozen=True)
class TagGone:
    """A tag is gone. `until`: its last read. `reads`: how often it was read."""

    epc: str
    until: str
    reads: int


class Antenna(Thing):
    """An antenna of a reader, which is a read point of EPCIS: its key is the URI of the read point."""

    types = ("sosa:Sensor",)
    tag_seen = event(TagSeen)
    tag_gone = event(TagGone)

    def __init__(self, biz_step: str) -> None:
        self._biz_step = biz_step
        self._tags: set[str] = set()

    @prop(observable=True, priority=0)
    def present_count(self) -> int:
        """How many tags are present."""
        return len(self._tags)

    @prop
    def present(self) -> list[str]:
        """The EPCs of the tags that are present, as URIs."""
        return sorted(self._tags)

    @operation(priority=3)
    def arrive(self, epc: str, first_us: int) -> None:
        """A tag is present: tell subscribers, and the repository."""
        self._tags.add(uri_of(epc))
        self.cast("readers.send", event=event_of_pass(epc, first_us, self.key or "", self._biz_step))
        self.tag_seen.emit(TagSeen(uri_of(epc), text_of(first_us)))

    @operation(priority=3)
    def depart(self, epc: str, last_us: int, reads: int) -> None:
        """A tag is gone."""
        self._tags.discard(uri_of(epc))
        self.tag_gone.emit(TagGone(uri_of(epc), text_of(last_us), reads))


class RfidReader(Thing):
    """An RFID reader."""

    types = ("sosa:Platform",)

    def __init__(self) -> None:
        self._is_connected = False
        self._malformed_count = 0

    @prop(observable=True, priority=0)
    def is_connected(self) -> bool:
        """Whether it has sent anything over its present connection."""
        return self._is_connected

    @prop(observable=True, priority=0)
    def malformed_count(self) -> int:
        """Frames that were no LLRP; each has cost a connection."""
        return self._malformed_count

    @operation(priority=3)
    def note(self, is_connected: bool, malformed: int) -> None:
        """Note a change; `malformed`: further frames that were no LLRP."""
        self._is_connected = is_connected
        self._malformed_count += malformed


class EventOutbox(AppObject):
    """Sends events to the repository, again and again until it has them: it stores none twice."""

    #: New events are taken while a capture is awaited.
    interleaves = True

    def __init__(self) -> None:
        self._unsent: deque[dict[str, Any]] = deque()
        self._is_sending = self._is_failing = False

    @operation(priority=3)
    def send(self, event: dict[str, Any]) -> None:
        """Send it within `SEND_S`. Raises `Busy` at `UNSENT_MAX`: it is lost then."""
        if len(self._unsent) >= UNSENT_MAX:
            raise Busy(f"{UNSENT_MAX:,} events wait for the repository: {event['eventID']} is lost")
        self._unsent.append(event)

    @every(SEND_S)
    async def send_all(self) -> None:
        """Send the waiting events, unless a capture is awaited."""
        if self._is_sending:
            return
        self._is_sending = True
        try:
            while self._unsent:
                batch = [self._unsent[number] for number in range(min(BATCH_MAX, len(self._unsent)))]
                await self.call("repository.capture", events=batch, timeout=10.0)
                for _ in batch:
                    self._unsent.popleft()
            self._is_failing = False
        except BackplaneError as error:
            if not self._is_failing:
                log.warning("the repository takes no events, which are sent again: %s", error)
            self._is_failing = True
        finally:
            self._is_sending = False
