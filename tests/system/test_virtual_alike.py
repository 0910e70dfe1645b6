"""What passes in a VirtualBackplane runs the same in a process: each program runs in both, and its calls end alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import Client
from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded

from .components import Hearer, Sender, Shelf, Worker
from .conftest import LIMIT_S, System, Up, ask_until, standing

WORKSHOP = """
[backplane.main]
components = ["components:Worker", "components:Shelf", "components:Sender", "components:Hearer"]
"""


class InTest:
    """A virtual backplane, and the test as its client."""

    def __init__(self) -> None:
        self.client = VirtualBackplane(Worker(), Shelf(), Sender(), Hearer(), name="main")

    def call(self, route: str, **options: Any) -> Any:
        return self.client.call(route, **options)

    def wait_begun(self) -> None:
        self.client.run_until_idle()

    def end(self, call: Any) -> object:
        self.client.advance(1.0)
        try:
            return call.result()
        except BackplaneError as error:
            return type(error).status


class InProcess:
    """A process, and its client, which makes each call once."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def call(self, route: str, **options: Any) -> Any:
        return self.client.submit(route, **{"retry": False, **options})

    def wait_begun(self) -> None:
        ask_until(self.client, "worker.ended", lambda log: "a began" in log)

    def end(self, call: Any) -> object:
        error = call.exception()
        return call.result() if error is None else type(error).status


World = InTest | InProcess


def work(world: World, name: str = "a", **options: Any) -> Any:
    return world.call("worker.work", key="place-0", name=name, **options)


def said(act: Callable[[], object]) -> object:
    """What an act returns, or the error that it raises, in its own words."""
    try:
        return act()
    except (BackplaneError, TimeoutError) as error:
        told = (
            getattr(error, "is_refused", None),
            getattr(error, "retry_after", None),
            getattr(error, "attempts", None),
        )
        return type(error).__name__, str(error), *told


# -- calls that end -------------------------------------------------------------------------------------------------------


def result(world: World) -> list[object]:
    return [world.end(work(world, seconds=0.0))]


def wrong_argument(world: World) -> list[object]:
    return [world.end(work(world, seconds="long"))]


def unknown_key(world: World) -> list[object]:
    return [world.end(world.call("worker.work", key="nowhere", name="a"))]


def deadline_while_it_runs(world: World) -> list[object]:
    return [world.end(work(world, timeout=0.3))]


def deadline_of_a_key_while_it_runs(world: World) -> list[object]:
    """The work is done all the same, so that a drain waits for it."""
    return [world.end(work(world, seconds=1.0, timeout=0.3, idempotency_key="k"))]


def deadline_in_the_queue(world: World) -> list[object]:
    first = work(world, timeout=LIMIT_S)
    queued = work(world, "b", timeout=0.3)
    return [world.end(queued), first.cancel()]


def deadline_frees_the_object(world: World) -> list[object]:
    """Its work is taken back then, so that the next one begins long before it would have ended."""
    return [world.end(work(world, timeout=0.3)), world.end(work(world, "b", seconds=0.0))]


def taken_back_while_it_runs(world: World) -> list[object]:
    call = work(world)
    world.wait_begun()
    return [call.cancel(), world.end(call), call.cancel()]


def taken_back_with_a_key_while_it_runs(world: World) -> list[object]:
    """The work is done all the same, and whoever comes again gets its result."""

    def begin() -> Any:
        return world.call("worker.work_until_told", key="place-0", name="a", idempotency_key="again", timeout=LIMIT_S)

    call = begin()
    world.wait_begun()
    seen = [call.cancel(), world.end(call)]
    again = begin()
    world.call("worker.let_go", name="a").result()
    return [*seen, world.end(again)]


def taken_back_in_the_queue(world: World) -> list[object]:
    first, second = work(world), work(world, "b", seconds=0.0)
    third = work(world, "c", seconds=0.0)
    world.wait_begun()
    return [second.cancel(), world.end(second), first.cancel(), world.end(first), world.end(third)]


def taken_back_too_late(world: World) -> list[object]:
    call = work(world, seconds=0.0)
    return [world.end(call), call.cancel(), world.end(call)]


