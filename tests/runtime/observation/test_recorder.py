"""The recorder: one record an action, exactly what it did, each name once, and what finds no room is counted."""

from __future__ import annotations

import pytest

from appbackplane.runtime import Action, AppObject, Component, Outcome
from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.recorder import OTHER_HALF, RecordedPart, Recorder, SegmentRoom
from appbackplane.runtime.observation.segments import FIELDS, NAMES_END, RECORD, RECORD_BYTES
from appbackplane.runtime.observation.span_ids import SpanIds
from appbackplane.runtime.observation.statistics import OperationStatistics
from appbackplane.transport.errors import Busy, Status

UNIX_NS = 1_700_000_000_000_000_000
SPAN = 7 << 40


class Memory:
    """A supply of segments in memory."""

    def __init__(self, capacity: int = 10) -> None:
        self.capacity = capacity
        self.rooms: list[SegmentRoom] = []
        self.counts: list[int] = []
        self.prepared_count = 0
        self.is_full = False

    def take(self, least: int = 0) -> SegmentRoom | None:
        if self.is_full:
            return None
        size = NAMES_END + self.capacity * RECORD_BYTES
        self.rooms.append(SegmentRoom(bytearray(size), size, len(self.rooms) + 1, UNIX_NS))
        return self.rooms[-1]

    def prepare(self) -> None:
        self.prepared_count += 1

    def finished(self, room: SegmentRoom, count: int, end: int) -> None:
        assert room is self.rooms[-1]
        self.counts.append(count)

    def records(self) -> list[dict[str, int]]:
        """All that were written, by field; each one's check is right."""
        return [record for room in self.rooms for record in records_of(room.buffer)]


