"""Who looks at a system that is overloaded or stuck gets an answer while it is, and disturbs nobody by looking.

The durations are printed, and judged by `scripts/long`.
"""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from appbackplane.supervisor.commands.asking import Asker
from appbackplane.supervisor.commands.top import ONCE_S, once
from appbackplane.transport import BackplaneError, Client, DeadlineExceeded
from appbackplane.transport.discovery import Location
from tests.figures import IS_LONG, Stopwatch, judge
from tests.waiting import Limit, wait_until

from .conftest import LIMIT_S, System, ask_until, standing

CLINIC = """
[backplane.clinic]
components = ["components:Clinic"]
[backplane.mill]
components = ["components:Mill"]
"""
#: For the whole answer, and for `top --once`, of which a second is the interval that it looks at.
PROMISED_S, TOP_PROMISED_S = 1.0, 0.2


#: Looks at one that is flooded and at one that is stuck, and seconds of CPU for which this is stuck.
FLOODED_LOOKS, STUCK_LOOKS, STUCK_S = (5, 25, 8.0) if IS_LONG else (2, 5, 2.0)


@pytest.fixture(scope="module")
def both(_no_ignored_interrupt: None) -> Iterator[System]:
    """Two backplanes."""
    with standing(CLINIC) as system:
        yield system


@pytest.fixture
def system(both: System) -> System:
    """Both, with nothing to do."""
    with both.connect() as client:
        for backplane, component in (("clinic", "clinic"), ("mill", "mill")):
            ask_until(
                client,
                f"backplane.{backplane}.statistics",
                lambda told, of=component: not told["components"][of]["outstanding"],
            )
    return both


@contextmanager
def flooded(client: Client) -> Iterator[None]:
    """The mill has at priority 0 more to do than it can, all the time: ten seconds of it, and soon a minute, in its queue."""
    is_over = threading.Event()

    def flood() -> None:
        pending = []
        while not is_over.is_set():
            try:
                pending.append(client.submit("mill.grind", seconds=0.01, priority=0, timeout=LIMIT_S))
            except BackplaneError:  # as full as it may be
                is_over.wait(0.001)
            pending = [call for call in pending if not call.done()] if len(pending) > 5_000 else pending
        for call in pending:
            call.cancel()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(LIMIT_S)


def look(system: System) -> dict[str, Any]:
    """The command that people type: the backplanes, by name."""
    with system.connect() as client:
        watch = Stopwatch()
        client.call("supervisor.status", statistics=True, timeout=LIMIT_S)
        judge("status", watch.taken_s, PROMISED_S)
    limit = Limit()
    # The command waits 5 s: too short where the host gives the machine's cores to somebody else.
    while "did not answer" in (answer := system.command("status", "--stats", "--json")).stderr:
        limit.check(answer.stderr)
    assert answer.returncode == 0, answer.stderr
    return {one["name"]: one for one in json.loads(answer.stdout)["backplanes"]}


def look_until_told(system: System, name: str) -> dict[str, Any]:
    """The same of one backplane, once it has answered: where the machine is short of CPU, status goes on without it, or its
    sentinel gives no sign of life for longer than a heartbeat may take.
    """

    def told() -> dict[str, Any]:
        found: dict[str, Any] = look(system)[name]
        return found if found["statistics"] and found["health"] != "unknown" else {}

    return wait_until(told, f"{name} has not answered")


def test_a_backplane_that_is_saturated_with_urgent_work_tells_its_figures(system: System) -> None:
    """Its sentinel answers, between two turns: who finds out what is wrong is not behind what is wrong."""
    with system.connect() as client, flooded(client):
        ask_until(client, "supervisor.status", lambda told: board_of(told, "mill")["queued"] > 1_000)
        for _ in range(FLOODED_LOOKS):
            mill = look_until_told(system, "mill")  # behind the flood it would never answer
            assert mill["statistics"]["operations"]["mill.grind"]["count"] > 0
            assert mill["health"] == "busy"


def test_top_once_is_there_though_every_backplane_is_saturated(system: System) -> None:
    """One floods, the other keeps its interpreter to itself: who does not answer is shown from the board, with its age."""
    with system.connect() as client, flooded(client):
        ask_until(client, "supervisor.status", lambda told: board_of(told, "mill")["queued"] > 1_000)
        took_s: list[float] = []
        ages_s: list[float] = []
        hog, limit = None, Limit()
        with closing(Asker(Location(system.run_dir, system.name))) as asker:
            while len(ages_s) < STUCK_LOOKS:
                limit.check("it is never seen stuck")
                if hog is None or hog.done():
                    hog = client.submit("clinic.hog", key="anna", seconds=STUCK_S, timeout=10 * LIMIT_S)
                watch = Stopwatch()
                try:
                    clinic, mill = once(asker, ONCE_S).backplanes
                except DeadlineExceeded:  # seen where the host gave the machine's cores to somebody else for seconds
                    continue
                finally:
                    took_s.append(watch.taken_s)
                assert mill.state == clinic.state == "up"
                if clinic.age_s is not None:
                    ages_s.append(clinic.age_s)
                    assert (clinic.ready, clinic.run) == (None, None)
        hog.cancel()
    judge("top --once, the first quartile", statistics.quantiles(took_s)[0], TOP_PROMISED_S)


def board_of(told: Any, name: str) -> dict[str, Any]:
    """What a backplane says of itself."""
    (board,) = [one["board"] for one in told["backplanes"] if one["name"] == name]
    return board or {"queued": 0}


def test_a_backplane_whose_interpreter_is_kept_by_an_extension_is_left_out(system: System) -> None:
    """All others are in the answer, which does not wait for it; and when it is back, it is as it was."""
    with system.connect() as client:

        def is_seen_stuck() -> bool:
            hog = client.submit("clinic.hog", key="anna", seconds=STUCK_S, timeout=10 * LIMIT_S)
            ask_until(client, "supervisor.status", lambda told: board_of(told, "clinic").get("running", 1))
            is_stuck = False
            while not is_stuck and not hog.done():
                found = look(system)
                is_stuck = found["clinic"]["statistics"] is None and found["mill"]["statistics"] is not None
            hog.result()
            return is_stuck

        wait_until(is_seen_stuck, "it was never seen stuck")
        clinic = look_until_told(system, "clinic")
        assert clinic["statistics"]["components"]["clinic"]["outstanding"] == 0
        assert clinic["restarts"] == 0