def asked_too_early(world: World) -> list[object]:
    """The call goes on, and its handle can be asked again."""
    call = world.call("worker.walk", key="gate", who="a")
    early = [said(lambda: call.result(timeout=0.1)), said(lambda: call.exception(timeout=0.1)), call.done(), repr(call)]
    world.call("worker.open", key="gate").result()
    return [
        *early,
        call.result(timeout=LIMIT_S),
        call.done(),
        repr(call),
        call.exception(),
        call.result(),
        call.cancel(),
    ]


def asked_until_its_deadline(world: World) -> list[object]:
    call = work(world, timeout=0.3)
    return [type(call.exception(timeout=LIMIT_S)).__name__, call.done(), call.cancel()]


def tried_again(world: World) -> list[object]:
    """Until its deadline, where waiting may help; its error tells how often."""
    of_another_state = world.call("shelf.stand_by", retry=True)
    taken = [work(world, str(number), timeout=LIMIT_S) for number in range(50)]
    for timeout in (1.5, 15.0):
        refused = world.call("worker.work", key="place-1", name="late", retry=True, timeout=timeout)
        error = refused.exception(timeout=LIMIT_S)
        if error.attempts > 1:  # a busy machine may not get to the second within the shorter time
            break
    # The deadline may come while an attempt is on its way: then nobody knows what it would have ended in.
    seen = [said(of_another_state.result), isinstance(error, Busy | DeadlineExceeded), error.attempts > 1]
    return [*seen, *(each.cancel() for each in taken)]


CASES: tuple[Callable[[World], list[object]], ...] = (
    result, wrong_argument, unknown_key, deadline_while_it_runs, deadline_of_a_key_while_it_runs, deadline_in_the_queue,
    deadline_frees_the_object, taken_back_while_it_runs, taken_back_with_a_key_while_it_runs, taken_back_in_the_queue,
    taken_back_too_late, asked_too_early, asked_until_its_deadline, tried_again,
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_calls_end_in_a_test_as_they_end_in_a_process(workshop: System, case: Callable[[World], list[object]]) -> None:
    """Else what is tested is not what runs."""
    with workshop.connect() as client:
        ask_until(client, "backplane.main.statistics", lambda told: not told["components"]["worker"]["outstanding"])
        client.call("worker.close", key="gate")
        client.call("worker.forget")
        assert case(InTest()) == case(InProcess(client))


# -- requests that are refused --------------------------------------------------------------------------------------------

#: A call, as (route, its arguments). Those that a client refuses itself are refused at once, the others by the backplane.
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a good one": ("shelf.add_up", {"numbers": [1, 2]}),
    "arguments": ("shelf.add_up", {"arguments": {"numbers": [1, 2], "start": 3}}),
    "arguments and keywords": ("shelf.add_up", {"arguments": {"numbers": [1, 2]}, "start": 3}),
    "no timeout": ("shelf.add_up", {"numbers": [], "timeout": None}),
    "a route like another": ("shelf.ad_up", {"numbers": [1]}),
    "a route like no other": ("zebra.stripe", {}),
    "a route that is no text": (5, {}),
    "an empty route": ("", {}),
    "a route of the backplane": ("backplane.main.threads", {"count": "many"}),
    "an unknown route of the backplane": ("backplane.main.nothing", {}),
    "a key that is no text": ("shelf.add_up", {"numbers": [1], "key": 7}),
    "an unknown key": ("shelf.add_up", {"numbers": [1], "key": "nowhere"}),
    "a priority in words": ("shelf.add_up", {"numbers": [1], "priority": "high"}),
    "a priority below 0": ("shelf.add_up", {"numbers": [1], "priority": -1}),
    "a priority beyond the last": ("shelf.add_up", {"numbers": [1], "priority": 99}),
    "a timeout of 0": ("shelf.add_up", {"numbers": [1], "timeout": 0}),
    "a timeout in words": ("shelf.add_up", {"numbers": [1], "timeout": "soon"}),
    "a timeout for ever": ("shelf.add_up", {"numbers": [1], "timeout": 1e12}),
    "an idempotency key that is no text": ("shelf.add_up", {"numbers": [1], "idempotency_key": 5}),
    "an empty idempotency key": ("shelf.add_up", {"numbers": [1], "idempotency_key": ""}),
    "arguments that are no mapping": ("shelf.add_up", {"arguments": [1]}),
    "a name that is no text": ("shelf.add_up", {"arguments": {1: 2}}),
    "an argument given twice": ("shelf.add_up", {"arguments": {"numbers": [1]}, "numbers": [2]}),
    "a value that cannot be serialised": ("shelf.add_up", {"numbers": [object()]}),
    "a number that is too large": ("shelf.add_up", {"numbers": [1 << 70]}),
    "a missing argument": ("shelf.add_up", {}),
    "an unknown argument": ("shelf.add_up", {"numbers": [1], "begin": 2}),
    "an argument of the wrong type": ("shelf.add_up", {"numbers": "one"}),
    "an operation that fails": ("shelf.fail", {"text": "broken"}),
    "an operation that would end its process": ("shelf.leave", {}),
    "an operation of another state": ("shelf.stand_by", {}),
    "a result that cannot be serialised": ("shelf.give_unknown", {}),
}
#: A topic, and what is published.
MESSAGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "a good one": ("numbers.next", {"number": 1, "filling": b""}),
    "arguments": ("numbers.next", {"arguments": {"number": 1, "filling": b""}, "priority": 2}),
    "to nobody": ("letters.next", {"letter": "a"}),
    "a pattern": ("numbers.*", {"number": 1}),
    "a topic that is no text": (5, {}),
    "a priority below 0": ("numbers.next", {"number": 1, "priority": -1}),
    "arguments that are no mapping": ("numbers.next", {"arguments": 5}),
    "a value that cannot be serialised": ("numbers.next", {"number": object()}),
}
#: What is subscribed to.
TOPICS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a pattern within a word": ("num*", {}),
    "a topic that is no text": (5, {}),
    "a timeout of 0": ("numbers.next", {"timeout": 0}),
}


