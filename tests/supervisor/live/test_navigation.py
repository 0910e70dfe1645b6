"""Keys: which one was pressed, and what is looked at then."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.live.columns import SORTS
from appbackplane.supervisor.live.navigation import _SEQUENCES, Keys, Navigation, press

NAMES = ["query", "index", "store"]


def after(*keys: str, names: list[str] = NAMES) -> Navigation | None:
    now: Navigation | None = Navigation()
    for key in keys:
        assert now is not None
        now = press(now, key, names)
    return now


def test_the_selection_goes_up_and_down_and_stays_within() -> None:
    """The first row is the one that the keys begin at."""
    assert after("down") == Navigation(selected="index")
    assert after("down", "down", "down", "down") == Navigation(selected="store")
    assert after("end", "up", "up", "up") == Navigation(selected="query")
    assert after("page down", "home") == Navigation(selected="query")
    assert after("down", names=[]) == Navigation()


def test_enter_opens_what_is_selected_and_esc_goes_back_to_it() -> None:
    """Whoever comes back stands where he was."""
    assert after("enter") == Navigation(opened="query")
    opened = after("down", "enter")
    assert opened == Navigation(opened="index")
    assert press(Navigation(opened="index"), "esc", ["index.find"]) == Navigation(selected="index")
    assert after("esc") == Navigation()
    assert after("enter", names=[]) == Navigation()


def test_a_row_that_has_gone_is_not_selected_any_more() -> None:
    """A backplane may go while it is looked at; enter then opens what is there."""
    assert press(Navigation(selected="gone"), "enter", NAMES) == Navigation(opened="query")
    assert press(Navigation(selected="gone"), "down", NAMES) == Navigation(selected="index")


def test_s_goes_through_all_orders_and_back() -> None:
    """None is out of reach."""
    assert after(*["s"] * len(SORTS)) == Navigation()
    assert after("s", "S") == Navigation()
    assert after("S") == Navigation(sort=SORTS[-1])


def test_help_goes_with_any_key_and_q_ends() -> None:
    """Who looks for the way out of help must not end the program by it."""
    assert after("?") == Navigation(has_help=True)
    assert after("?", "q") == Navigation()
    assert after("q") is None
    assert after("ctrl-c") is None
    assert after("x") == Navigation()


def test_each_key_is_recognised_wherever_a_read_ends() -> None:
    """A slow line delivers an arrow in two pieces; taken for ESC, it would leave the page."""
    for sequence, name in _SEQUENCES.items():
        for at in range(1, len(sequence)):
            keys = Keys()
            assert keys.feed(sequence[:at]) == []
            assert keys.is_unsure
            assert keys.feed(sequence[at:] + b"q") == [name, "q"]


def test_a_lone_escape_is_one_once_nothing_follows() -> None:
    """The same byte begins an arrow."""
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.settle() == ["esc"]
    assert keys.settle() == []
    assert Keys().feed(b"\x1bq") == ["esc", "q"]
    assert Keys().feed(b"\x1b[33~q\r\x03") == ["q", "enter", "ctrl-c"], "a key that we do not know is skipped whole"


@given(st.binary(max_size=40))
def test_no_bytes_are_a_problem(data: bytes) -> None:
    """A paste into the window."""
    keys = Keys()
    for key in [*keys.feed(data), *keys.settle()]:
        press(Navigation(), key, NAMES)
