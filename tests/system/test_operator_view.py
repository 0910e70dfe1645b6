"""A person's questions to a system all of whose backplanes are saturated are answered before their work is done.

The promised durations, counted from the question, are judged by `scripts/long`; `scripts/bench operator_view` measures those of
whole commands, which include the start of a Python process on cores that are all taken.
"""

from __future__ import annotations

import itertools
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
from appbackplane.transport import Client, PendingCall
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


class Load:
    """Calls that keep all four at work. They last for half a minute: what has ended is made up for before each look."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pending: dict[str, list[PendingCall]] = {route: [] for route in LOADS}

    def fill_up(self) -> None:
        """All four have as much to do as at first."""
        for route, (count, words) in LOADS.items():
            left = self._pending[route] = self._left(route)
            left += [self._client.submit(route, timeout=10 * LIMIT_S, **words) for _ in range(count - len(left))]

    def check(self) -> None:
        """It has lasted until now."""
        assert all(self._left(route) for route in LOADS), "it was saturated to the end"

    def cancel(self) -> None:
        """End it."""
        for call in itertools.chain.from_iterable(self._pending.values()):
            call.cancel()

    def _left(self, route: str) -> list[PendingCall]:
        return [call for call in self._pending[route] if not call.done()]


@contextmanager
def saturated(client: Client) -> Iterator[Load]:
    """All four have begun, and have more to do than they can."""
    load = Load(client)
    load.fill_up()
    for name in ("mill", "forge", "weir", "clinic"):
        ask_until(client, "supervisor.status", lambda told, name=name: health_of(told, name) != "idle")
    yield load
    load.cancel()


def health_of(told: Any, name: str) -> str:
    """As the supervisor sees it."""
    (health,) = [one["health"] for one in told["backplanes"] if one["name"] == name]
    return str(health)


def middle_s(load: Load, look: Callable[[], Any]) -> float:
    """How long the middle one of several takes, beside a load."""
    took_s = []
    for _ in range(ANSWERS):
        load.fill_up()
        watch = Stopwatch()
        with suppress(DeadlineExceeded):  # and its time counts
            look()
        took_s.append(watch.taken_s)
        load.check()
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
        load = stack.enter_context(saturated(client))
        judge("status", middle_s(load, lambda: asker.ask("supervisor.status", {"statistics": False})), PROMISED_S / 4)
        everything = LogFilter(None, None, None, None)
        judge("logs", middle_s(load, lambda: last(folder, everything, LINES, end_of(folder))), PROMISED_S / 4)
        judge("top --once", middle_s(load, lambda: once(asker, ONCE_S)), PROMISED_S)
        judge("status, by a new connection", middle_s(load, lambda: ask_anew(location)), PROMISED_S)


def ask_anew(location: Location) -> None:
    """As each command does."""
    with closing(Asker(location)) as asker:
        asker.ask("supervisor.status", {"statistics": False})
