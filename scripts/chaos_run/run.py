"""Run: bring it up, warm it up, count, let chaos loose, wait until it is at rest, count again, take it down.

The warm-up is chaos as well: pools are filled, modules imported and connections made the first time, and what is looked for is
what the second time leaves behind. Both counts are taken when nobody is connected and nothing is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from appbackplane.transport import BackplaneError

from .agent import Agent
from .census import differences
from .components import PARTS
from .log_check import read, unexplained
from .moves import draw
from .system import NotInTime, System, running, wait_for
from .verdict import Verdict

CLIENTS = ("threads", "bursts", "tasks")
WARM_SHARE, WARM_S_MIN, WARM_S_MAX = 0.2, 3.0, 30.0


def run(seconds: float, seed: int, without: tuple[str, ...] = (), say: Callable[[str], None] = print) -> Verdict:
    """One run of so long, the warm-up included."""
    verdict = Verdict(seed, seconds)
    warm_s = min(WARM_S_MAX, max(WARM_S_MIN, seconds * WARM_SHARE))
    with running() as system:
        try:
            say("warming up")
            for part in PARTS:
                system.limit(part, 90)  # a group of its own each, which it keeps
            play(system, warm_s, seed + 1_000_000, without, verdict)
            settle(system)
            before = system.count_steady()
            say("chaos")
            play(system, max(WARM_S_MIN, seconds - warm_s), seed, without, verdict)
            say("counting")
            settle(system)
            told = system.status()
            verdict.generations = {entry["name"]: entry["generation"] for entry in told["backplanes"]}
            after = wait_same(before, system.count)
            verdict.take_counts(before, after)
        except (NotInTime, BackplaneError) as late:
            verdict.problems.append(str(late))
        conclude(system, verdict)
    return verdict


def play(system: System, seconds: float, seed: int, without: tuple[str, ...], verdict: Verdict) -> None:
    """Chaos for so long, with the clients of its own."""
    agent = Agent(system, CLIENTS, seed)
    try:
        agent.play(draw(seed, seconds, PARTS, CLIENTS, without), seconds)
        system.wait_up()  # clients are asked at their end whom they hear
    finally:
        verdict.take_clients(agent.finish())
        verdict.problems += agent.commands_said()
        verdict.moves.update(agent.done)


def conclude(system: System, verdict: Verdict) -> None:
    """Take it down, and look at what it leaves, and at what it has said."""
    verdict.problems += system.end()
    verdict.problems += [f"log: {line}" for line in unexplained(read(system.folder))]
    verdict.problems += [f"the supervisor said: {line}" for line in system.last_words()]


def settle(system: System) -> None:
    """At rest, and every connection made that there can be between the parts."""
    system.wait_settled()
    system.connect_all(list(PARTS))
    system.wait_heard()
    system.wait_settled()


def wait_same(before: dict[str, Any], count: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A census that is as it was before, or the last one: what is let go of takes its time."""
    counts = [count()]

    def is_same() -> bool:
        counts[0] = count()
        return not differences(before, counts[0])

    with suppress(NotInTime):  # what differs is said by who judges
        wait_for("everything is as it was", is_same)
    return counts[0]
