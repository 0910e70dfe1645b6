"""What users give that makes no sense costs one request or one error, never a worker, and nothing that is posted is lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, Rejoin, RequestKernel, Resource, Runnable
from appbackplane.runtime.requests.ledger.element import Element
from appbackplane.runtime.requests.ledger.ledger import Ledger
from appbackplane.runtime.requests.runnable import RunnableSpec
from appbackplane.transport.errors import Busy, InvalidArgument

from .conftest import LIMIT_S, Live


class Do(Runnable):
    """Whatever it is told."""

    def execute(self, request: Any, kernel: Context) -> Any:
        return request(kernel) if callable(request) else request


class Handle:
    """Of a resource that is not kind."""

    def __init__(self) -> None:
        self.is_kind = True

    def bye(self) -> bool:
        """Close, or say whether it is stale."""
        if self.is_kind:
            return False
        sys.exit(3)


class Bulk(RequestKernel):
    runnables = (Do,)
    resources = {
        "closes": Resource(open=Handle, close=Handle.bye, is_stale=lambda handle: not handle.is_kind),
        "asks": Resource(open=Handle, is_stale=Handle.bye),
    }


class Sloppy:
    """Equal to what has its name; of others it does not know."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: Any) -> bool:
        return bool(self.name == other.name)

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Rude(Exception):
    """Ends who asks for its words."""

    def __str__(self) -> str:
        sys.exit(3)
        return ""


@pytest.fixture
def kernel(live: Callable[..., Live]) -> Context:
    """Of one worker: if that is lost, all is."""
    made = Bulk(KernelPolicy(workers=1))
    live(made)
    return made.kernel


def rejoined(kernel: Context, owner: Any) -> list[Element]:
    """All of an owner, in time."""
    found: list[Element] = []
    while (done := kernel.rejoin(owner, wait=True, timeout=LIMIT_S)[1]) is not None:
        found.append(done)
    return found


@pytest.mark.parametrize("wrong", [{"boost": 10}, {"boost": None}, {"rejoin": "no"}])
def test_switches_that_are_none_are_refused_and_nothing_is_posted(kernel: Context, wrong: dict[str, Any]) -> None:
    """A boost is an amount in the policy, so somebody will give one here."""
    with pytest.raises(InvalidArgument, match=f"{next(iter(wrong))}=.*: expected True or False"):
        kernel.post(1, Do, owner="a", **wrong)
    assert kernel.rejoin("a") == (Rejoin.NONE_EXIST, None)


@pytest.mark.parametrize("priority", [-1, 1 << 70, pytest.param(10**5000, id="5001 digits"), True])
def test_a_priority_out_of_range_is_refused(kernel: Context, priority: int) -> None:
    """A larger one could not be sent to a worker process; a negative one was urgent nowhere but in an older version."""
    with pytest.raises(InvalidArgument, match=r"priority.*: expected a whole number from 0, the most urgent"):
        kernel.post(1, Do, owner="a", priority=priority)
    assert kernel.rejoin("a") == (Rejoin.NONE_EXIST, None)


@pytest.mark.parametrize("limit", [float("inf"), 1e300, 10**400])
def test_who_waits_for_ever_says_so_in_any_number(kernel: Context, limit: float) -> None:
    """No clock counts that far; nobody has to know."""
    is_over = threading.Event()
    kernel.post(lambda _: is_over.wait(LIMIT_S), Do, owner="a")
    threading.Timer(0.05, is_over.set).start()
    found, done = kernel.rejoin("a", wait=True, timeout=limit)
    assert found is Rejoin.RETURNED and done is not None and done.result is True


def test_owners_that_cannot_be_compared_or_named(kernel: Context) -> None:
    """Requests of others end, and are disowned, beside those of an owner that raises when it is compared with another."""
    is_over = threading.Event()
    kernel.post(lambda _: is_over.wait(LIMIT_S), Do, owner="first", priority=98)
    kernel.post(lambda kernel: kernel.post(1, Do) and None, Do, owner="parent", priority=99)
    kernel.post(1, Do, owner=Sloppy("a"))
    kernel.post(2, Do, owner=Sloppy("b"))
    kernel.disown(Sloppy("b"))
    is_over.set()
    assert [done.error for done in rejoined(kernel, "parent")] == [None]
    assert [done.result for done in rejoined(kernel, Sloppy("a"))] == [1]
    assert rejoined(kernel, Sloppy("b")) == []


def test_an_owner_that_becomes_another_one_costs_no_worker(kernel: Context) -> None:
    """Its requests end; who asks for what it has become finds nothing."""

    class Changing:
        number = 1

        def __hash__(self) -> int:
            return self.number

    owner = Changing()
    is_over = threading.Event()
    kernel.post(lambda _: is_over.wait(LIMIT_S), Do, owner=owner)
    owner.number = 2
    is_over.set()
    assert kernel.run(7, Do) == 7
    assert rejoined(kernel, owner) == []


def test_an_error_that_ends_who_asks_for_its_words(kernel: Context) -> None:
    """It is one request's."""

    def fail(_: Context) -> None:
        raise Rude

    (done,) = kernel.map_unordered([fail], Do)
    assert done.error == "Rude: (no message: SystemExit while it was asked for)"
    assert kernel.run(7, Do) == 7


@pytest.mark.parametrize("name", ["closes", "asks"])
def test_a_resource_whose_functions_exit_ends_no_worker(kernel: Context, name: str) -> None:
    """After requests that do not ask for it."""

    def use(kernel: Context) -> None:
        kernel.resources[name].is_kind = False

    kernel.run(use, Do)
    for number in range(100):
        assert kernel.run(number, Do) == number


def test_a_component_that_has_too_much_to_do_keeps_its_workers(live: Callable[..., Live]) -> None:
    """Its limit is for what it gives itself to do."""
    made = Bulk(KernelPolicy(workers=1))
    live(made)
    with pytest.raises(Busy):
        _fill(made)
    made.kernel.post_all(range(20), Do, owner="a")
    assert [done.result for done in rejoined(made.kernel, "a")] == list(range(20))


def _fill(kernel: RequestKernel) -> None:
    while True:
        kernel.after(3600, kernel.figures)


def test_many_requests_of_an_owner_are_disowned_together() -> None:
    """All of it, and nothing of others; one by one it took seconds for thousands, in which nobody else could do anything."""
    ledger = Ledger(KernelPolicy(ready=20_000))
    for number in range(20_000):
        assert ledger.post(Element(number, None, "Do", "ab"[number % 2], 0, 3), 0)
    ledger.disown("a", 1)
    assert (ledger.ready.count, ledger.entries.total, ledger.withdrawn_total) == (10_000, 10_000, 10_000)
    assert {each.owner for each in ledger.ready} == {"b"}


class Picky(msgspec.Struct):
    """Raises what it likes when it is made."""

    number: int

    def __post_init__(self) -> None:
        if self.number == 5:
            raise RuntimeError("no five")


class Make(Runnable):
    def execute(self, request: Picky, kernel: Context) -> Picky:
        return request


def test_a_class_that_raises_when_a_result_is_unpacked_fails_that_request() -> None:
    """As what cannot be; what would be raised to who rejoins takes with it all that rejoined in the same message."""
    spec = RunnableSpec(Make)
    for unpack in (spec.unpack, spec.unpack_result):
        with pytest.raises(InvalidArgument, match="no five"):
            unpack(msgspec.msgpack.encode({"number": 5}))
