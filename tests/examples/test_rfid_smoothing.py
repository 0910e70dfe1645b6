"""Smoothing: passes are found in reads that are repeated, missed and stray; against a slow twin, and in simulated worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rfid import smoothing
from rfid.llrp import Llrp, report_frame, round_frame
from rfid.messages import ReaderEvent, ReadsReported, TagRead
from rfid.smoothing import CLOCK_STEP_US, Smoother, SmoothingPolicy, TagArrival, TagDeparture
from rfid.world import REPORT_US, TagPass, TagWorld

POLICY = SmoothingPolicy(reads_min=3, window_us=50, gone_us=150)


def read(epc: str, time_us: int, count: int = 1) -> TagRead:
    """Reads of one moment."""
    return TagRead(epc, 1, -50, time_us, time_us, count)


def test_a_tag_is_present_with_its_third_read() -> None:
    """Since its first, which is when it came."""
    smoother = Smoother(POLICY)
    assert smoother.take([read("a", 100)]) == smoother.take([read("a", 120)]) == []
    assert smoother.take([read("a", 140)]) == [TagArrival("a", 100)]
    assert smoother.take([read("a", 160)]) == [], "it is told once"


def test_one_report_may_have_all_reads() -> None:
    """A reader accumulates them."""
    assert Smoother(POLICY).take([TagRead("a", 1, -50, 60, 100, 3)]) == [TagArrival("a", 60)]


def test_reads_outside_of_the_window_do_not_count() -> None:
    """The window is half open: a read that is exactly as old as it is long has left it."""
    smoother = Smoother(POLICY)
    for time_us in (100, 120, 150, 200, 250):
        assert smoother.take([read("a", time_us)]) == []
    smoother.pass_to(300)
    assert smoother.stray_count == 3, "the window was empty at 200, 250 and 300"


def test_a_tag_that_is_not_read_is_gone() -> None:
    """With the number of its reads, at the time of the last. Then it may come again."""
    smoother = Smoother(POLICY)
    smoother.take([read("a", 100, 3)])
    smoother.take([read("a", 120, 2)])
    assert smoother.pass_to(269) == []
    assert smoother.pass_to(270) == [TagDeparture("a", 120, 5)]
    assert smoother.pass_to(999) == []
    assert smoother.take([read("a", 1_000, 3)]) == [TagArrival("a", 1_000)]


def test_the_reads_of_others_tell_the_time() -> None:
    """A busy door needs no round events."""
    smoother = Smoother(POLICY)
    smoother.take([read("a", 100, 3)])
    assert smoother.take([read("b", 300)]) == [TagDeparture("a", 100, 3)]


def test_a_tag_is_gone_while_an_earlier_one_is_still_there() -> None:
    """The order is that of the last reads, or a pallet that stays at a door would keep all others present."""
    smoother = Smoother(POLICY)
    smoother.take([read("a", 100, 3), read("b", 110, 3)])
    smoother.take([read("a", 120)])
    assert smoother.pass_to(260) == [TagDeparture("b", 110, 3)]


def test_late_reads_keep_a_tag_present_and_very_late_ones_are_ignored() -> None:
    """A read from before a tag would be gone says nothing about now."""
    smoother = Smoother(POLICY)
    smoother.take([read("a", 1_000, 3)])
    assert smoother.take([read("a", 900)]) == []
    assert smoother.take([read("b", 850, 5)]) == []
    assert smoother.ignored_count == 1


@pytest.mark.parametrize("step_us", [CLOCK_STEP_US + 1, -CLOCK_STEP_US - 1])
def test_a_clock_that_was_set_begins_anew(step_us: int) -> None:
    """One wrong time would otherwise make all later reads too old, for ever."""
    smoother = Smoother(POLICY)
    smoother.take([read("a", 10**13, 3)])
    assert smoother.take([read("b", 10**13 + step_us, 3)]) == [
        TagDeparture("a", 10**13, 3),
        TagArrival("b", 10**13 + step_us),
    ]


def test_a_flood_of_epcs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes tags can invent any number."""
    monkeypatch.setattr(smoothing, "TAGS_MAX", 2)
    smoother = Smoother(POLICY)
    assert smoother.take(read(epc, 100, 3) for epc in "ab") == [TagArrival("a", 100), TagArrival("b", 100)]
    assert smoother.take(read(epc, 100, 3) for epc in "cc") == [], "two are present"
    assert smoother.take(read(epc, 100) for epc in "def") == [], "two may be strays"
    assert smoother.ignored_count == 3


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab"), st.integers(1, 3)), max_size=40))
def test_the_slow_twin_agrees(given_reads: Sequence[tuple[int, str, int]]) -> None:
    """Each tag by itself, with all its reads kept, and every moment looked at."""
    smoother, now_us, found, known = Smoother(POLICY), 0, list[object](), list[TagRead]()
    for step_us, epc, count in given_reads:
        now_us += step_us
        known.append(read(epc, now_us, count))
        found += smoother.take([known[-1]])
    found += smoother.pass_to(now_us + 1_000)
    expected = [each for epc in "ab" for each in twin([each for each in known if each.epc == epc], now_us + 1_000)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def twin(known: Sequence[TagRead], end_us: int) -> list[object]:
    """The changes of one tag."""
    found, is_present, first = list[object](), False, 0
    for time_us in range(end_us + 1):
        before = [each for each in known[first:] if each.last_us < time_us]
        if is_present and before and before[-1].last_us <= time_us - POLICY.gone_us:
            found.append(TagDeparture(before[-1].epc, before[-1].last_us, sum(each.count for each in before)))
            is_present, first = False, first + len(before)
        elif not is_present and before and before[-1].last_us <= time_us - POLICY.window_us:
            first += len(before)
        for number, each in enumerate(known):
            if each.last_us == time_us and not is_present:
                recent = [one for one in known[first : number + 1] if one.last_us > time_us - POLICY.window_us]
                if sum(one.count for one in recent) >= POLICY.reads_min:
                    found.append(TagArrival(each.epc, recent[0].first_us))
                    is_present = True
    return found


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_each_pass_of_a_world_is_found_once_and_no_stray(seed: int, antennas: int) -> None:
    """Through the bytes of LLRP. A pass that is found twice is a pallet that is billed twice.

    A read that is reported twice counts as late the second time, so a pass may seem longer by one report.
    """
    world = TagWorld(seed, tags=5, antennas=antennas)
    smoothers = {antenna: Smoother(SmoothingPolicy()) for antenna in range(1, antennas + 1)}
    found, ended, framing, buffer = list[TagPass](), list[TagPass](), Llrp("dock"), bytearray()
    for step in world.steps:
        buffer += report_frame(1, step.reads) + (round_frame(2, step.time_us) if step.is_round else b"")
        while (frame := framing.split(buffer)) is not None:
            message = framing.message_of(frame)
            for antenna, smoother in smoothers.items():
                if isinstance(message, ReadsReported):
                    changes = smoother.take(each for each in message.reads if each.antenna == antenna)
                else:
                    assert isinstance(message, ReaderEvent)
                    assert message.time_us is not None
                    changes = smoother.pass_to(message.time_us)
                for change in changes:
                    if isinstance(change, TagArrival):
                        found.append(TagPass(antenna, change.epc, change.first_us, 0))
                    else:
                        [began] = [each for each in found if (each.antenna, each.epc) == (antenna, change.epc)]
                        found.remove(began)
                        ended.append(replace(began, last_us=change.last_us))
    assert found == []
    for one, true in zip(sorted(ended, key=repr), sorted(world.passes, key=repr), strict=True):
        assert one == replace(true, last_us=one.last_us)
        assert 0 <= one.last_us - true.last_us <= REPORT_US
    assert world.stray_count or antennas == 1


def test_a_seed_names_one_world() -> None:
    """A failure is replayed by its seed."""
    assert TagWorld(7).steps == TagWorld(7).steps != TagWorld(8).steps
