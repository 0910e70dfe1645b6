"""A person's questions to a system all of whose backplanes are saturated are answered before their work is done.

The promised durations, counted from the question, are judged by `scripts/long`; `scripts/bench operator_view` measures those of
whole commands, which include the start of a Python process on cores that are all taken.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest

from appbackplane.supervisor.commands.asking import Asker
from appbackplane.supervisor.commands.logs import LINES, folder_of
from appbackplane.supervisor.commands.top import ONCE_S, once
from appbackplane.supervisor.logs.filter import LogFilter
from appbackplane.supervisor.logs.reader import end_of, last
from appbackplane.transport import Client
from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import DeadlineExceeded
from tests.figures import IS_LONG, Stopwatch, judge

from .conftest import LIMIT_S, System, Up, ask_until

SATURATED = """
[backplane.mill]
components = ["components:Mill"]
[backplane.forge]
components = ["components:Forge"]
[backplane.weir]
components = ["components:Weir"]
threads = 2
[backplane.clinic]
components = ["components:Clinic"]
"""
#: Several times what any of them does while it is looked at: half a minute of computing and of blocking (two threads), and of
#: keeping the interpreter to itself, a second at a time.
LOADS = {
    "mill.grind": (500, {"seconds": 0.06}),
    "forge.grind": (500, {"seconds": 0.05}),
    "weir.hold": (500, {"seconds": 0.12}),
    "clinic.hog": (5, {"seconds": 1.0, "key": "anna"}),
}
PROMISED_S = 0.2
ANSWERS = 7 if IS_LONG else 3


@contextmanager
def saturated(client: Client) -> Iterator[None]:
    """All four have begun, and have more to do than they can."""
    pending = [
        client.submit(route, timeout=10 * LIMIT_S, **words)
        for route, (count, words) in LOADS.items()
        for _ in range(count)
    ]
    for name in ("mill", "forge", "weir", "clinic"):
        ask_until(client, "supervisor.status", lambda told, name=name: health_of(told, name) != "idle")
    yield
    assert sum(not call.done() for call in pending) > len(pending) / 2, "it was saturated to the end"
    for call in pending:
        call.cancel()


def health_of(told: Any, name: str) -> str:
    """As the supervisor sees it."""
    (health,) = [one["health"] for one in told["backplanes"] if one["name"] == name]
    return str(health)


def middle_s(look: Callable[[], Any]) -> float:
    """How long the middle one of several takes."""
    took_s = []
    for _ in range(ANSWERS):
        watch = Stopwatch()
        with suppress(DeadlineExceeded):  # and its time counts
            look()
        took_s.append(watch.taken_s)
    return statistics.median(took_s)


@pytest.fixture
def system(up: Up) -> System:
    """Four backplanes."""
    return up(SATURATED)


def test_each_answer_is_there_though_every_backplane_is_saturated(system: System) -> None:
    """Who finds out why all is slow must not be slow as well."""
    location = Location(system.run_dir, system.name)
    with ExitStack() as stack:
        client = stack.enter_context(system.connect())
        asker = stack.enter_context(closing(Asker(location)))
        folder = folder_of(Location(system.run_dir, system.name, is_given=True))
        stack.enter_context(saturated(client))
        judge("status", middle_s(lambda: asker.ask("supervisor.status", {"statistics": False})), PROMISED_S / 4)
        everything = LogFilter(None, None, None, None)
        judge("logs", middle_s(lambda: last(folder, everything, LINES, end_of(folder))), PROMISED_S / 4)
        judge("top --once", middle_s(lambda: once(asker, ONCE_S)), PROMISED_S)
        judge("status, by a new connection", middle_s(lambda: ask_anew(location)), PROMISED_S)


def ask_anew(location: Location) -> None:
    """As each command does."""
    with closing(Asker(location)) as asker:
        asker.ask("supervisor.status", {"statistics": False})
