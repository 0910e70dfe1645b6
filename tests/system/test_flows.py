"""Flows between processes: what a death loses, by the delivery that was declared, and how far a source runs ahead."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from tests.figures import IS_LONG
from tests.waiting import wait_until

from .conftest import System, Up, ask_until, command, wait_dead, wait_stopped

#: Kills of each part.
KILLS_COUNT = 3 if IS_LONG else 1
#: In this order, or the part after the one that counts what is lost would forget it.
PARTS = ("numbers", "square", "keep")
CREDITS = 1024
#: Numbers that have come to the sink between two kills, so that each meets a flow at work: more than are under way.
BETWEEN = 3 * CREDITS
#: Bytes of a number in its file.
LINE = 10


@pytest.fixture
def open_flow(folder: Path, up: Up) -> Callable[..., System]:
    """Starts a system with each part of a flow in a backplane of its own, which bears the name of the part."""

    def start(flow: str, *parts: str, more: str = "") -> System:
        shutil.copy(Path(__file__).with_name("piped.py"), folder)
        backplanes = (
            f'[backplane.{part}]\ncomponents = ["piped:{flow}.{part}"]\n'
            f'restart = {{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}\n{more}'
            for part in parts
        )
        return up("".join(backplanes))

    return start


def kept(system: System) -> list[int]:
    """The numbers that have come to the sink, in the order in which they were written."""
    return [int(line) for line in (system.folder / "kept").read_bytes().splitlines()]


def kept_count(system: System) -> int:
    """How many these are."""
    file = system.folder / "kept"
    return file.stat().st_size // LINE if file.exists() else 0


def wait_for_more(system: System) -> None:
    """Until `BETWEEN` further numbers have come."""
    before = kept_count(system)
    wait_until(lambda: kept_count(system) > before + BETWEEN, "nothing comes to the sink")


def flowing(client: Client, part: str, flow: str) -> dict[str, Any]:
    """The figures of one part of a flow."""
    found: dict[str, Any] = client.call(f"backplane.{part}.statistics")["flows"][f"{flow}_{part}"]
    return found


def is_empty(told: Mapping[str, Any]) -> bool:
    """Whether nothing is under way behind a source."""
    (figures,) = told["flows"].values()
    return not figures["edge"]["used"] and not figures["edge"]["waiting"]


def kill_under_load(system: System, *victims: str) -> None:
    """Kill parts one after the other, each `KILLS_COUNT` times, and each time when further numbers have come to the sink; then
    let the source end.
    """
    for victim in (victim for victim in victims for _ in range(KILLS_COUNT)):
        wait_for_more(system)
        pid = system.pids()[victim]
        os.kill(pid, signal.SIGKILL)
        wait_dead(pid)
    wait_for_more(system)
    stop(system)


def stop(system: System) -> None:
    """Let the source end, and wait until all that it has given has ended."""
    (system.folder / "stop").touch()
    # It may have been asked before, and give what nobody has counted yet.
    wait_until(lambda: (system.folder / "stopped").exists(), "the source goes on")
    with system.connect() as client:
        ask_until(client, "backplane.numbers.statistics", is_empty)


def test_with_at_least_once_a_killed_stage_loses_nothing(open_flow: Callable[..., System]) -> None:
    """Whatever died with it is sent again: by the stage before, or by the source from its last position."""
    system = open_flow("surely", *PARTS)
    kill_under_load(system, *PARTS)
    found = set(kept(system))
    assert found == set(range(max(found) + 1))


@pytest.mark.parametrize("victims", [PARTS[:1], PARTS[1:]], ids=" ".join)
def test_without_it_nothing_comes_twice_and_the_lost_items_are_counted(
    open_flow: Callable[..., System], victims: tuple[str, ...]
) -> None:
    """Those that died are counted by the stage before, or by the next process of the source; at most its credits a kill."""
    system = open_flow("once", *PARTS)
    kill_under_load(system, *victims)
    found = kept(system)
    assert len(found) == len(set(found)), "an item came twice"
    with system.connect() as client:
        source = flowing(client, "numbers", "once")
        lost = source["edge"]["lost"] + flowing(client, "square", "once")["edge"]["lost"]
    missing = set(range(source["taken"])) - set(found)
    assert len(missing) <= lost <= 2 * KILLS_COUNT * len(victims) * CREDITS
    assert len(found) + len(missing) == source["taken"]


def test_keys_stay_in_order_when_a_lane_is_killed(open_flow: Callable[..., System]) -> None:
    """What came again begins further back, and goes on without a gap: never is a number skipped that comes later."""
    system = open_flow("ordered", "numbers", "by_rest", "keep_by_rest", more="threads = 3\n")
    kill_under_load(system, "keep_by_rest")
    found = kept(system)
    assert set(found) == set(range(max(found) + 1))
    for rest in range(7):
        expected = rest
        for number in (each for each in found if each % 7 == rest):
            assert number <= expected, "a number came before the one before it"
            expected = max(expected, number + 7)


def test_a_stopped_sink_holds_the_source_at_its_credits(open_flow: Callable[..., System]) -> None:
    """However long it is stopped: the source gives nothing more, and goes on when the sink does."""
    system = open_flow("surely", *PARTS)
    wait_for_more(system)
    pid = system.pids()["keep"]
    os.kill(pid, signal.SIGSTOP)
    with system.connect() as client:
        try:
            wait_stopped(pid)
            written = kept_count(system)
            wait_until(
                lambda: flowing(client, "square", "surely")["edge"]["used"] > CREDITS / 2, "the edge stays empty"
            )
            # What the sink has said before may still be read, so the source may give as much more, and no more than that.
            given = wait_until(lambda: given_when_full(client), "the source is not held at its credits")
            assert given <= written + CREDITS
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for_more(system)
        assert flowing(client, "numbers", "surely")["edge"]["resent"] == 0


def test_a_stage_that_blocks_gets_all_threads_and_follows_their_number(open_flow: Callable[..., System]) -> None:
    """With `parallel="auto"`. More lanes than threads would only queue."""
    system = open_flow("waiting", "numbers", "wait_for", more="threads = 4\n")
    with system.connect() as client:

        def lanes() -> int:
            found: int = flowing(client, "wait_for", "waiting")["parallel"]
            return found

        wait_until(lambda: lanes() == 4, "it stays at fewer lanes than threads")
        client.call("backplane.wait_for.threads", count=2)
        wait_until(lambda: lanes() <= 2, "it keeps lanes that have no thread")
        client.call("backplane.wait_for.threads", count=6)
        wait_until(lambda: lanes() == 6, "it does not use the threads that were added")
        edge = flowing(client, "numbers", "waiting")["edge"]
        assert (edge["lost"], edge["resent"]) == (0, 0)


def given_when_full(client: Client) -> int:
    """How many items the source has given, once as many as its credits are under way, no more and no less; else 0."""
    told = flowing(client, "numbers", "surely")
    edge = told["edge"]
    is_full = told["taken"] - edge["ended"] == edge["used"] + edge["waiting"] == CREDITS
    return int(told["taken"]) if is_full else 0


def test_a_flow_whose_types_do_not_fit_is_found_by_check(folder: Path) -> None:
    """Before anything runs, and in one line that names both stages."""
    (folder / "wrong.py").write_text(
        "from appbackplane.runtime import Flow, sink, stage\n"
        "@stage\ndef parse(row: str) -> int: ...\n"
        "@sink\ndef store(row: str) -> None: ...\n"
        'orders = Flow("orders", parse >> store)\n'
    )
    (folder / "wrong.toml").write_text(
        '[system]\nname = "wrong"\n[backplane.main]\n'
        'components = ["wrong:orders.inlet", "wrong:orders.parse", "wrong:orders.store"]\n'
    )
    found = command(folder, "check", "wrong.toml")
    assert found.returncode == 2
    assert "flow 'orders': parse makes int, and store, which follows it, takes str" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_stage_that_no_backplane_has_is_found_by_check(folder: Path) -> None:
    """By the name of its component."""
    shutil.copy(Path(__file__).with_name("piped.py"), folder)
    (folder / "part.toml").write_text(
        '[system]\nname = "part"\n[backplane.main]\ncomponents = ["piped:puts.inlet", "piped:puts.square"]\n'
    )
    found = command(folder, "check", "part.toml")
    assert found.returncode == 2 and "puts_keep" in found.stderr
    (folder / "part.toml").write_text(
        '[system]\nname = "part"\n[backplane.main]\ncomponents = ["piped:puts.nothing"]\n'
    )
    found = command(folder, "check", "part.toml")
    assert "piped has no Component 'puts.nothing'" in found.stderr and "puts.square" in found.stderr


def test_a_restart_loses_nothing_in_any_delivery(open_flow: Callable[..., System]) -> None:
    """It finishes its items first; what it refuses meanwhile has not begun."""
    system = open_flow("once", *PARTS)
    for part in PARTS:
        wait_for_more(system)
        assert system.command("restart", part).returncode == 0
    wait_for_more(system)
    stop(system)
    with system.connect() as client:
        assert flowing(client, "numbers", "once")["edge"]["lost"] == 0
    found = kept(system)
    assert sorted(found) == list(range(len(found)))


def test_a_system_goes_down_in_order_without_losing_anything(open_flow: Callable[..., System]) -> None:
    """The source is drained before the stages, and these before the sink: nothing is lost, or comes twice."""
    system = open_flow("once", *PARTS)
    wait_for_more(system)
    system.process.send_signal(signal.SIGTERM)
    assert system.wait_down() == 0
    found = kept(system)
    assert sorted(found) == list(range(len(found)))
