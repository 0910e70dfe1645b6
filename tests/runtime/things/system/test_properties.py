"""The figures and events of a backplane: from two answers of the supervisor in a row, and of nothing else."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from appbackplane.runtime.things.system.properties import (
    BackplaneProperties,
    Death,
    Start,
    cpu_share,
    news_of,
    properties_of,
)
from appbackplane.runtime.things.system.status import BackplaneEntry, ProcessState, reason_of, status_of
from appbackplane.supervisor.direction.child.process import LIVING, Phase

from .answers import board, entry, statistics, status


def read(**fields: Any) -> BackplaneEntry:
    """A backplane in an answer."""
    return status_of(status(entry(**fields))).backplanes[0]


def told(now: BackplaneEntry, known: BackplaneProperties | None = None, **facts: Any) -> BackplaneProperties:
    """Its properties, with figures that do not matter."""
    return properties_of(now, known or BackplaneProperties(), **{"cpu": 10.0, "memory": 1_000_000, **facts})


def test_the_states_are_those_of_the_supervisor() -> None:
    """A state that is not in the type would be refused, and all things would keep their values."""
    assert set(get_args(ProcessState)) == {phase.value for phase in Phase}
    registered = {phase.value for phase in Phase if read(state=phase.value).is_registered}
    assert registered == {phase.value for phase in LIVING} - {"starting", "killed"}


def test_an_answer_of_another_version_is_an_error() -> None:
    """And not a figure that is made up."""
    answer = status(entry())
    del answer["backplanes"][0]["deaths"]
    with pytest.raises(msgspec.ValidationError, match="deaths"):
        status_of(answer)


def test_the_share_of_a_core_is_that_between_two_heartbeats() -> None:
    """The answers come whenever they come; the figures in them were written a moment before."""
    before, now = read(board=board(cpu=1.0, age=0.05)), read(board=board(cpu=1.5, age=0.25))
    assert cpu_share(before, now, 1.2) == pytest.approx(50.0)
    assert cpu_share(None, now, 1.0) is None
    assert cpu_share(read(generation=2), now, 1.0) is None, "another process has begun at 0"
    assert cpu_share(read(board=None), now, 1.0) is None
    assert cpu_share(before, read(board=None), 1.0) is None
    assert cpu_share(read(board=board(age=None)), now, 1.0) is None
    assert cpu_share(before, read(board=board(cpu=1.0, age=1.05)), 1.0) is None, "the same heartbeat, a second later"


def test_a_figure_that_wavers_keeps_its_value() -> None:
    """Else an idle system would publish a few messages a second, for each of its backplanes."""
    first = told(read())
    assert (first.cpu, first.memory) == (10.0, 1_000_000)
    wavers = told(read(), first, cpu=11.9, memory=1_019_000)
    assert wavers == first
    assert told(read(), first, cpu=8.0).cpu == 8.0
    assert told(read(), first, memory=1_020_000).memory == 1_020_000
    assert told(read(), first, cpu=None).cpu == 10.0, "no heartbeat has come: the value is the last"
    again = told(read(pid=101), first, cpu=None, memory=1_001_000)
    assert (again.cpu, again.memory) == (0.0, 1_001_000), "a new process has figures of its own"
    gone = told(read(pid=None, state="failed", board=None), first, cpu=None, memory=0)
    assert (gone.cpu, gone.memory, gone.queued, gone.pid) == (0.0, 0, 0, None)


def test_queues_and_running_actions() -> None:
    """By the board, and exactly where the backplane has answered."""
    assert told(read(board=board(running=0.9))).running == 0, "a heartbeat has met a timer"
    assert told(read(board=board(running=1.0))).running == 1
    busy = told(read(board=board(queued=3), statistics=statistics(running=4)))
    assert (busy.queued, busy.running) == (3, 4)
    assert told(read(board=board(running=0.2), statistics=statistics())).running == 0
    assert [read(board=each).is_busy for each in (board(), board(queued=1), board(waiting=1), board(running=0.1), None)] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_what_has_been_outstanding_longest_counts() -> None:
    """As `appbackplane why` chooses it, among calls and objects."""
    waiting = read(statistics=statistics(objects={"web/a": 700.0}, calls={"web:x:1": 1_500.0, "web:x:2": 90.0}))
    assert waiting.oldest == (1.5, "web:x:1")
    assert read(statistics=statistics(objects={"web/a": 1_700.0}, calls={"web:x:1": 1_500.0})).oldest == (1.7, "web/a")
    assert read(statistics=statistics()).oldest is None and read(statistics=None).oldest is None
    assert told(waiting, waiting_for="it runs").waiting_since == 1.5
    assert told(waiting, waiting_for="it runs").waiting_for == "it runs"


def test_a_reason_is_written_on_one_line() -> None:
    """The subject of each step, and the nearest cause."""
    step = {
        "asked": "web:x:1",
        "route": "a.b",
        "object": "web/a",
        "reasons": [{"text": "it awaits c.d"}, {"text": "and"}],
    }
    end = {"asked": "web/c", "object": "web/c", "reasons": [{"text": "it runs"}]}
    assert reason_of({"steps": [step, end]}) == "a.b: it awaits c.d; web/c: it runs"
    assert reason_of({"steps": [{"asked": "web/c", "reasons": []}]}) == ""
    assert reason_of({"steps": [{"asked": "q", "reasons": [{"text": "no answer"}]}]}) == "q: no answer"
    assert reason_of({"steps": [end] * 6}) == "; ".join(["web/c: it runs"] * 4) + "; and 2 more"


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        ({}, {}, []),
        ({}, {"state": "draining"}, []),
        ({"state": "starting"}, {}, [Start(100, 0)]),
        ({}, {"pid": 101, "generation": 2, "restarts": 1}, [Start(101, 1)]),
        ({"state": "starting", "pid": 101}, {"state": "starting", "pid": 101}, []),
        (
            {},
            {"pid": 101, "generation": 2, "restarts": 1, "deaths": 1, "reason": "killed by signal 9"},
            [Death("killed by signal 9", 100, False, 1), Start(101, 1)],
        ),
        (
            {"deaths": 1, "reason": "killed by signal 9"},
            {"pid": None, "state": "waiting", "deaths": 2, "reason": "killed by signal 9"},
            [Death("killed by signal 9", 100, False, 1)],
        ),
        (
            {"deaths": 1, "reason": "killed by signal 9"},
            {"pid": 101, "generation": 2, "restarts": 1, "deaths": 1, "reason": "killed by signal 9"},
            [Start(101, 1)],
        ),
        (
            {},
            {"pid": None, "state": "failed", "generation": 4, "restarts": 3, "deaths": 4, "reason": "exited with 1; given up"},
            [Death("exited with 1; given up", None, True, 4)],
        ),
        ({"state": "waiting", "pid": None}, {"state": "waiting", "pid": None, "deaths": 1}, [Death("", None, False, 1)]),
        ({}, {"state": "stopping", "pid": 101, "generation": 2, "restarts": 1}, [Start(101, 1)]),
        ({"state": "killed"}, {"state": "killed"}, []),
    ],
)  # fmt: skip
def test_ends_and_starts_are_found(before: dict[str, Any], now: dict[str, Any], news: list[Any]) -> None:
    """An end is without an order if the supervisor has counted it as a death; the same reason may be that of an old one."""
    assert list(news_of(read(**before), read(**now))) == news


def test_a_backplane_that_was_added_has_started() -> None:
    """By a reload, while the system runs."""
    assert list(news_of(None, read())) == [Start(100, 0)]
    assert list(news_of(None, read(state="starting"))) == []
