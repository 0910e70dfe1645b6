"""Forty modules with random dependencies, in six processes: every hook of a real run is traced, and the trace judged.

The order is legal when nobody begins to rise before all it depends on have risen so far, and nobody begins to let go before
all that depend on it have let go. A component that its backplane drives (`driven_by`) is bound to those of its own
backplane only. The same graphs run through the pure director in test_lifecycle.py by the thousand.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from tests.figures import IS_LONG

from .conftest import LIMIT_S, RunningSystem

Start = Callable[..., RunningSystem]

BACKPLANES, MODULES = 6, 40
HEIGHT = {"start": 0, "down": 0, "initializing": 1, "secondary": 2, "primary": 3}

#: One class a module, from graph.json; a hook in two is a coroutine. Lines appended with O_APPEND are in the order of time.
MODULE = '''
"""Modules of a graph that a file describes."""
import json, os, pathlib, threading
from appbackplane.runtime import Component, checkpoint, pause

HERE = pathlib.Path(__file__).parent
GRAPH = json.loads((HERE / "graph.json").read_text())
TRACE = os.open(HERE / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def tell(self, state, what):
    os.write(TRACE, f"{self.component_name} {state} {what}\\n".encode())

def is_ill(module, kind, state):
    return module[kind] == state and not (HERE / "mended").exists()

def fail(self, state):
    tell(self, state, "fails")
    raise RuntimeError("no disk")

def plain(state, module):
    def hook(self):
        tell(self, state, "begins")
        threading.Event().wait(module["takes"])
        if is_ill(module, "fails", state):
            fail(self, state)
        tell(self, state, "ends")
    return hook

def coroutine(state, module):
    async def hook(self):
        tell(self, state, "begins")
        await checkpoint()
        await pause(module["takes"])
        if is_ill(module, "fails", state):
            fail(self, state)
        while is_ill(module, "hangs", state):
            await pause(0.01)
        tell(self, state, "ends")
    return hook

for number, (name, module) in enumerate(GRAPH.items()):
    make = coroutine if number % 2 or module["hangs"] else plain
    globals()[name.upper()] = type(name.upper(), (Component,), {
        "component_name": name, "depends_on": tuple(module["needs"]), "driven_by": module["driven_by"],
        **{f"on_{state}": make(state, module) for state in ("initializing", "primary", "secondary", "down")},
    })
'''


@dataclass(frozen=True)
class Module:
    """Of a graph."""

    home: str
    needs: tuple[str, ...]
    driven_by: str = "system"
    #: Seconds, of each of its hooks.
    takes: float = 0.0
    #: The state whose hook raises, or does not end, until a file named `mended` is there.
    fails: str = ""
    hangs: str = ""


Graph = dict[str, Module]


def random_graph(seed: int) -> Graph:
    """Each depends on up to three that come before it, wherever they are; one in eight is driven by its backplane."""
    chance = random.Random(seed)
    graph: Graph = {}
    for number in range(MODULES):
        needs = chance.sample(sorted(graph), min(len(graph), chance.choice((0, 1, 1, 2, 3))))
        driven_by = "backplane" if chance.random() < 1 / 8 else "system"
        # The first six are spread, so that no backplane is empty.
        home = f"b{number if number < BACKPLANES else chance.randrange(BACKPLANES)}"
        graph[f"m{number:02}"] = Module(home, tuple(needs), driven_by, chance.choice((0.0, 0.001, 0.003, 0.01)))
    return graph


def edge_counts(graph: Graph, name: str, other: str) -> bool:
    """Whether `name`, which depends on `other`, waits for it."""
    return graph[name].driven_by == "system" or graph[name].home == graph[other].home


def dependants(graph: Graph, name: str) -> set[str]:
    """Who cannot be where `name` is not, at any distance."""
    found: set[str] = set()
    for other, module in graph.items():  # listed after what they need
        if any(need in {name, *found} and edge_counts(graph, other, need) for need in module.needs):
            found.add(other)
    return found


def lay_out(folder: Path, graph: Graph) -> str:
    """The files of a system; the rest of its TOML, after [system]."""
    (folder / "graph.json").write_text(json.dumps({name: asdict(module) for name, module in graph.items()}))
    sections = []
    # Listed in no order of use: a supervisor that went by the file would be found out.
    for home in sorted({module.home for module in graph.values()}, reverse=True):
        components = [f"demo:{name.upper()}" for name, module in reversed(graph.items()) if module.home == home]
        hangs = any(module.hangs for module in graph.values() if module.home == home)
        limit = 'start_limit = "8s"\n' if hangs else ""  # a start on a busy machine included
        sections.append(f"[backplane.{home}]\n{limit}components = {json.dumps(components)}")
    return "\n".join(sections)


def judge(
    lines: list[str], graph: Graph, before: dict[str, str], moving: dict[str, str] | None = None
) -> dict[str, str]:
    """Where each is after these hooks; fails at the first that was not due. `before`: where each was. `moving`: whose hooks
    run, before and afterwards; None: all are to have ended.
    """
    now, has_to_end = dict(before), moving is None
    moving = {} if moving is None else moving

    def heights(name: str) -> tuple[int, int]:
        """What others can rely on, and what it may rely on: the two ends of a move."""
        ends = HEIGHT[now[name]], HEIGHT[moving.get(name, now[name])]
        return min(ends), max(ends)

    for line in lines:
        name, state, what = line.split()
        if what != "begins":
            state = moving.pop(name)
            now[name] = state if what == "ends" else now[name]
            continue
        assert name not in moving, f"{line}: it runs a hook already"
        if HEIGHT[state] > HEIGHT[now[name]]:
            early = [o for o in graph[name].needs if edge_counts(graph, name, o) and heights(o)[0] < HEIGHT[state]]
        else:
            users = [o for o, module in graph.items() if name in module.needs]
            early = [
                o
                for o in users
                if edge_counts(graph, name, o) and edge_counts(graph, o, name) and heights(o)[1] > HEIGHT[state]
            ]
        assert not early, f"{line}, while {early[0]} is {now[early[0]]}"
        moving[name] = state
    assert not (moving and has_to_end)
    return now


def overlaps(lines: list[str]) -> int:
    """How many hooks began while another ran."""
    count, running = 0, 0
    for line in lines:
        begins = line.endswith(" begins")
        count += begins and running > 0
        running += 1 if begins else -1
    return count


class Trace:
    """What has been written since the last look."""

    def __init__(self, folder: Path) -> None:
        self._path, self._seen = folder / "trace", 0

    def news(self) -> list[str]:
        lines = self._path.read_text().splitlines()
        news, self._seen = lines[self._seen :], len(lines)
        return news


@pytest.mark.parametrize("seed", [1, 2, 3] if IS_LONG else [1])
def test_forty_modules_come_up_move_and_go_down_in_a_legal_order(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Up, the whole to secondary and back, one in the middle down and back, and down: each trace is judged, and each is
    complete: every module has run every hook of its way.
    """
    graph = random_graph(seed)
    rest = lay_out(tmp_path, graph)
    monkeypatch.setattr("tests.supervisor.conftest.TOML", '[system]\nname = "demo"\nrun_dir = "run"\n' + rest)
    system, trace = start(module=MODULE), Trace(tmp_path)
    system.wait_up()
    up = trace.news()
    at = judge(up, graph, dict.fromkeys(graph, "start"))
    assert at == dict.fromkeys(graph, "primary")
    assert any(edge_counts(graph, n, o) and graph[n].home != graph[o].home for n in graph for o in graph[n].needs)
    assert overlaps(up) > MODULES / 4, "one after the other would be legal, and slow"

    def move(state: str, component: str | None = None) -> set[str]:
        nonlocal at
        answer = system.ask("supervisor.move", {"state": state, "component": component, "timeout": LIMIT_S})
        at = judge(trace.news(), graph, at)
        assert {name: at[name] for name in answer["components"]} == answer["components"]
        return set(answer["components"])

    assert move("secondary") == set(graph)
    assert at == dict.fromkeys(graph, "secondary")
    move("primary")
    assert at == dict.fromkeys(graph, "primary")
    middle = max(graph, key=lambda name: sum(name in module.needs for module in graph.values()))
    taken_along = move("down", middle)
    assert {name for name, state in at.items() if state == "down"} == taken_along
    assert middle in taken_along and len(taken_along) > 1
    assert move("primary", middle) == taken_along
    assert at == dict.fromkeys(graph, "primary")
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    down = trace.news()
    assert judge(down, graph, at) == dict.fromkeys(graph, "down")
    assert overlaps(down) > MODULES / 8


