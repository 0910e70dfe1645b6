"""Law 7. Dispatch happens in the thread that received the message; slow dispatch is left to a digester.

Priority is lost wherever work waits in a FIFO, so what has been received stands in its priority queue before the next
action is chosen. Where working out the target is slow, that is work too: a high-priority object does it.
"""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, DeclarationError, current, operation
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InternalError


class Shard(AppObject):
    def __init__(self, name: str) -> None:
        self.name_of_mine = name

    @operation(priority=3, digest="shard_of")
    def search(self, text: str) -> str:
        return f"{text} in {self.name_of_mine}"

    @operation(priority=5)
    def bulk(self) -> None: ...

    @operation(priority=0)
    def urgent(self) -> None: ...


class Query(Component):
    def __init__(self) -> None:
        self.backplane: VirtualBackplane | None = None

    def setup(self) -> None:
        for name in "abc":
            self.add(Shard(name), key=name)

    def shard_of(self, text: str) -> str:
        if text == "?":
            raise ValueError("no idea")
        return text[0]

    @operation(priority=5)
    def receives_meanwhile(self) -> None:
        """What arrives while this runs: an urgent call."""
        assert self.backplane is not None
        self.backplane.call("query.urgent", key="a")
        self.backplane.clock.sleep(0.001)


@pytest.fixture
def query() -> Query:
    return Query()


@pytest.fixture
def backplane(query: Query) -> VirtualBackplane:
    query.backplane = VirtualBackplane(query)
    return query.backplane


def test_what_has_been_received_stands_in_its_queue_before_the_next_action_is_chosen(
    backplane: VirtualBackplane, query: Query
) -> None:
    """Law 7 and DESIGN 12.1. A message that waits in a socket behind bulk work has no priority, whatever it says."""
    backplane.cast("query.receives_meanwhile")
    for _ in range(3):
        backplane.cast("query.bulk", key="b")
    engine, worker = backplane.backplane.engine, backplane._worker
    assert worker is not None
    order = []
    while (action := engine.choose(worker)) is not None:  # as a worker does: it looks by itself
        order.append(action.name)
        engine.complete(action, *engine.execute(worker, action))
    assert order == ["query.receives_meanwhile", "query.urgent", "query.bulk", "query.bulk", "query.bulk"]


def test_a_slow_target_is_worked_out_by_a_digester_above_the_requests_priority(backplane: VirtualBackplane) -> None:
    """Law 7. In the receiving thread it would hold up everybody; below the request's priority it would lose its own."""
    for _ in range(2):
        backplane.cast("query.bulk", key="c", priority=3)
    call = backplane.call("query.search", text="beta")
    other = backplane.call("query.search", text="alpha")
    assert backplane.run_until_idle() == ["shard_of", "shard_of", "bulk", "search", "search", "bulk"]
    assert (call.result(), other.result()) == ("beta in b", "alpha in a")


def test_more_urgent_work_goes_before_the_digester(backplane: VirtualBackplane) -> None:
    """Law 7. Dispatch is work: it must not become the new way to be overtaken by bulk."""
    backplane.cast("query.search", text="alpha")
    backplane.cast("query.urgent", key="a")
    assert backplane.run_until_idle() == ["urgent", "shard_of", "search"]


def test_who_names_the_key_needs_no_digester(backplane: VirtualBackplane) -> None:
    """Law 7. Only where the target is slow to find."""
    call = backplane.call("query.search", key="b", text="alpha")
    assert backplane.run_until_idle() == ["search"]
    assert call.result() == "alpha in b"


class Sorted(Component):
    """Letters of one operation, whose urgency is in their text."""

    digest_priority = 0

    def __init__(self) -> None:
        self.returns: Any = None

    def setup(self) -> None:
        self.add(Letters(), key="box")

    def sort(self, letter: str) -> Any:
        return ("box", 1 if letter.startswith("!") else 6) if self.returns is None else self.returns


class Letters(AppObject):
    @operation(priority=4, digest="sort")
    def read(self, letter: str) -> int:
        return current().priority

    @operation(priority=2)
    def other(self) -> None: ...


def test_a_digester_works_out_the_priority_too_at_one_of_its_own() -> None:
    """Law 7. Slow dispatch may find that a request is urgent, or not, whatever its caller asked for."""
    backplane = VirtualBackplane(Sorted())
    backplane.call("sorted.other", key="box")
    urgent, other = (backplane.call("sorted.read", letter=letter, priority=5) for letter in ("!", "."))
    assert backplane.run_until_idle() == ["sort", "sort", "other", "read", "read"]
    assert (urgent.result(), other.result()) == (1, 6)


@pytest.mark.parametrize("returns", [("box", 8), ("box", -1), ("box", True), ("box", None), (1, 1), ("box", 1, 1), 7])
def test_a_digester_that_returns_neither_is_told_as_that(returns: object) -> None:
    """Law 7. Nothing runs at a priority that does not exist."""
    component = Sorted()
    component.returns = returns
    error = VirtualBackplane(component).call("sorted.read", letter="x").error()
    assert isinstance(error, InternalError)
    assert f"expected a key (a string), or a key and a priority, 0 to 7, got {returns!r}" in str(error)


def test_a_digester_has_a_priority_that_exists() -> None:
    """Law 7."""
    kind = type("Wrong", (Sorted,), {"digest_priority": 8})
    with pytest.raises(DeclarationError, match=r"Wrong.digest_priority: priority 8, but the backplane has 0\.\.7"):
        VirtualBackplane(kind()).run_until_idle()


def test_a_digester_that_fails_ends_the_call(backplane: VirtualBackplane) -> None:
    """Law 7. Whoever waits is told; a request that vanished between two steps would be dropped silently."""
    error = backplane.call("query.search", text="?").error()
    assert isinstance(error, InternalError)
    assert "no idea" in str(error)
    backplane.cast("query.search", text="?")
    backplane.run_until_idle()
    assert backplane.backplane.statistics()["links"]["refused_casts"] == 1
