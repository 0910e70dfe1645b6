"""dataflow: calls that are given to other calls as arguments, before they have ended.

A graph of 1,000 operations over four backplanes, made at random from a seed, against the same graph whose caller carries each
result to the next call. Each result is compared with that of a sequential run in this process. Beside it: a chain of ten
calls over two backplanes that begins when a promise is set; how long it takes to name a circle of a thousand calls; and the
one-way messages on the critical path of the chain, counted where only the test moves frames (testing/virtual_system.py). A
surprise would be a chain whose results pass through the caller.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from appbackplane.runtime import Component, operation
from appbackplane.runtime.testing.virtual_system import VirtualSystem
from appbackplane.transport import FailedPrecondition, PendingCall
from appbackplane.transport.client import Client

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.systems import System, running

NAMES = ("one", "two", "three", "four")
GRAPH, CHAIN, CIRCLE = 1_000, 10, 1_000
#: Chains of each slice, whose median counts.
CHAINS = 30
#: An operand is the result of one of so many operations before, or a number.
REACH, RESULTS_OF_TEN = 40, 8
SEED = 20_260_101
MODULUS = 1_000_003
#: Calls that the carrying caller has outstanding: all that its operands allow, at most so many.
WINDOW = 64


class One(Component):
    """Mixes two numbers."""

    component_name = "one"

    @operation()
    def mix(self, number: int, left: int, right: int) -> int:
        return mixed(number, left, right)


class Two(One):
    """The same in another backplane."""

    component_name = "two"


class Three(One):
    """The same in another backplane."""

    component_name = "three"


class Four(One):
    """The same in another backplane."""

    component_name = "four"


#: An operation: its backplane, and its two operands: the number of an operation, or (-1, a number).
Node = tuple[str, tuple[int, int], tuple[int, int]]


def mixed(number: int, left: int, right: int) -> int:
    return (left * 31 + right * 7 + number) % MODULUS


def graph(seed: int, count: int) -> list[Node]:
    """Operations in an order in which none needs a later one."""
    random = Random(seed)

    def operand(number: int) -> tuple[int, int]:
        if number and random.randrange(10) < RESULTS_OF_TEN:
            return random.randrange(max(0, number - REACH), number), 0
        return -1, random.randrange(MODULUS)

    return [(random.choice(NAMES), operand(number), operand(number)) for number in range(count)]


def sequential(nodes: list[Node]) -> list[int]:
    """The results of a run in this process, one operation after the other."""
    results: list[int] = []
    for number, (_, *operands) in enumerate(nodes):
        left, right = (value if of < 0 else results[of] for of, value in operands)
        results.append(mixed(number, left, right))
    return results


def flowing(client: Client, nodes: list[Node]) -> list[int]:
    """All calls at once; each is given the calls that it needs."""
    calls: list[PendingCall] = []
    for number, (name, *operands) in enumerate(nodes):
        left, right = (value if of < 0 else calls[of] for of, value in operands)
        calls.append(client.submit(f"{name}.mix", number=number, left=left, right=right))
    return [call.result() for call in calls]


def carrying(client: Client, nodes: list[Node]) -> list[int]:
    """Each call once the results that it needs are here, in the order of the graph."""
    results: list[int] = []
    ahead: deque[PendingCall] = deque()
    for number, (name, *operands) in enumerate(nodes):
        newest = max(of for of, _ in operands)
        while len(results) <= newest or len(ahead) >= WINDOW:
            results.append(ahead.popleft().result())
        left, right = (value if of < 0 else results[of] for of, value in operands)
        ahead.append(client.submit(f"{name}.mix", number=number, left=left, right=right))
    return results + [call.result() for call in ahead]


def measured(system: System, nodes: list[Node], run: Callable[[Client, list[Node]], list[int]]) -> Figures:
    """The graph: how long it takes, and how many results are wrong."""
    expected = sequential(nodes)
    began = time.perf_counter()
    results = run(system.client, nodes)
    seconds = time.perf_counter() - began
    return {
        "graph_ms": seconds * 1e3,
        "wrong": sum(one != other for one, other in zip(results, expected, strict=True)),
    }


def forwarded(client: Client) -> int:
    """Results that backplanes have sent straight to other calls."""
    return sum(int(client.call(f"backplane.{name}.statistics")["operands"]["forwarded"]) for name in NAMES)


def chain(system: System) -> Figures:
    """Ten calls, alternately here and there, each with the result of the one before; the first with a promise."""
    client = system.client
    before, carried = forwarded(client), client._calling.session.core.flow.carried_count
    times: list[float] = []
    for _ in range(CHAINS):
        first = client.promise("first")
        call = client.submit("one.mix", number=0, left=first, right=0)
        for number in range(1, CHAIN):
            call = client.submit(f"{NAMES[number % 2]}.mix", number=number, left=call, right=0)
        client.call("one.mix", number=0, left=0, right=0)  # behind it, both have all calls
        client.call("two.mix", number=0, left=0, right=0)
        began = time.perf_counter()
        first.set(1)
        call.result()
        times.append(time.perf_counter() - began)
    return {
        "chain_ms": statistics.median(times) * 1e3,
        "chain_forwarded": (forwarded(client) - before) / CHAINS,
        "chain_carried": (client._calling.session.core.flow.carried_count - carried) / CHAINS,
    }


def carried_chain(system: System) -> Figures:
    """The same chain, whose caller carries each result."""
    times: list[float] = []
    for _ in range(CHAINS):
        began = time.perf_counter()
        result = 1
        for number in range(CHAIN):
            result = system.client.call(f"{NAMES[number % 2]}.mix", number=number, left=result, right=0)
        times.append(time.perf_counter() - began)
    return {"chain_ms": statistics.median(times) * 1e3}


def circle(system: System) -> Figures:
    """A thousand calls, each waiting for the one before, and the first for a promise that is to follow the last."""
    client = system.client
    promise = client.promise("last")
    call = client.submit("one.mix", number=0, left=promise, right=0)
    for number in range(1, CIRCLE):
        call = client.submit(f"{NAMES[number % 4]}.mix", number=number, left=call, right=0)
    began = time.perf_counter()
    try:
        promise.follows(call)
    except FailedPrecondition as error:
        seconds = time.perf_counter() - began
        is_named = "circle" in error.message and "'last'" in error.message
    else:
        seconds, is_named = 0.0, False
    promise.set(0)
    call.result()
    return {"circle_ms": seconds * 1e3, "circle_named": int(is_named)}


def message_times() -> Figures:
    """One-way messages on the critical path of the chain: everything in flight arrives, everybody reacts, and so on."""
    system = VirtualSystem({"one": lambda: [One()], "two": lambda: [Two()]})
    call = system.submit("one.mix", number=0, left=1, right=0)
    for number in range(1, CHAIN):
        call = system.submit(f"{NAMES[number % 2]}.mix", number=number, left=call, right=0)
    straight = system.run_until_idle()
    result, there_and_back = 1, 0
    for number in range(CHAIN):
        each = system.submit(f"{NAMES[number % 2]}.mix", number=number, left=result, right=0)
        there_and_back += system.run_until_idle()
        result = each.result()
    assert result == call.result(), "both chains do the same"
    return {"messages": straight, "messages_carried": there_and_back}


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    nodes = graph(SEED, GRAPH)
    classes = dict(zip(NAMES, ("One", "Two", "Three", "Four"), strict=True))
    lines = {name: f'components = ["{__name__}:{kind}"]' for name, kind in classes.items()}
    with running(lines) as system:
        yield Sides(
            lambda: measured(system, nodes, flowing) | chain(system) | circle(system) | message_times(),
            lambda: measured(system, nodes, carrying) | carried_chain(system),
        )


CASE = Case(
    name="dataflow",
    what="1,000 calls over four backplanes that take each other's results, against a caller that carries the results",
    requirements=(
        Requirement("one-way messages of a chain of 10", ours("messages"), at_most=11, at_least=11),
        Requirement("results that differ from a sequential run", ours("wrong"), at_most=0),
        Requirement("the same, carried by the caller", ours("messages_carried"), at_most=20, at_least=20),
        Requirement("results of the chain sent straight on", ours("chain_forwarded"), at_most=9, at_least=9),
        Requirement("circle named", ours("circle_named"), at_least=1),
        Requirement("time to name a circle of 1,000 calls", ours("circle_ms"), at_most=1_000, unit="ms"),
    ),
    open=both,
    rounds=5,
    quick_rounds=2,
)
