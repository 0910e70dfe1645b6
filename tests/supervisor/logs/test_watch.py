"""When a ring is looked at: soon when it has something, never when it has not, and what is lost is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.logs.watch import LOOK_NS, REPORT_NS, LogWatch


class PlayedRing:
    """A ring whose writer is the test."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.lost_count = 0
        self.torn = False
        self.sleeps = self.has_called = False

    def write(self, line: bytes) -> None:
        """As the other end does."""
        self.lines.append(line)
        if self.sleeps:
            self.sleeps, self.has_called = False, True

    def read(self, bytes_max: int) -> list[bytes]:
        found, self.lines = ([], self.lines) if self.torn else (self.lines[:2], self.lines[2:])
        return found

    def is_empty(self) -> bool:
        return not self.lines

    def sleep(self) -> None:
        self.sleeps = True

    def wake(self) -> None:
        self.has_called = False


def test_a_silent_ring_is_left_alone() -> None:
    """An idle system uses no CPU."""
    ring = PlayedRing()
    watch = LogWatch(ring, 0)
    assert watch.look(0) == []
    assert watch.look_at_ns == LOOK_NS
    assert watch.look(LOOK_NS) == []
    assert watch.look_at_ns is None
    assert ring.sleeps


def test_a_flood_is_taken_in_parts_at_once() -> None:
    """And not a part every 20 ms, or it would be lost."""
    ring = PlayedRing()
    ring.lines = [b"1", b"2", b"3"]
    watch = LogWatch(ring, 0)
    assert watch.look(5) == [b"1", b"2"]
    assert watch.look_at_ns == 5
    assert watch.look(5) == [b"3"]
    assert watch.look_at_ns == 5 + LOOK_NS


def test_a_line_that_is_not_whole_is_looked_at_again() -> None:
    """Its other half may be on its way from another core."""
    ring = PlayedRing()
    ring.lines, ring.torn = [b"1"], True
    watch = LogWatch(ring, 0)
    assert watch.look(0) == []
    assert (watch.look_at_ns, ring.sleeps) == (LOOK_NS, False)


@given(st.lists(st.sampled_from(["write", "look", "lose"]), max_size=40))
def test_no_line_waits_for_ever(steps: list[str]) -> None:
    """Whatever comes between: either a look is due, or the ring will call, or there is nothing."""
    ring, now_ns, said, found = PlayedRing(), 0, 0, 0
    watch = LogWatch(ring, now_ns)
    for step in [*steps, *["look"] * 5]:
        if step == "write":
            ring.write(b"x")
            said += 1
        elif step == "lose":
            ring.lost_count += 1
            if ring.sleeps:
                ring.sleeps, ring.has_called = False, True
        else:
            now_ns = now_ns + LOOK_NS
            if ring.has_called:
                watch.wake(now_ns)
            if watch.look_at_ns is not None and watch.look_at_ns <= now_ns:
                found += len(watch.look(now_ns))
        assert ring.is_empty() or watch.look_at_ns is not None or ring.has_called
    while watch.look_at_ns is not None:
        now_ns = max(now_ns, watch.look_at_ns)
        found += len(watch.look(now_ns))
        watch.reported(watch.newly_lost(now_ns), now_ns)
    assert found == said
    assert watch.unreported == 0


def test_lost_lines_are_told_once_a_second() -> None:
    """A flood that lasts must not be answered with another; and what is left of it is told when it is over."""
    ring = PlayedRing()
    watch = LogWatch(ring, 0)
    ring.lost_count = 5
    watch.look(10)
    assert watch.newly_lost(10) == 5
    watch.reported(5, 10)
    ring.lost_count = 8
    watch.look(20)
    assert (watch.newly_lost(20), watch.unreported) == (0, 3)
    assert watch.look_at_ns is not None, "it is not left alone before that has been told"
    assert watch.newly_lost(10 + REPORT_NS) == 3
