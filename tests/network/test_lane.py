"""One direction of a bad link: what it may do to bytes (be late, flip their bits) and what it may never (lose, reorder)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.faults import NOTHING_WRONG, SEGMENT_BYTES, Faults
from tests.network.lane import FLYING_BYTES_MAX, SECOND_NS, TURN_NS, End, Flow, Lane

MS = 1_000_000
RATE = 1_250_000  # 10 Mbit/s


def lane_with(faults: Faults, seed: int = 1, now_ns: int = 0) -> Lane:
    """One that is as bad as that."""
    lane = Lane("up", seed)
    lane.set(faults, now_ns)
    return lane


def taken(lane: Lane, flow: Flow, data: bytes, now_ns: int = 0, *, has_more: bool = False) -> Flow:
    """The flow, with bytes that were read."""
    lane.take(flow, memoryview(data), now_ns, has_more=has_more)
    return flow


def come_out(lane: Lane, flow: Flow, now_ns: int) -> bytes:
    """What is out by now."""
    lane.advance(now_ns)
    out = bytearray()
    while (piece := lane.due(flow, now_ns)) is not None:
        assert not isinstance(piece, End)
        lane.sent(flow, len(piece))
        out += piece
    return bytes(out)


def run_dry(lane: Lane, flows: list[Flow], now_ns: int) -> tuple[list[bytes], list[int]]:
    """All that comes out of each, by following `next_ns` alone; and when each was done."""
    out = [b"" for _ in flows]
    done_ns = [now_ns for _ in flows]
    while True:
        for number, flow in enumerate(flows):
            if more := come_out(lane, flow, now_ns):
                out[number] += more
                done_ns[number] = now_ns
        due_ns = lane.next_ns(now_ns)
        if due_ns is None:
            return out, done_ns
        assert due_ns > now_ns, "it would be asked again and again"
        now_ns = due_ns


FAULTS = st.builds(
    Faults,
    delay_s=st.sampled_from([0.0, 0.001, 0.05]),
    jitter_s=st.sampled_from([0.0, 0.02]),
    rate=st.sampled_from([None, 5000, RATE]),
    is_fair=st.booleans(),
    loss=st.sampled_from([0.0, 0.05, 0.5]),
    rto_s=st.just(0.2),
)


@settings(deadline=None)
@given(faults=FAULTS, seed=st.integers(0, 99), pieces=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4000))))
def test_nothing_is_lost_reordered_or_early(faults: Faults, seed: int, pieces: list[tuple[int, int]]) -> None:
    """A stream is a stream whatever the link does: a test that is told otherwise would look for faults that are ours."""
    lane, draws, now_ns = lane_with(faults, seed), random.Random(seed), 0
    flows = [lane.flow() for _ in range(3)]
    sent = [b"", b"", b""]
    out = [b"", b"", b""]
    for number, size in pieces:
        data = draws.randbytes(size)
        sent[number] += data
        taken(lane, flows[number], data, now_ns)
        now_ns += draws.randrange(30 * MS)
        for other, flow in enumerate(flows):
            out[other] += come_out(lane, flow, now_ns)
            assert sent[other].startswith(out[other])
    rest, done_ns = run_dry(lane, flows, now_ns)
    assert [a + b for a, b in zip(out, rest, strict=True)] == sent
    if pieces and faults.rate:
        assert max(done_ns) >= sum(map(len, sent)) * SECOND_NS // faults.rate
    assert [flow.is_empty for flow in flows] == [True] * 3 and lane.next_ns(10 * max(done_ns)) is None


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30))
@settings(deadline=None, max_examples=40)
def test_the_rate_holds_whoever_looks_late(waits_ms: list[int]) -> None:
    """On a busy machine nobody looks in time; a link that were slower for it would make every figure the machine's."""
    lane, now_ns, passed = lane_with(Faults(rate=RATE)), 0, 0
    flow = lane.flow()
    for wait_ms in waits_ms:
        while room := lane.room(flow, now_ns):  # its source never runs dry
            taken(lane, flow, bytes(room), now_ns, has_more=True)
            passed += len(come_out(lane, flow, now_ns))
        now_ns += wait_ms * MS
        passed += len(come_out(lane, flow, now_ns))
    while room := lane.room(flow, now_ns):
        taken(lane, flow, bytes(room), now_ns, has_more=True)
        passed += len(come_out(lane, flow, now_ns))
    turn = max(SEGMENT_BYTES, RATE * TURN_NS // SECOND_NS)
    assert 0 <= now_ns * RATE // SECOND_NS - passed <= turn


def test_a_wire_that_was_idle_owes_nothing() -> None:
    """Time that was not used is gone, or the first bulk after a pause would pass as if there were no limit."""
    lane = lane_with(Faults(rate=RATE))
    flow = lane.flow()
    run_dry(lane, [taken(lane, flow, bytes(1000))], 0)
    later_ns = 60 * SECOND_NS
    _, (done_ns,) = run_dry(lane, [taken(lane, flow, bytes(12_500), later_ns)], later_ns)
    assert done_ns == later_ns + 10 * MS


def test_connections_take_turns_on_the_wire() -> None:
    """Where queues are separate, an urgent frame waits for the turn that is on the wire, not for all the bulk."""
    lane = lane_with(Faults(rate=RATE))
    bulk, urgent = taken(lane, lane.flow(), bytes(25_000)), taken(lane, lane.flow(), bytes(125))
    _, (bulk_ns, urgent_ns) = run_dry(lane, [bulk, urgent], 0)
    assert bulk_ns == pytest.approx(20.1 * MS, rel=0.001)
    assert urgent_ns == (SEGMENT_BYTES + 125) * SECOND_NS // RATE


def test_or_the_first_come_is_the_first_sent() -> None:
    """As in a router with one queue: the case against which separate connections alone do not help."""
    lane = lane_with(Faults(rate=RATE, is_fair=False))
    bulk, urgent = taken(lane, lane.flow(), bytes(25_000)), taken(lane, lane.flow(), bytes(125), 1)
    _, (bulk_ns, urgent_ns) = run_dry(lane, [bulk, urgent], 0)
    assert bulk_ns == pytest.approx(20 * MS, rel=0.001)
    assert urgent_ns == pytest.approx(20.1 * MS, rel=0.001)


@pytest.mark.parametrize("is_fair", [True, False])
def test_bulk_without_end_starves_nobody(is_fair: bool) -> None:
    """Who never runs dry is still not always first: what came later than a ping is sent later."""
    lane = lane_with(Faults(rate=RATE, is_fair=is_fair))
    bulk, urgent, now_ns = lane.flow(), lane.flow(), 0
    out = b""
    while not out:
        while room := lane.room(bulk, now_ns):
            taken(lane, bulk, bytes(room), now_ns, has_more=True)
            come_out(lane, bulk, now_ns)
        if now_ns == 100 * MS:
            taken(lane, urgent, b"ping", now_ns)
        out = come_out(lane, urgent, now_ns)
        now_ns += MS // 2
        assert now_ns < 130 * MS


def test_what_does_not_fit_stays_with_its_sender() -> None:
    """A link that took all there is would hide from the sender that it is slow."""
    lane = lane_with(Faults(rate=RATE, queue_s=0.02))
    flow = lane.flow()
    read = 0
    while room := lane.room(flow, 0):
        read += len(taken(lane, flow, bytes(room)).waiting[-1].data)
    assert RATE * 0.02 - SEGMENT_BYTES < read <= RATE * 0.02
    far = lane_with(Faults(delay_s=10.0))
    flow, read = far.flow(), 0
    while room := far.room(flow, 0):
        taken(far, flow, bytes(room))
        read += room
    assert read == FLYING_BYTES_MAX


@pytest.mark.parametrize("rate", [None, RATE])
def test_a_stall_holds_everything_for_its_time(rate: int | None) -> None:
    """And then all comes, in order; the wire has not worked meanwhile."""
    lane = lane_with(Faults(rate=rate))
    flow = taken(lane, lane.flow(), b"before", 0)
    lane.stall(100 * MS)
    assert lane.room(flow, 99 * MS) == 0
    assert come_out(lane, flow, 99 * MS) == b""
    assert lane.next_ns(0) == 100 * MS
    assert run_dry(lane, [flow], 100 * MS)[0] == [b"before"]


def test_a_cut_holds_until_it_is_healed() -> None:
    """Nothing is lost in between: TCP repeats what it has no answer to, for a quarter of an hour."""
    lane = lane_with(NOTHING_WRONG)
    flow = taken(lane, lane.flow(), b"before")
    lane.is_cut = True
    assert (
        come_out(lane, flow, SECOND_NS) == b"" and lane.room(flow, SECOND_NS) == 0 and lane.next_ns(SECOND_NS) is None
    )
    lane.heal(SECOND_NS)
    assert come_out(lane, flow, SECOND_NS) == b"before" and lane.room(flow, SECOND_NS) > 0


def test_a_loss_that_is_seen_is_repaired_in_a_round_trip() -> None:
    """Three segments behind it tell of the gap (RFC 5681); nothing behind it, and only the clock does, with rto_s."""
    lane = lane_with(Faults(loss=0.999_999, rto_s=0.2, delay_s=0.01))
    lane.round_trip_ns = 20 * MS
    lane.faults = Faults(loss=1e-9, rto_s=0.2, delay_s=0.01)  # lost once, and then never again
    flow = lane.flow()
    flow.draw(Faults(loss=0.999_999))
    _, (seen_ns,) = run_dry(lane, [taken(lane, flow, bytes(10 * SEGMENT_BYTES))], 0)
    flow.draw(Faults(loss=0.999_999))
    now_ns = SECOND_NS
    _, (unseen_ns,) = run_dry(lane, [taken(lane, flow, bytes(64), now_ns)], now_ns)
    assert lane.loss_count == 2
    assert (seen_ns, unseen_ns - now_ns) == (30 * MS, 210 * MS)


def test_losses_are_as_frequent_as_asked_for_and_the_same_again() -> None:
    """A failure under loss is looked at again with the same losses at the same places."""

    def lost(seed: int) -> list[int]:
        lane = lane_with(Faults(loss=0.05), seed)
        flow, counts = lane.flow(), []
        for _ in range(4000):
            taken(lane, flow, bytes(64))
            counts.append(lane.loss_count)
        return counts

    assert lost(1) == lost(1) != lost(2)
    assert 160 <= lost(1)[-1] <= 240  # 200 ± 3 sigma


def test_a_connection_in_repair_is_not_read() -> None:
    """What its sender has to say queues there, as behind a TCP window that does not move; others are not held."""
    lane = lane_with(Faults(loss=0.999, rto_s=0.2))
    flow = taken(lane, lane.flow(), bytes(64))
    assert lane.room(flow, 100 * MS) == 0
    assert lane.room(lane.flow(), 100 * MS) > 0


def test_the_wire_does_not_make_up_for_a_repair() -> None:
    """While a connection repairs its loss the wire is idle; that time is gone, however much waits in its sender."""
    lane = lane_with(Faults(rate=RATE, loss=0.000_001, rto_s=0.2))
    lane.round_trip_ns = 200 * MS
    flow, now_ns = lane.flow(), 0
    flow.draw(Faults(loss=0.999_999))
    passed: list[int] = []
    while now_ns < 300 * MS:
        while room := lane.room(flow, now_ns):
            taken(lane, flow, bytes(room), now_ns, has_more=True)
            passed.append(len(come_out(lane, flow, now_ns)))
        passed.append(len(come_out(lane, flow, now_ns)))
        now_ns += MS
    assert lane.loss_count == 1
    assert sum(passed) <= RATE * 0.02 + RATE * 0.1 + SEGMENT_BYTES


def test_flipped_bits_are_counted_and_the_same_again() -> None:
    """One bit a byte that is hit, and not one byte more or less."""

    def flipped(size: int) -> tuple[bytes, int]:
        lane = lane_with(Faults(corrupt=0.01), seed=7)
        flow, out = lane.flow(), b""
        for _ in range(100_000 // size):
            out += come_out(lane, taken(lane, flow, bytes(size)), 0)
        return out, lane.flip_count

    data, count = flipped(1000)
    assert count == sum(byte.bit_count() for byte in data) == sum(byte > 0 for byte in data)
    assert 900 <= count <= 1100  # 1000 ± 3 sigma
    assert flipped(250) == (data, count), "wherever reads happen to end"


def test_an_end_comes_behind_the_last_byte_and_a_reset_before_what_waits() -> None:
    """FIN is as late as all else; RST is not: what the sender's kernel has not sent yet is gone."""
    lane = lane_with(Faults(rate=RATE, delay_s=0.01))
    finished, reset = (taken(lane, lane.flow(), bytes(SEGMENT_BYTES)) for _ in range(2))
    lane.end(finished, End.FINISHED, 0)
    lane.end(reset, End.RESET, 0)
    lane.advance(SECOND_NS)
    assert [piece if isinstance(piece, End) else len(piece) for _, piece in finished.flying] == [
        SEGMENT_BYTES,
        End.FINISHED,
    ]
    assert [piece for _, piece in reset.flying] == [End.RESET]
    assert lane.room(finished, SECOND_NS) == lane.room(reset, SECOND_NS) == 0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"delay_s": -1}, "delay_s is -1: give seconds, 0 or more"),
        ({"loss": 5}, "loss is 5: give a share, 0 or more and less than 1"),
        ({"rate": 10}, "rate is 10: give bytes a second, 1448 or more, or None for no limit"),
    ],
)
def test_what_no_link_can_be_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    """5 % is 0.05: a link that loses everything is a cut."""
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        Faults(**wrong)
