"""Likeness: a hint, and no more than it may cost."""

from appbackplane.transport.peers.likeness import COMPARED_MAX, NAMES_MAX, PERIOD_NS, Likeness

NAMES = [f"calc.add_{number}" for number in range(NAMES_MAX)]


def test_it_is_looked_for_no_more_often_than_the_thread_bears() -> None:
    """One frame of 4,096 calls, of which each was compared with 256 routes, kept a node from its peers for over a minute."""
    one = Likeness()
    told = [one.nearest("calc.ad_7", NAMES, PERIOD_NS) for _ in range(COMPARED_MAX // NAMES_MAX + 2)]
    assert told == ["calc.add_7"] * (COMPARED_MAX // NAMES_MAX) + [None] * 2
    assert one.nearest("calc.ad_7", NAMES, 2 * PERIOD_NS - 1) is None
    assert one.nearest("calc.ad_7", NAMES, 2 * PERIOD_NS) == "calc.add_7"


def test_among_more_than_it_can_bear_it_is_not_looked_for() -> None:
    """And that takes nothing from those who come later."""
    one = Likeness()
    assert one.nearest("calc.ad_7", [*NAMES, "one more"], PERIOD_NS) is None
    assert one.nearest("calc.ad_7", NAMES, PERIOD_NS) == "calc.add_7"
