"""Engine: what goes wrong on the link, and what an operation returns that cannot be sent."""

from __future__ import annotations

import pytest

from appbackplane.runtime import AppObject, Component, InternalError, operation, should_yield
from appbackplane.runtime.execution.loop.engine import DRAIN_MAX_NS, SHORT_NS
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import codec
from appbackplane.transport.batching import PEER_BYTES_MAX, SendResult
from appbackplane.transport.envelope import CALL, STATUS, Envelope, reply
from appbackplane.transport.errors import Status
from tests.nesting import UNREADABLE_DEPTH, nested


class Source(AppObject):
    """Returns strange things."""

    @operation()
    def strange(self) -> object:
        return object()

    @operation()
    def plain(self) -> int:
        return 1

    @operation()
    def quits(self) -> None:
        raise SystemExit(3)

    @operation()
    def large(self, size: int) -> bytes:
        return bytes(size)

    @operation()
    def slow(self) -> None:
        backplane.clock.work(0.2)

    @operation()
    def looks(self, at_ms: list[int]) -> None:
        for pause_ms in at_ms:
            backplane.clock.work(pause_ms / 1000)
            should_yield()


class Well(Component):
    """One source."""

    def setup(self) -> None:
        self.add(Source())


backplane: VirtualBackplane


@pytest.fixture(autouse=True)
def well() -> VirtualBackplane:
    global backplane
    backplane = VirtualBackplane(Well())
    return backplane