@pytest.fixture(scope="module")
def workshop(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all that leaves nothing in it."""
    with standing(WORKSHOP) as system:
        yield system


def both(workshop: System, program: Callable[[World], object]) -> tuple[object, object]:
    """What a program says in a test, and in a process."""
    with workshop.connect() as client:
        return program(InTest()), program(InProcess(client))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused_in_the_same_words_at_the_same_time(workshop: System, name: str) -> None:
    """Else a test of a caller's error handling tests another error."""
    route, options = CALLS[name]

    def program(world: World) -> object:
        calls: list[Any] = []
        begun = said(lambda: calls.append(world.call(route, **options)))
        return [begun, *(said(call.result) for call in calls)]

    in_test, in_process = both(workshop, program)
    assert in_test == in_process


@pytest.mark.parametrize("name", [name for name in CALLS if not {"timeout", "idempotency_key"} & {*CALLS[name][1]}])
def test_a_cast_is_refused_in_the_same_words(workshop: System, name: str) -> None:
    """Whoever casts learns only what is known at once."""
    route, options = CALLS[name]
    in_test, in_process = both(workshop, lambda world: said(lambda: world.client.cast(route, **options)))
    assert in_test == in_process


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_refused_in_the_same_words(workshop: System, name: str) -> None:
    """And counts the same subscribers."""
    topic, options = MESSAGES[name]
    in_test, in_process = both(workshop, lambda world: said(lambda: world.client.publish(topic, **options)))
    assert in_test == in_process


@pytest.mark.parametrize("name", TOPICS)
def test_a_subscription_is_refused_in_the_same_words(workshop: System, name: str) -> None:
    """Before it has been made."""
    topic, options = TOPICS[name]
    in_test, in_process = both(workshop, lambda world: said(lambda: world.client.subscribe(topic, **options)))
    assert in_test == in_process


# -- topics ---------------------------------------------------------------------------------------------------------------


def test_a_subscription_hears_in_a_test_what_it_hears_in_a_process(up: Up) -> None:
    """Messages of objects only, from the moment on in which it returns, until it is closed."""

    def program(world: World) -> list[object]:
        with world.client.subscribe("numbers.*", timeout=LIMIT_S) as numbers:
            seen: list[object] = [numbers.topic, numbers.unconfirmed, numbers.try_get()]
            seen += [world.client.publish("numbers.next", number=0, filling=b"")]
            seen += [world.call("sender.send", count=2).result(), numbers.get(), numbers.get(timeout=LIMIT_S)]
            seen += [said(lambda: numbers.get(timeout=0.2)), repr(numbers.try_get())]
        world.call("sender.send", count=1).result()
        return [*seen, list(numbers), numbers.lost_count, said(numbers.get), said(numbers.try_get)]

    with up(WORKSHOP).connect() as client:
        assert program(InTest()) == program(InProcess(client))
