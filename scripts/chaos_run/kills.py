"""Kills: one backplane, killed N times in a row under load, and what those who live on have grown by.

The supervisor, the other backplanes and two clients live through all of it; each of them meets N generations of the victim, and
may keep none. Counted after the first few, since pools are filled then, and after the last.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from appbackplane.transport import BackplaneError

from .agent import ClientProcess
from .census import of_process
from .clients import LIGHT
from .components import PARTS
from .run import conclude, wait_same
from .system import NotInTime, System, running, wait_for
from .verdict import Verdict

VICTIM: Final = PARTS[0]
CLIENTS: Final = ("threads", "tasks")
#: Before the first count.
WARM_COUNT: Final = 20
#: A line of progress after so many.
SAY_EVERY: Final = 50
LOOK_EVERY_S: Final = 0.01


def run_kills(count: int, seed: int, say: Callable[[str], None] = print) -> Verdict:
    """Kill it `count` times, and some before that are not counted."""
    verdict = Verdict(seed, 0.0)
    with running() as system:
        clients = {name: ClientProcess(system, name, seed, LIGHT) for name in CLIENTS}
        try:
            for _ in range(WARM_COUNT):
                kill_and_wait(system)
            settle_under_load(system)
            before = system.count_steady(lambda: count_all(system, clients))
            for number in range(1, count + 1):
                kill_and_wait(system)
                if number % SAY_EVERY == 0:
                    say(f"{number} kills, {grown_in_words(before, count_all(system, clients))}")
            verdict.moves = Counter({"kill": WARM_COUNT + count})
            settle_under_load(system)
            after = wait_same(before, lambda: count_all(system, clients))
            verdict.take_counts(before, after, who={*before["memory"]} - {VICTIM})
            verdict.notes.append(f"grown: {grown_in_words(before, after)}")
        except (NotInTime, BackplaneError) as late:
            verdict.problems.append(str(late))
        finally:
            verdict.take_clients({name: client.finish() for name, client in clients.items()})
        conclude(system, verdict)
    return verdict


def kill_and_wait(system: System) -> None:
    """Until the next generation is where it is to be."""
    before = entry_of(system)
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        now = entry_of(system)
        return now["generation"] > before["generation"] and set(now["components"].values()) == {"primary"}

    wait_for(f"{VICTIM} is back after generation {before['generation']}", is_back, every_s=LOOK_EVERY_S)


def entry_of(system: System) -> dict[str, Any]:
    entry: dict[str, Any] = next(entry for entry in system.status()["backplanes"] if entry["name"] == VICTIM)
    return entry


def settle_under_load(system: System) -> None:
    """Every connection that there can be is there."""
    system.connect_all(list(PARTS))


def count_all(system: System, clients: dict[str, ClientProcess]) -> dict[str, Any]:
    """A census of the system, and of its clients."""
    counts = system.count()
    for name, client in clients.items():
        found = of_process(client.process.pid)
        counts["fds"][name], counts["threads"][name] = found["fds"], found["threads"]
        counts["memory"][name] = found["resident"]
    return counts


def grown_in_words(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Of all who have lived through it."""
    grown = {
        name: (after["memory"][name] - before["memory"][name]) // 1024 for name in before["memory"] if name != VICTIM
    }
    return ", ".join(f"{name} {kib:+,} KiB" for name, kib in grown.items())