def test_a_malformed_frame_is_counted_and_the_rest_goes_on(
    well: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """DESIGN 6. Never fatal; logged once a peer, or a broken client would fill the disk."""
    _ = well.backplane
    for frame in (b"\xc1", b"\x91\x01", b"", b"\x93\x01\x02\x03"):
        well.link.deliver(b"stranger", frame)
    assert well.call("well.plain").result() == 1
    assert well.backplane.statistics()["links"]["malformed"] == 4
    assert caplog.text.count("malformed frame") == 1


def test_beside_a_call_that_cannot_be_read_the_others_of_its_frame_run(
    well: VirtualBackplane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls of the frame ended at their deadlines, since nobody heard of them."""
    bad = Envelope(CALL, 1, None, "well.plain", body={"x": nested(UNREADABLE_DEPTH)})
    good = Envelope(CALL, 2, None, "well.plain", body={})
    encoder = codec.Encoder()
    _ = well.backplane
    told: list[Envelope] = []

    def send(peer: bytes, frame: bytes) -> SendResult:
        assert peer == b"stranger"
        told.extend(codec.decode(frame))
        return SendResult.SENT

    monkeypatch.setattr(well.link, "send", send)
    well.link.deliver(b"stranger", codec.batch([encoder.encode(bad), encoder.encode(good)]))
    well.run_until_idle()
    refusal, answer = told
    assert (refusal.kind, refusal.id, refusal.is_refused) == (STATUS, 1, True)
    assert refusal.body[0] == Status.INVALID_ARGUMENT and "the call cannot be read" in refusal.body[1]
    assert answer == reply(2, 1)
    assert well.backplane.statistics()["links"]["malformed"] == 1


def test_a_result_that_cannot_travel_is_an_error(well: VirtualBackplane) -> None:
    """The caller is told, and the operation named, instead of waiting for its deadline."""
    error = well.call("well.strange").error()
    assert isinstance(error, InternalError)
    assert "well.strange returned what cannot be sent" in error.message


def test_a_result_above_the_limit_is_an_error(well: VirtualBackplane) -> None:
    """A frame has a bound; the bound has an answer."""
    assert "exceed the limit" in well.call("well.large", size=17 << 20).error().message


def test_sys_exit_ends_the_operation_and_not_the_worker(well: VirtualBackplane) -> None:
    """User code has no say over the process."""
    assert "SystemExit: 3" in well.call("well.quits").error().message
    assert well.call("well.plain").result() == 1


def test_a_peer_that_does_not_read_is_offered_its_answers_again(well: VirtualBackplane) -> None:
    """Backpressure, not loss: answers wait in order until the peer reads."""
    well.link.full.add(b"test")
    calls = [well.call("well.plain") for _ in range(3)]
    well.run_until_idle()
    assert not any(call.done() for call in calls)
    well.link.full.clear()
    well.advance(0.01)
    assert [call.result() for call in calls] == [1, 1, 1]


def test_a_peer_that_never_reads_is_bounded(well: VirtualBackplane) -> None:
    """Memory stays flat; what could not be kept is counted."""
    _ = well.backplane
    well.link.full.add(b"test")
    size = PEER_BYTES_MAX // 4
    for _ in range(6):
        well.call("well.large", size=size)
    well.run_until_idle()
    assert well.backplane.statistics()["links"]["undelivered"] >= 2


def test_a_peer_that_has_gone_is_forgotten(well: VirtualBackplane) -> None:
    """Its answers cannot be delivered; that is counted, and nothing is kept for it."""
    well.call("well.plain")
    well.link.gone.add(b"test")
    well.run_until_idle()
    assert well.backplane.statistics()["links"]["undelivered"] == 1
    assert not well.backplane.engine.outbox


def test_a_slow_action_is_counted_and_said(well: VirtualBackplane, caplog: pytest.LogCaptureFixture) -> None:
    """Law 11."""
    well.call("well.slow").result()
    figures = well.backplane.statistics()
    assert figures["slow_actions"] == 1
    assert figures["operations"]["well.slow"]["slow"] == 1
    assert "slow action: well.slow on virtual/well.0 ran 200.0 ms" in caplog.text


def test_statistics_count_every_action(well: VirtualBackplane) -> None:
    """Law 11. Queue wait, run time and CPU of each operation."""
    for _ in range(4):
        well.call("well.slow")
    well.run_until_idle()
    account = well.backplane.statistics()["operations"]["well.slow"]
    assert account["count"] == 4
    assert account["cpu_ms"] == 800.0
    assert account["run"]["p50_us"] == 200_000
    assert 500_000 <= account["wait"]["max_us"] <= 600_000


def test_how_long_an_action_goes_on_without_a_look_is_known(well: VirtualBackplane) -> None:
    """Of each run the longest stretch; one much longer than known hardly counts: the thread may have waited for a core."""
    account = well.backplane.engine.statistics.of("well.looks")
    for at_ms, unseen_us, typical_us in (
        ([2, 8, 2], 8_000, 12_000),
        ([8, 8, 8], 8_000, 13_500),
        ([16, 1, 80], 8_250, 23_937),
        ([1, 1, 1], 7_343, 21_320),
    ):
        well.call("well.looks", at_ms=at_ms)
        well.run_until_idle()
        assert (account.unseen_ns // 1000, account.typical_ns // 1000) == (unseen_us, typical_us)
    well.call("well.looks", at_ms=[])
    well.run_until_idle()
    assert account.unseen_ns // 1000 == 7_343  # too short to be of any account


@pytest.mark.parametrize(("typical_ns", "taken_count"), [(0, 3), (1_000, 1), (SHORT_NS, 3)])
def test_a_lone_call_after_a_wait_is_run_before_the_next_look(
    well: VirtualBackplane, typical_ns: int, taken_count: int
) -> None:
    """Only where it is known to be short, and only the first: whatever else has come would wait behind longer ones."""
    engine = well.backplane.engine
    for _ in range(3):
        well.call("well.plain")
    engine.statistics.of("well.plain").typical_ns = typical_ns
    engine.poll_leader.is_readable = True
    engine.drain(well.clock.now_ns())
    assert engine.scheduler.queued_count == taken_count
    engine.drain(well.clock.now_ns())
    assert engine.scheduler.queued_count == 3
    assert not well.link.has_input()


def test_malformed_frames_take_no_longer_than_a_drain(well: VirtualBackplane) -> None:
    """One of a megabyte takes 0.2 s to look through. Accepted calls waited for up to 64 of them."""
    engine = well.backplane.engine
    for _ in range(3):
        well.link.deliver(b"stranger", b"\xc1")
    now_ns = well.clock.now_ns()
    engine.now_ns = lambda: now_ns + DRAIN_MAX_NS
    engine.drain(now_ns)
    assert well.backplane.statistics()["links"]["malformed"] == 1 and well.link.has_input()
