"""Recorder: one record an action, written into the memory of a segment (segments.py) by whoever holds the lead.

What is done for each action is one `pack_into`: some 200 ns compiled, no allocation that stays, no system call. Files are
made, sealed and removed by execution/recording.py, in a thread of its own; here is only asked for the next one. When there
is none (the disk is full), what cannot be written is counted, and reported there. A name is written once a segment, before
the first record that uses it. Every action is a span; who calls from within it sends its span along, as a W3C traceparent.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from mypy_extensions import i64

from appbackplane.transport.errors import BackplaneError
from appbackplane.transport.status import Status

from .segments import HEADER_BYTES, NAME, NAME_BYTES_MAX, NAMES_END, NO_DEADLINE, RECORD, SALT
from .statistics import OperationStatistics

if TYPE_CHECKING:
    from ..objects.action import Action

_pack_into: Final = RECORD.pack_into
_NO_DEADLINE: Final[i64] = NO_DEADLINE
_SALT: Final[i64] = SALT
#: All bits but the first one, or two: what remains of a word that is shifted so far.
_BUT_1: Final[i64] = (1 << 63) - 1
_BUT_2: Final[i64] = (1 << 62) - 1
_RECORD_BYTES: Final[i64] = RECORD.size
_RECORDS_AT: Final[i64] = NAMES_END
#: From where in the names on the next segment is asked for: with many objects they end before the records do.
_NAMES_HALF: Final[i64] = NAMES_END // 2
#: "00-" trace id "-" span id "-01".
_TRACEPARENT_LENGTH: Final = 55
#: INTERNAL of transport/status.py: it raised what is no error of ours.
_INTERNAL: Final = 13
_SIGN: Final = 1 << 63
#: A deadline beyond is as good as none: 73 years. A client may send one of which 64 bits do not hold what is left.
_FAR: Final = 1 << 61


class Room:
    """A segment to write into: its memory, how many bytes that is, and its number. The header is there.

    `unix_ns` makes Unix time of the clock's: of this segment, because calendars are set right now and then.
    """

    __slots__ = ("buffer", "number", "size", "unix_ns")

    def __init__(self, buffer: Any, size: int, number: int, unix_ns: int) -> None:
        self.buffer = buffer
        self.size = size
        self.number = number
        self.unix_ns = unix_ns


class Part(NamedTuple):
    """A piece of what an action did, that is recorded as an action of its own (`Action.parts`)."""

    #: By what name.
    account: OperationStatistics
    started_ns: int
    #: In queues, before it was begun.
    wait_ns: int
    #: From its begin to its end; it ran for no longer than the action did.
    took_ns: int
    cpu_ns: int
    lane: int
    error: BaseException | None


class Supply(Protocol):
    """Where segments come from (execution/recording.py)."""

    def take(self, least: int = 0) -> Room | None:
        """The next one, of `least` bytes or more; None: there is none now."""

    def prepare(self) -> None:
        """One will be needed soon."""

    def finished(self, room: Room, count: int, end: int) -> None:
        """Nothing will be written to it any more; it holds so many records, and nothing from the byte `end` on."""


class Recorder:
    """Part of the engine: whoever holds the lead owns it."""

    __slots__ = (
        "_buffer", "_capacity", "_end", "_first", "_index", "_names_at", "_names_count", "_room", "_span",
        "_supply", "_unix_ns", "lost_count", "recorded_count",
    )  # fmt: skip

    def __init__(self, supply: Supply, span: int) -> None:
        """`span`: from which spans are counted, below 2**62."""
        self._supply = supply
        self._unix_ns: i64 = 0
        self._span: i64 = span
        self._room: Room | None = None
        self._buffer: Any = None
        self._index: i64 = 0
        #: At which index something has to be done: half full, or full.
        self._end: i64 = 0
        self._capacity: i64 = 0
        #: Names since the process began, and how many of them are of earlier segments.
        self._names_count: i64 = 0
        self._first: i64 = 0
        self._names_at: i64 = 0
        self.recorded_count = 0
        self.lost_count = 0

    def record(self, action: Action, account: OperationStatistics, now_ns: i64) -> None:  # hot: scripts/bench recording
        """Write down an action that has ended at `now_ns`."""
        if self._index >= self._end and not self._has_room():
            self.lost_count += 1
            return
        object = action.object
        operation: i64 = account.number - self._first
        who: i64 = object._number - self._first
        if operation < 0 or who < 0:
            if not self._has_names(action, account):
                self.lost_count += 1
                return
            operation = account.number - self._first
            who = object._number - self._first
        started: i64 = action.started_ns
        if started == 0:  # refused, before it ran
            started = now_ns
        start: i64 = started + self._unix_ns
        wait: i64 = action.wait_ns
        run: i64 = action.run_ns
        cpu: i64 = action.cpu_ns
        took: i64 = now_ns - started
        margin: i64 = _NO_DEADLINE
        due = action.deadline_ns
        if due is not None:
            deadline: i64 = due if -_FAR < due < _FAR else _FAR
            margin = deadline - now_ns
        span: i64 = action.span
        if span == 0:
            self._span += 1
            span = self._span
        trace_high: i64 = 0
        trace_low: i64 = span
        parent: i64 = 0
        if action.trace is not None:
            trace_high, trace_low, parent = self._context_of(action.trace, span)
        asked: i64 = action.priority_asked
        effective: i64 = action.priority
        lane: i64 = action.lane
        flags: i64 = asked | (effective << 8) | (lane << 16)
        if action.error is not None:
            outcome: i64 = outcome_of(action.error)
            flags |= outcome << 24
        if effective < asked:
            flags |= 1 << 32
        names: i64 = operation | (who << 32)
        index = self._index
        check: i64 = (
            _SALT ^ index ^ start ^ wait ^ run ^ cpu ^ took ^ margin
            ^ trace_high ^ trace_low ^ span ^ parent ^ names ^ flags
            ^ ((cpu >> 1) & _BUT_1) ^ ((took >> 2) & _BUT_2) ^ ((span >> 1) & _BUT_1) ^ ((parent >> 2) & _BUT_2)
        )  # fmt: skip
        _pack_into(
            self._buffer, _RECORDS_AT + index * _RECORD_BYTES,
            start, wait, run, cpu, took, margin, trace_high, trace_low, span, parent, names, flags, check,
        )  # fmt: skip
        self._index = index + 1

    def record_parts(self, action: Action, account: OperationStatistics, now_ns: i64) -> None:
        """Write down the parts of an action that has ended at `now_ns`, and the action with what is left of its times.

        So sums over records are what the workers did. Where it has called somebody, the parts are called by it.
        """
        trace = action.trace if action.span == 0 else self.context(action)
        run_ns, cpu_ns = all_ns, all_cpu_ns = action.run_ns, action.cpu_ns
        whole = action.started_ns, action.wait_ns, action.span, action.trace, action.error, action.deadline_ns
        action.span, action.trace, action.deadline_ns = 0, trace, None
        for part in action.parts or ():
            action.started_ns, action.wait_ns, action.lane = part.started_ns, part.wait_ns, part.lane
            action.run_ns, action.cpu_ns = min(part.took_ns, run_ns), min(part.cpu_ns, cpu_ns)
            action.error = part.error
            run_ns, cpu_ns = run_ns - action.run_ns, cpu_ns - action.cpu_ns
            self.record(action, part.account, part.started_ns + part.took_ns)
        action.started_ns, action.wait_ns, action.span, action.trace, action.error, action.deadline_ns = whole
        action.run_ns, action.cpu_ns, action.lane = run_ns, cpu_ns, 0
        self.record(action, account, now_ns)
        action.run_ns, action.cpu_ns = all_ns, all_cpu_ns

    def context(self, action: Action) -> str:
        """What a call made within `action` carries as its trace: the same trace, with this action as its parent."""
        if action.span == 0:
            self._span += 1
            action.span = self._span
        trace = action.trace
        span = f"{action.span:016x}"
        if trace is None or len(trace) != _TRACEPARENT_LENGTH:
            return f"00-{span:0>32}-{span}-01"
        return f"{trace[:36]}{span}{trace[52:]}"

    def turn(self) -> None:
        """The segment that is written has become old: it is closed, and the next record begins another."""
        if self._index:
            self._hand_back()

    def close(self) -> None:
        """Nothing is recorded any more."""
        self._hand_back()

    @property
    def count(self) -> int:
        """Records written since the process began."""
        return self.recorded_count + int(self._index)

    def _has_room(self) -> bool:
        """Where something had to be done: whether the next record may be written now."""
        if self._index < self._capacity:
            self._supply.prepare()
            self._end = self._capacity
            return True
        self._hand_back()
        room = self._supply.take()
        if room is None:
            return False
        self._room, self._buffer, self._unix_ns = room, room.buffer, room.unix_ns
        self._capacity = (room.size - NAMES_END) // RECORD.size
        self._end = max(1, self._capacity // 2)
        self._first = self._names_count
        self._names_at = HEADER_BYTES
        return True

    def _hand_back(self) -> None:
        if self._room is not None:
            end = int(_RECORDS_AT + self._index * _RECORD_BYTES)
            self._supply.finished(self._room, int(self._index), end)
        self.recorded_count += int(self._index)
        self._room = self._buffer = None
        self._index = self._capacity = self._end = 0

    def _has_names(self, action: Action, account: OperationStatistics) -> bool:
        """See that both names are in the segment, or in the next, when this one has no room for them."""
        for _ in range(2):
            if account.number < self._first and self._is_written("", account.name):
                account.number = int(self._names_count - 1)
            object = action.object
            component = object._component
            whose = "" if component is None else component.component_name
            if object._number < self._first and self._is_written(whose, object.name):
                object._number = int(self._names_count - 1)
            if account.number >= self._first and object._number >= self._first:
                return True
            self._hand_back()
            if not self._has_room():
                return False
        return False

    def _is_written(self, component: str, name: str) -> bool:
        text = f"{component}\0{name}".encode("utf-8", "replace")[:NAME_BYTES_MAX]
        end: i64 = self._names_at + NAME.size + len(text)
        if end > NAMES_END:
            return False
        self._buffer[self._names_at + NAME.size : end] = text
        NAME.pack_into(self._buffer, self._names_at, len(text), 0, zlib.crc32(text))
        if self._names_at <= _NAMES_HALF < end:
            self._supply.prepare()
        self._names_at = end
        self._names_count += 1
        return True

    def _context_of(self, trace: str, span: i64) -> tuple[i64, i64, i64]:
        """(trace id, its lower half, the caller's span) of a traceparent; what is none begins a trace of its own."""
        if len(trace) != _TRACEPARENT_LENGTH:
            return 0, span, 0
        try:
            return _signed(trace[3:19]), _signed(trace[19:35]), _signed(trace[36:52])
        except ValueError:
            return 0, span, 0


def _signed(digits: str) -> i64:
    value = int(digits, 16)
    result: i64 = value if value < _SIGN else value - 2 * _SIGN
    return result


def outcome_of(error: BaseException) -> int:
    """A Status: that of an error of ours, INTERNAL of any other, whatever it calls its own status."""
    status: Any = error.status if isinstance(error, BackplaneError) else None
    return int(status) & 0xFF if isinstance(status, Status) else _INTERNAL