@pytest.mark.parametrize("seed", [5])
def test_in_a_graph_of_forty_a_hook_that_fails_and_one_that_hangs_hold_up_who_needs_them_and_nobody_else(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Both are shown with their reason and with all whom they hold up; mended, everybody comes up, in order again."""
    graph = random_graph(seed)
    by_needed = sorted(graph, key=lambda name: len(dependants(graph, name)))
    fails, hangs = by_needed[-6], next(n for n in by_needed[-7::-1] if n not in dependants(graph, by_needed[-6]))
    graph[fails] = replace(graph[fails], fails="initializing")
    graph[hangs] = replace(graph[hangs], hangs="primary")
    rest = lay_out(tmp_path, graph)
    head = '[system]\nname = "demo"\nrun_dir = "run"\nrestart = {{ max = 0 }}\n'
    monkeypatch.setattr("tests.supervisor.conftest.TOML", head + rest)
    system, trace = start(module=MODULE), Trace(tmp_path)
    system.wait_said("is up, pid")
    entries = system.status()["backplanes"]
    found = {name: state for entry in entries for name, state in entry["components"].items()}
    held, stuck = dependants(graph, fails), dependants(graph, hangs)
    assert held and stuck - held
    for name, state in found.items():
        is_held, is_stuck = name in {fails, *held}, name in {hangs, *stuck}
        assert state == ("start" if is_held else "initializing" if is_stuck else "primary"), name
    failed = {name: failure for entry in entries for name, failure in entry["failed"].items()}
    assert set(failed) == {fails, hangs}
    assert (failed[fails]["to"], set(failed[fails]["holds_up"])) == ("initializing", held)
    assert "no disk" in failed[fails]["reason"]
    assert (failed[hangs]["to"], set(failed[hangs]["holds_up"])) == ("primary", stuck)
    assert "its hook has not ended within 8 s" in failed[hangs]["reason"]
    moving: dict[str, str] = {}
    at = judge(trace.news(), graph, dict.fromkeys(graph, "start"), moving)
    assert (at, moving) == (found, {hangs: "primary"})
    (tmp_path / "mended").touch()
    system.wait_said(f"component {hangs!r} is primary now")
    system.ask("supervisor.move", {"state": "primary", "component": None, "timeout": LIMIT_S})
    at = judge(trace.news(), graph, at, moving)
    assert (at, moving) == (dict.fromkeys(graph, "primary"), {})
    assert {entry["generation"] for entry in system.status()["backplanes"]} == {1}, "no process had to die for it"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    assert judge(trace.news(), graph, at) == dict.fromkeys(graph, "down")


def test_who_does_not_depend_on_each_other_moves_at_the_same_time(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hook here waits until the other's has begun: one after the other, they would wait for ever."""
    module = """
import os, pathlib
from appbackplane.runtime import Component, pause

HERE = pathlib.Path(__file__).parent

class Both(Component):
    async def on_initializing(self):
        (HERE / self.component_name).touch()
        while not all((HERE / name).exists() for name in ("a", "b")):
            await pause(0.01)

A = type("A", (Both,), {"component_name": "a"})
B = type("B", (Both,), {"component_name": "b"})
"""
    toml = '[system]\nname = "demo"\nrun_dir = "run"\n'
    toml += '[backplane.one]\ncomponents = ["demo:A"]\n[backplane.two]\ncomponents = ["demo:B"]\n'
    monkeypatch.setattr("tests.supervisor.conftest.TOML", toml)
    start(module=module).wait_up()


def test_a_cycle_is_refused_with_the_cycle_spelled_out(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could ever move. Found across backplanes, before any hook runs, by `up` and by `check`; with every link named."""
    graph = random_graph(4)
    names = sorted(graph)
    ring = [names[3], names[17], names[39], names[8]]
    for name, needed in zip(ring, [*ring[1:], ring[0]], strict=True):
        graph[name] = Module(graph[name].home, (needed,))
    rest = lay_out(tmp_path, graph)
    monkeypatch.setattr("tests.supervisor.conftest.TOML", '[system]\nname = "demo"\nrun_dir = "run"\n' + rest)
    system = start(module=MODULE)
    assert system.wait_down() == 1
    said = [line for line in system.said if "depend on each other in a cycle" in line]
    assert said
    spelled = said[0].partition("cycle: ")[2].split(" -> ")
    doubled = [*ring, *ring]
    assert spelled[0] == spelled[-1]
    assert any(spelled[:-1] == doubled[begin : begin + len(ring)] for begin in range(len(ring))), spelled
    assert (tmp_path / "trace").read_text() == "", "not one hook has run"
    checked = subprocess.run(
        [sys.executable, "-m", "appbackplane.supervisor", "check", str(system.toml)],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    assert checked.returncode == 2
    assert " -> ".join(spelled) in checked.stderr


def test_the_judge_sees_what_is_not_due() -> None:
    """Or the tests above would pass for ever."""
    graph = {"a": Module("b0", ()), "b": Module("b1", ("a",)), "c": Module("b1", ("a",), "backplane")}
    start = dict.fromkeys(graph, "start")
    legal = ["a initializing begins", "a initializing ends", "b initializing begins", "b initializing ends"]
    assert judge(legal, graph, start) == {"a": "initializing", "b": "initializing", "c": "start"}
    assert judge(["c initializing begins", "c initializing ends"], graph, start)["c"] == "initializing"
    with pytest.raises(AssertionError, match="b initializing begins, while a is start"):
        judge(legal[2:], graph, start)
    with pytest.raises(AssertionError, match="while a is start"):
        judge([legal[0], legal[2]], graph, start)
    with pytest.raises(AssertionError, match="a down begins, while b is primary"):
        judge(["a down begins"], graph, dict.fromkeys(graph, "primary"))
    with pytest.raises(AssertionError, match="while a is start"):
        judge([legal[0], "a initializing fails", legal[2]], graph, start)
    assert overlaps(legal) == 0
    assert overlaps([legal[0], legal[2], legal[1], legal[3]]) == 1