def records_of(data: bytes) -> list[dict[str, int]]:
    found = []
    for index in range((len(data) - NAMES_END) // RECORD_BYTES):
        words = RECORD.unpack_from(data, NAMES_END + index * RECORD_BYTES)
        if any(words):
            assert words[-1] == segments.check_of(words, index)
            found.append({
                name: words[field.word] if field.bits == 64 else words[field.word] >> field.shift & (1 << field.bits) - 1
                for name, field in FIELDS.items()
            })  # fmt: skip
    return found


def names_of(room: SegmentRoom) -> list[tuple[str, str]]:
    return segments.unpack_names(bytes(room.buffer[segments.HEADER_BYTES : NAMES_END]))


class Shelf(AppObject):
    """Somebody with a name."""


class Store(Component):
    """Where it belongs."""


class Taking(Action):
    """Something it does."""

    def run(self) -> Outcome:
        return Outcome.DONE


@pytest.fixture
def store() -> Store:
    return Store()


def taking(store: Store, key: str = "s1", **fields: object) -> tuple[Action, OperationStatistics]:
    """An action that has ended, and its account."""
    shelf = next((each for each in store.objects if each.key == key), None) or store.add(Shelf(), key=key)
    assert isinstance(shelf, AppObject)
    action = Taking(shelf, "store.take", 3)
    for name, value in fields.items():
        setattr(action, name, value)
    return action, OperationStatistics("store.take")


def recorder(memory: Memory) -> Recorder:
    return Recorder(memory, SpanIds(SPAN))


def test_a_record_says_what_the_action_did(store: Store) -> None:
    """Every field by its own figure: two that were swapped would be two wrong answers."""
    memory = Memory()
    action, account = taking(
        store, started_ns=1_000, wait_ns=20, run_ns=300, cpu_ns=250, priority=1, deadline_ns=5_000, error=Busy("no"),
        trace="00-000000000000000a000000000000000b-000000000000000c-01",
    )  # fmt: skip
    recorder(memory).record(action, account, 1_400)
    assert memory.records() == [{
        "start": UNIX_NS + 1_000, "wait": 20, "run": 300, "cpu": 250, "took": 400, "margin": 3_600,
        "trace_high": 10, "trace_low": 11, "span": (SPAN ^ OTHER_HALF) + 1, "parent": 12, "operation": 0, "object": 1,
        "priority": 3, "effective": 1, "lane": 0, "outcome": 8, "boosted": 1,
    }]  # fmt: skip
    assert names_of(memory.rooms[0]) == [("", "store.take"), ("store", action.object.name)]


def test_parts_of_an_action_are_records_and_what_is_left_is_its_own(store: Store) -> None:
    """Each by its own name and lane, with its own times; run and CPU times add up to those of the action."""
    memory = Memory()
    action, account = taking(
        store, started_ns=1_000, wait_ns=20, run_ns=900, cpu_ns=600, deadline_ns=5_000, span=77, priority=2
    )  # fmt: skip
    first, second = OperationStatistics("store.Count"), OperationStatistics("store.Sort")
    action.parts = [
        RecordedPart(first, 1_100, 700, 200, 150, 2, None),
        RecordedPart(second, 1_300, 30, 5_000, 5_000, 3, Busy("no")),  # it awaited something: it ran for less
    ]
    recorder(memory).record_parts(action, account, 7_000)
    count, sort, rest = memory.records()
    assert (count["start"], count["wait"], count["run"], count["cpu"], count["took"]) == (
        UNIX_NS + 1_100,
        700,
        200,
        150,
        200,
    )
    assert (sort["start"], sort["wait"], sort["run"], sort["cpu"], sort["took"]) == (
        UNIX_NS + 1_300,
        30,
        700,
        450,
        5_000,
    )
    assert (rest["start"], rest["wait"], rest["run"], rest["cpu"], rest["took"]) == (UNIX_NS + 1_000, 20, 0, 0, 6_000)
    assert [one["lane"] for one in (count, sort, rest)] == [2, 3, 0]
    assert [one["outcome"] for one in (count, sort, rest)] == [0, 8, 0]
    assert [one["parent"] for one in (count, sort, rest)] == [77, 77, 0] and rest["span"] == 77
    assert (count["margin"], rest["margin"]) == (segments.NO_DEADLINE, -2_000)
    assert [name for _, name in names_of(memory.rooms[0])] == [
        "store.Count",
        action.object.name,
        "store.Sort",
        "store.take",
    ]
    assert (action.run_ns, action.cpu_ns, action.error, action.lane) == (900, 600, None, 0)


def test_what_has_no_deadline_and_no_trace_is_a_root(store: Store) -> None:
    """Its own span is its trace, and what it never had is not a number that might be one."""
    memory = Memory()
    action, account = taking(store)
    recorder(memory).record(action, account, 9_000)
    (found,) = memory.records()
    assert (found["margin"], found["trace_high"], found["trace_low"], found["parent"]) == (
        segments.NO_DEADLINE, 0, found["span"], 0,
    )  # fmt: skip
    assert (found["start"], found["took"], found["outcome"], found["boosted"]) == (UNIX_NS + 9_000, 0, 0, 0)


@pytest.mark.parametrize("trace", ["", "nonsense", "00-" + "z" * 32 + "-" + "0" * 16 + "-01", "x" * 55])
def test_a_trace_that_is_none_begins_another(store: Store, trace: str) -> None:
    """It comes from outside: whatever it is, the action is recorded."""
    memory = Memory()
    action, account = taking(store, trace=trace)
    recorder(memory).record(action, account, 9_000)
    (found,) = memory.records()
    assert found["trace_low"] == found["span"]


def test_who_is_called_knows_by_whom(store: Store) -> None:
    """The trace goes on, the parent is the caller's own span: that is how a chain is put together again."""
    memory = Memory()
    ids = SpanIds(SPAN)
    recording = Recorder(memory, ids)
    caller, account = taking(store)
    callee, _ = taking(store, trace=ids.context(caller))
    grandchild, _ = taking(store, trace=ids.context(callee))
    assert ids.context(caller) == ids.context(caller), "a second call has the same parent"
    for action in (grandchild, callee, caller):
        recording.record(action, account, 9_000)
    last, middle, first = memory.records()
    assert (first["parent"], middle["parent"], last["parent"]) == (0, first["span"], middle["span"])
    assert {each["trace_low"] for each in (first, middle, last)} == {first["span"]}
    assert len({each["span"] for each in (first, middle, last)}) == 3


def test_a_trace_from_outside_keeps_all_its_bits(store: Store) -> None:
    """128 of them, the sign bits too; what called from there is found in the other system by it."""
    memory = Memory()
    ids = SpanIds(SPAN)
    recording = Recorder(memory, ids)
    outside = "00-ffffffffffffffff8000000000000001-fffffffffffffffe-00"
    action, account = taking(store, trace=outside)
    assert ids.context(action) == outside[:36] + f"{SPAN + 1:016x}" + "-00"
    recording.record(action, account, 9_000)
    (found,) = memory.records()
    assert (found["trace_high"], found["trace_low"], found["parent"]) == (-1, -(2**63) + 1, -2)


def test_segments_follow_each_other_and_each_has_the_names_it_uses(store: Store) -> None:
    """Any one of them can be removed, or copied elsewhere alone."""
    memory = Memory(capacity=4)
    recording = recorder(memory)
    _, account = taking(store)
    for number in range(10):
        action, _ = taking(store, key=f"s{number % 2}")
        recording.record(action, account, number)
    assert memory.counts == [4, 4]
    assert memory.prepared_count == 2, "asked for once a segment that is half full"
    assert recording.count == 10
    assert [len(records_of(room.buffer)) for room in memory.rooms] == [4, 4, 2]
    for room in memory.rooms:
        names = names_of(room)
        assert sorted(names) == sorted([("", "store.take"), *[("store", each.name) for each in store.objects]])
        for record in records_of(room.buffer):
            assert names[record["operation"]] == ("", "store.take")
            assert names[record["object"]][0] == "store"


def test_names_that_do_not_fit_begin_the_next_segment(store: Store) -> None:
    """Objects come and go by the million: a table that is full is no end of recording."""
    memory = Memory(capacity=10_000)
    recording = recorder(memory)
    _, account = taking(store)
    for number in range(1_500):
        shelf = store.add(Shelf(), key=str(number))
        shelf._name = f"{number}-" + "long" * 60
        action = Taking(shelf, "store.take", 3)
        recording.record(action, account, number)
    assert len(memory.rooms) == 2
    assert memory.prepared_count == 2, "the next was made in the lead, which stands still meanwhile"
    assert (sum(map(len, map(records_of, (room.buffer for room in memory.rooms)))), recording.lost_count) == (1_500, 0)
    for room in memory.rooms:
        names = names_of(room)
        assert all(names[record["object"]][0] == "store" for record in records_of(room.buffer))


def test_what_finds_no_room_is_counted_and_recording_goes_on_when_there_is_some(store: Store) -> None:
    """A full disk costs records, never the work, and is not hidden."""
    memory = Memory(capacity=2)
    recording = recorder(memory)
    _, account = taking(store)
    for number in range(6):
        memory.is_full = 2 <= number < 5
        recording.record(taking(store)[0], account, number)
    assert (recording.count, recording.lost_count) == (3, 3)
    assert len(memory.records()) == 3


def test_a_segment_that_has_become_old_is_followed_by_the_next(store: Store) -> None:
    """Or what is in it could be neither compacted nor removed by age; an empty one is not turned."""
    memory = Memory(capacity=8)
    recording = recorder(memory)
    _, account = taking(store)
    recording.turn()
    for number in range(4):
        recording.record(taking(store)[0], account, number)
        if number == 1:
            recording.turn()
    recording.close()
    assert memory.counts == [2, 2]


class Rejected(Exception):
    """Of a user's: what it calls its status is his."""

    status = "rejected"


class NotThere(Exception):
    """As those of HTTP clients are."""

    status = 404


@pytest.mark.parametrize("error", [Rejected(), NotThere()])
def test_what_a_user_calls_the_status_of_his_error_is_none_of_ours(store: Store, error: Exception) -> None:
    """It would be written down as another outcome, or, where it is no number, end the worker that books the action."""
    memory = Memory()
    action, account = taking(store, error=error)
    recorder(memory).record(action, account, 9_000)
    (found,) = memory.records()
    assert found["outcome"] == Status.INTERNAL


@pytest.mark.parametrize("deadline_ns", [2**63, 2**64 + 10**15, -(2**70)])
def test_a_deadline_beyond_64_bits_is_recorded_as_one_that_is_far_away(store: Store, deadline_ns: int) -> None:
    """A client may send one (MessagePack has unsigned integers): it must not end the worker that books its call."""
    memory = Memory()
    action, account = taking(store, deadline_ns=deadline_ns)
    recorder(memory).record(action, account, 9_000)
    (found,) = memory.records()
    assert found["margin"] > 2**60
