"""Recorder: writes one record per action into the memory of a segment (segments.py), with the lead.

Per action it does one `pack_into`: some 200 ns compiled, no allocation that stays, no system call. records/recording.py
makes, seals and removes the files in a thread of its own; the recorder only asks for the next one. If there is none (the
disk is full), lost records are counted here and reported there. A name is written once per segment, before the first record
that uses it. Every action is a span; calls from within it carry its span as a W3C traceparent (span_ids.py).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from mypy_extensions import i64

from appbackplane.transport.errors import BackplaneError, Status, sound

from .segments import HEADER_BYTES, NAME, NAME_BYTES_MAX, NAMES_END, NO_DEADLINE, RECORD, SALT
from .span_ids import TRACEPARENT_LENGTH, SpanIds
from .statistics import OperationStatistics

if TYPE_CHECKING:
    from ..objects.action import Action

_pack_into: Final = RECORD.pack_into
_NO_DEADLINE: Final[i64] = NO_DEADLINE
_SALT: Final[i64] = SALT
#: All bits but the highest one, or two: they mask a word that is shifted right by as many bits.
_BUT_1: Final[i64] = (1 << 63) - 1
_BUT_2: Final[i64] = (1 << 62) - 1
_RECORD_BYTES: Final[i64] = RECORD.size
_RECORDS_AT: Final[i64] = NAMES_END
#: The next segment is requested when the names pass this offset: with many objects they fill up before the records do.
_NAMES_HALF: Final[i64] = NAMES_END // 2
#: Span ids below 2**61 are of two halves: those that `SpanIds` counts, and those that only records have.
OTHER_HALF: Final = 1 << 60
#: INTERNAL of transport/errors.py: the outcome of an exception that is no `BackplaneError`.
_INTERNAL: Final = 13
_SIGN: Final = 1 << 63
#: Deadlines are clamped to this, 73 years: a client may send one whose remaining time does not fit into 64 bits.
_FAR: Final = 1 << 61


class SegmentRoom(NamedTuple):
    """A segment to write into, with its header written: its memory, the size in bytes, and its number."""

    buffer: Any
    size: int
    number: int
    #: The offset from monotonic to Unix time. It is kept per segment, because the system's clock may be corrected.
    unix_ns: int


class RecordedPart(NamedTuple):
    """A piece of an action's work that is recorded as an action of its own (`Action.parts`)."""

    #: The operation under whose name it is recorded.
    account: OperationStatistics
    started_ns: int
    #: Time in queues before it began.
    wait_ns: int
    #: From its begin to its end. Its recorded run time is at most that of the action.
    took_ns: int
    cpu_ns: int
    lane: int
    error: BaseException | None


class Supply(Protocol):
    """Provides segments (execution/records/segment_files.py). Never blocks: the lead is held."""

    def take(self, least: int = 0) -> SegmentRoom | None: ...
    def prepare(self) -> None: ...
    def finished(self, room: SegmentRoom, count: int, end: int) -> None: ...


class Recorder:
    """Records the actions of one backplane. Part of the engine: every caller must hold the lead."""

    def __init__(self, supply: Supply, ids: SpanIds) -> None:
        """`ids`: of the actions that make calls. The others have no need of one until they are recorded."""
        self._supply = supply
        self._unix_ns: i64 = 0
        self._ids = ids
        self._span: i64 = ids.first ^ OTHER_HALF
        self._room: SegmentRoom | None = None
        self._buffer: Any = None
        self._index: i64 = 0
        #: The record index at which `_has_room` must run: the segment is half full (request the next one), or full.
        self._end: i64 = 0
        self._capacity: i64 = 0
        #: Names written since the process began, and how many of them are in earlier segments.
        self._names_count: i64 = 0
        self._first: i64 = 0
        self._names_at: i64 = 0
        self.recorded_count = 0
        self.lost_count = 0

    def record(self, action: Action, account: OperationStatistics, now_ns: i64) -> None:  # hot: scripts/bench recording
        """Record an action that ended at `now_ns`; without a segment it is counted in `lost_count`."""
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
        """Record the parts of an action that ended at `now_ns`, and the action with the rest of its times.

        So the sums over all records equal the workers' times. If the action made calls, its parts are recorded as its children.
        """
        trace = action.trace if action.span == 0 else self._ids.context(action)
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

    def turn(self) -> None:
        """Close the segment because of its age; the next record begins another one."""
        if self._index:
            self.close()

    @property
    def count(self) -> int:
        """Records written since the process began."""
        return self.recorded_count + int(self._index)

    def _has_room(self) -> bool:
        """Request the next segment when half full, change to it when full; whether a record may be written now."""
        if self._index < self._capacity:
            self._supply.prepare()
            self._end = self._capacity
            return True
        self.close()
        room = self._supply.take()
        if room is None:
            return False
        self._room, self._buffer, self._unix_ns = room, room.buffer, room.unix_ns
        self._capacity = (room.size - NAMES_END) // RECORD.size
        self._end = max(1, self._capacity // 2)
        self._first = self._names_count
        self._names_at = HEADER_BYTES
        return True

    def close(self) -> None:
        """Hand back the current segment, if there is one; the next record begins another one."""
        if self._room is not None:
            end = int(_RECORDS_AT + self._index * _RECORD_BYTES)
            self._supply.finished(self._room, int(self._index), end)
        self.recorded_count += int(self._index)
        self._room = self._buffer = None
        self._index = self._capacity = self._end = 0

    def _has_names(self, action: Action, account: OperationStatistics) -> bool:
        """Write both names into the segment, or into the next one if this one is full; False: there is no next one."""
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
            self.close()
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
        """(upper half of the trace id, lower half, caller's span) of a traceparent; an invalid one begins a new trace."""
        if len(trace) != TRACEPARENT_LENGTH:
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
    """The `Status` of a `BackplaneError`; INTERNAL of any other error, even if it has a `status` attribute."""
    status: Any = sound(error).status if isinstance(error, BackplaneError) else None
    return int(status) & 0xFF if isinstance(status, Status) else _INTERNAL
