"""The view as a function: figures and a size in, lines out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.direction.health import Health
from appbackplane.supervisor.live import cells
from appbackplane.supervisor.live.columns import BACKPLANES, OPERATIONS, SIGNS, SORTS, chosen, table
from appbackplane.supervisor.live.figures import SystemFigures, figures
from appbackplane.supervisor.live.line import STYLES, Line, text
from appbackplane.supervisor.live.navigation import Navigation
from appbackplane.supervisor.live.view import HELP, names, report, screen

from .looks import account, backplane, board, look, statistics

MS = 1_000_000


def found() -> SystemFigures:
    """Four backplanes: one that works hard, one that idles, one that does not answer, and one that is dead."""
    limit = {"percent": 150, "by": "os (cgroup v2)"}
    search = account(wait_ns=[40_000] * 98 + [3 * MS] * 2, run_ns=[12_000] * 100, cpu_ms=50, errors=2)
    working = statistics(
        11.0, {"query.search": search}, process_ms=1_425.0, ready=[0, 1, 0, 40, 0, 0, 0, 2_000], queued=2_345,
        waiting=7, throttled=12, slow=3, boosts=5,
    )  # fmt: skip
    quiet = board(heartbeat_age=0.3, finished=10, queued=3)
    silent = {"state": "up", "health": "unknown", "board": quiet}
    dead = {"state": "failed", "health": "dead", "pid": None, "board": None, "reason": "killed by SIGKILL\x1b[2J"}
    before = look(
        60.0, backplane("query", statistics(10.0, process_ms=0.0)), backplane("index", statistics(10.0)),
        backplane("clinic", None, board=board(heartbeat_age=0.1)), backplane("mill", None, **dead),
    )  # fmt: skip
    now = look(
        61.0, backplane("query", working, health="busy", cpu_limit=limit, restarts=1), backplane("index", statistics(11.0)),
        backplane("clinic", None, **silent), backplane("mill", None, **dead, components={}),
    )  # fmt: skip
    return figures(before, now)


def shown(lines: list[Line]) -> list[str]:
    return [text(line).rstrip() for line in lines]


def test_eighty_columns() -> None:
    """What one sees in the smallest usual terminal, letter by letter."""
    assert shown(screen(found(), Navigation(), 80, 24))[:10] == [
        " demo  up  for 61 s, interpreted                       112 actions/s   cpu 142%",
        "",
        "                                     QUEUES                      WAIT     RUN",
        "  BACKPLANE  STATE        CPU        0 → low   QUEUED    RATE     p99     p99",
        "  query      ● primary    ███▊ 142%  ·▁·▅···█   2,345     100  3.0 ms   12 us",
        "  index      ○ primary    ····   0%  ········       0       0       -       -",
        "  clinic     ? primary    ····   0%  0.3s old       3      12       -       -",
        "  mill       ✕ failed             -  -              -       -       -       -",
        "",
        " ── query ─────────────────────────────────────────────────────────────────────",
    ]


def test_every_health_has_a_sign_and_what_is_bad_is_seen_without_colours() -> None:
    """A word that has no sign would end the view just when somebody has to look at it."""
    assert set(SIGNS) == {health.value for health in Health}
    assert len({sign for sign, _ in SIGNS.values()}) == len(Health)
    hangs = figures(None, look(61.0, backplane("query", None, health="wedged")))
    assert "! primary" in "\n".join(shown(screen(hangs, Navigation(), 80, 24)))
    assert "health wedged" in "\n".join(shown(screen(hangs, Navigation(), 80, 24)))


def test_what_does_not_fit_is_told_of_the_selected_row() -> None:
    """A narrow terminal shows less at a glance, and nothing less in all."""
    page = "\n".join(shown(screen(found(), Navigation(), 80, 24)))
    for fact in (
        "up for 60 s, pid 100, 1 worker · health busy · restarts 1",
        "cpu_limit 150% by os (cgroup v2) · components query=primary",
        "wait p50 41 us p99 3.0 ms · run p50 12 us p99 12 us · awaiting replies 7",
        "boosts 5 (+5) · throttled 12 (+12) · slow actions 3 (+3) · errors 2 (+2)",
        "priority 1: 1 (oldest 250 ms) · priority 3: 40 (oldest 250 ms) · priority 7: 2…",
    ):
        assert fact in page, page
    page = "\n".join(shown(screen(found(), Navigation(selected="clinic"), 80, 24)))
    assert "did not answer in time; from the board, 300 ms old" in page


def test_what_has_run_for_long_is_named() -> None:
    """That one action hangs helps who knows which."""
    running = [{"route": "good.forever", "object": "main/good.a", "running_ms": 11_000.0},
               {"route": "good.quick", "object": "main/good.b", "running_ms": 0.1}]  # fmt: skip
    held = board(running_for=11.0)
    named = figures(None, look(61.0, backplane("main", statistics(11.0, running=running), board=held)))
    silent = figures(None, look(61.0, backplane("main", None, board=held)))
    page = "\n".join(shown(screen(named, Navigation(), 160, 24)))
    assert "good.forever has run for 11 s on main/good.a" in page
    assert "good.quick" not in page
    assert "one action has been running for 11 s" in "\n".join(shown(screen(silent, Navigation(), 160, 24)))


def test_a_wide_terminal_has_all_columns_and_the_operations_below() -> None:
    """Room is used for what is known."""
    page = shown(screen(found(), Navigation(), 170, 50))
    for heading in ("HEALTH", "LIMIT", "REPLY", "BOOSTS", "TLED", "SLOW", "ERRORS", "STARTS", "FOR"):
        assert heading in page[3].split()
    assert page[4].split() == [
        "query", "●", "primary", "busy", "███▊", "142%", "150%", "·▁·▅···█", "2,345", "100", "41", "us", "3.0", "ms",
        "12", "us", "12", "us", "7", "5", "12", "3", "2", "1", "60", "s",
    ]  # fmt: skip
    assert any(line.split()[:1] == ["query.search"] for line in page)


def test_a_backplane_that_is_opened_shows_its_operations() -> None:
    """With what became of them."""
    page = shown(screen(found(), Navigation(opened="query"), 160, 24))
    assert page[0].startswith(" demo › query")
    row = next(line.split() for line in page if line.split()[:1] == ["query.search"])
    assert row[1:3] == ["100", "5%"]
    assert row[-6:] == ["100", "2", "0", "0", "0", "0"]
    gone = "\n".join(shown(screen(found(), Navigation(opened="nobody"), 80, 24)))
    assert "query" in gone, "what has gone is not an empty page"


def kernel(**more: Any) -> dict[str, Any]:
    """A request kernel as its backplane tells of it, with nothing to do."""
    nothing = {
        "ready": [0, 0, 0, 0], "executing": [0, 0, 0, 0], "rejoinable": [0, 0, 0, 0], "blocked": 0, "posting": 0, "ended": 0,
        "limits": {"workers": 4, "ready": 100, "rejoin": 1000},
    }  # fmt: skip
    return {**nothing, **more}


def test_requests_that_wait_for_workers_are_seen() -> None:
    """They are in no queue: a kernel with a full pool would look idle."""
    full = kernel(ready=[0, 1, 0, 99], executing=[0, 0, 1, 3], blocked=1, posting=2, rejoinable=[0, 0, 0, 7], ended=240)
    systems = {
        name: figures(
            look(60.0, *(backplane(each, statistics(10.0, requests={"press": kernel(ended=40)})) for each in before)),
            look(61.0, *(backplane(each, statistics(11.0, requests=told)) for each, told in now.items())),
        )
        for name, before, now in (
            ("with", ["mill"], {"mill": {"press": full}, "desk": {}}),
            ("without", [], {"desk": {}}),
        )
    }
    page = shown(screen(systems["with"], Navigation(), 80, 24))
    assert page[2].split() == ["QUEUES", "RE-", "WAIT"] and page[3].split()[-3:] == ["QUESTS", "RATE", "p99"]
    assert page[4].split()[-3:] == ["102", "0", "-"] and page[5].split()[-3:] == ["-", "-", "-"]
    assert (
        " requests of press: 100 of 100 ready · 4 of 4 executing, 1 of these wait for others · 2 wait for room"
        " · 7 of 1000 to rejoin · 200 ended a second"
    ) in shown(screen(systems["with"], Navigation(), 160, 24))
    assert not any("QUESTS" in line for line in shown(screen(systems["without"], Navigation(), 200, 24)))


def test_once_tells_of_all_that_did_not_answer() -> None:
    """There is no row to be selected there."""
    page = shown(report(found(), Navigation(), 200))
    assert " clinic: did not answer in time; from the board, 300 ms old" in page
    assert " mill: killed by SIGKILL [2J" in page
    assert not any("sort:" in line for line in page)


def test_before_the_first_figures_and_without_a_system_it_says_so() -> None:
    """An empty screen is a riddle."""
    assert "waiting for the first figures" in shown(screen(None, Navigation(), 80, 24))[0]
    assert "has ended" in shown(screen(found(), Navigation(), 80, 24, "has ended: waiting for it"))[0]
    assert "has ended" in shown(screen(None, Navigation(), 80, 24, "has ended: waiting for it"))[0]


def test_what_processes_said_obeys_nobody() -> None:
    """The last words of a process may be an escape sequence."""
    for lines in (report(found(), Navigation(), 200), screen(found(), Navigation(selected="mill"), 120, 40)):
        assert "\x1b" not in "".join(map(text, lines))


@given(
    st.integers(1, 250), st.integers(1, 60), st.sampled_from(SORTS), st.sampled_from([None, "query", "clinic", "gone"]),
    st.sampled_from([None, "mill", "query.search"]), st.booleans(),
)  # fmt: skip
def test_every_size_gets_a_whole_screen(
    width: int, height: int, sort: str, opened: str | None, selected: str | None, has_help: bool
) -> None:
    """A line too long wraps, and everything below it is wrong from then on."""
    lines = screen(found(), Navigation(sort, opened, selected, has_help), width, height)
    assert len(lines) == height
    assert max(len(text(line)) for line in lines) <= width
    assert {style for line in lines for _, style in line} <= set(STYLES)


def test_the_selected_row_is_always_to_be_seen() -> None:
    """Also the last of a hundred."""
    many = figures(None, look(1.0, *(backplane(f"b{n}", statistics(1.0)) for n in range(100))))
    for selected in ("b0", "b50", "b99"):
        lines = screen(many, Navigation(selected=selected), 80, 24)
        assert [text(line).split()[0] for line in lines if any(style == "selected" for _, style in line)] == [selected]


def test_sorting_puts_the_most_first_and_leaves_equals_alone() -> None:
    """Rows that dance cannot be read."""
    orders = {sort: names(found(), Navigation(sort=sort)) for sort in SORTS}
    assert orders["file"] == ["query", "index", "clinic", "mill"]
    assert orders["name"] == ["clinic", "index", "mill", "query"]
    assert orders["queued"] == ["query", "clinic", "index", "mill"]
    assert orders["restarts"] == orders["slow"] == ["query", "index", "clinic", "mill"]


def test_ranks_are_a_list_without_holes() -> None:
    """Two of one rank would be chosen together, or not at all."""
    for columns in (BACKPLANES, OPERATIONS):
        assert sorted(column.rank for column in columns) == list(range(1, len(columns) + 1))
    for room, more in itertools.pairwise(range(200)):
        assert {c.rank for c in chosen(BACKPLANES, room)} <= {c.rank for c in chosen(BACKPLANES, more)}


def test_no_column_is_cut() -> None:
    """Columns that do not fit are left out whole: half a number is a wrong one."""
    for width in range(40, 220):
        lines = table("BACKPLANE", BACKPLANES, found().backplanes, width, None)
        assert max(len(text(line)) for line in lines) <= width


def test_the_help_fits_the_smallest_usual_terminal() -> None:
    """Help that is cut off is none."""
    assert len(HELP) <= 24 - 3
    assert max(map(len, HELP)) < 80


@given(st.floats(0, 1e15))
def test_numbers_are_never_wider_than_their_column(value: float) -> None:
    """A column that gives way moves all others."""
    assert len(cells.count(value)) <= 6
    assert len(cells.rate(value)) <= 6
    assert len(cells.duration(min(value, 1e11))) <= 6, "for three thousand years"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "-"), (0, "0 us"), (12e-6, "12 us"), (999.4e-6, "999 us"), (999.6e-6, "1.0 ms"), (0.0031, "3.1 ms"),
        (0.21, "210 ms"), (0.9996, "1.0 s"), (9.96, "10 s"), (99.4, "99 s"), (99.6, "2 m"), (5969, "99 m"), (7200, "2 h"),
        (200_000, "2 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, said: str) -> None:
    """At the edges, where a unit ends."""
    assert cells.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "-"), (0, "0"), (9_999, "9,999"), (99_999, "99,999"), (100_000, "100k"), (99_900, "99,900"), (1_234_567, "1,235k"),
     (9_999_999, "10.0M")],
)  # fmt: skip
def test_counts(value: float | None, said: str) -> None:
    """At the edges."""
    assert cells.count(value) == said


def test_bars_grow_with_what_they_show() -> None:
    """And mean the same in each row, at each time."""
    assert text(cells.queue_bars([0, 1, 2, 4, 10, 32, 100, 320], 8)) == "·▁▂▃▄▅▆▇"
    assert text(cells.queue_bars([1000, 10**6], 8)) == "██"
    assert text(cells.queue_bars([0] * 7 + [1] * 10, 8)) == "·······▄", "what does not fit is the last one's"
    assert text(cells.share_bar(0.5, 1.0, 4)) == "██··"
    assert cells.share_bar(1.4, 1.5, 4)[0][1] == "warn"
    assert text(cells.share_bar(9.0, 1.5, 4)) == "████"
