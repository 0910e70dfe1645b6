"""Paced log: what others can bring about fills no disk, and gives a terminal no orders."""

from __future__ import annotations

import logging

import pytest

from appbackplane.runtime.peers.paced_log import LENGTH_MAX, PERIOD_NS, SUBJECTS_MAX, PacedLog

LOG = logging.getLogger("test.paced")


class Clock:
    """Set by a test."""

    now_ns = PERIOD_NS

    def __call__(self) -> int:
        """What it shows."""
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    """At some time."""
    return Clock()


def test_who_makes_up_subjects_is_not_told_of_without_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A trusted key said hello by one wrong name after the other: a line each, as fast as it could say it."""
    paced = PacedLog(LOG, clock)
    for number in range(10 * SUBJECTS_MAX):
        paced.warn(f"{number} was refused as a peer")
    assert len(caplog.records) == SUBJECTS_MAX
    paced.warn("0 was refused as a peer")
    assert len(caplog.records) == SUBJECTS_MAX, "and what was said is remembered"
    clock.now_ns += PERIOD_NS
    paced.warn("0 was refused as a peer")
    paced.warn("something else")
    assert len(caplog.records) == SUBJECTS_MAX + 2


def test_words_of_others_stay_on_their_line(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """An address with a line break in it wrote a line of its own, in whose name it liked."""
    paced = PacedLog(LOG, clock)
    paced.warn("tcp://10.0.0.1:1\nall is well\x1b[2J cannot be reached", "it\nsays")
    paced.warn("x" * 5_000, "y" * 5_000)
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "tcp://10.0.0.1:1\\nall is well\\x1b[2J cannot be reached: 'it\\nsays'"
    assert len(second) == 2 * LENGTH_MAX + len(": ''")
