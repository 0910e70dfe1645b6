"""What passes in a VirtualBackplane runs the same in a process: each case is run in both, and calls end in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import Client
from appbackplane.transport.errors import BackplaneError

from .components import Worker
from .conftest import Up, ask_until


class InTest:
    """A virtual backplane, and the test as its client."""

    def __init__(self) -> None:
        self.virtual = VirtualBackplane(Worker())

    def call(self, route: str, **options: Any) -> Any:
        return self.virtual.call(route, **options)

    def wait_begun(self) -> None:
        self.virtual.run_until_idle()

    def end(self, call: Any) -> object:
        self.virtual.advance(1.0)
        try:
            return call.result()
        except BackplaneError as error:
            return type(error).status


class InProcess:
    """A process, and its client, which makes each call once."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def call(self, route: str, **options: Any) -> Any:
        return self.client.submit(route, retry=False, **options)

    def wait_begun(self) -> None:
        ask_until(self.client, "worker.ended", lambda log: "a began" in log)

    def end(self, call: Any) -> object:
        error = call.exception()
        return call.result() if error is None else type(error).status


World = InTest | InProcess


def work(world: World, name: str = "a", **options: Any) -> Any:
    return world.call("worker.work", key="place-0", name=name, **options)


def result(world: World) -> list[object]:
    return [world.end(work(world, seconds=0.0))]


def wrong_argument(world: World) -> list[object]:
    return [world.end(work(world, seconds="long"))]


def unknown_key(world: World) -> list[object]:
    return [world.end(world.call("worker.work", key="nowhere", name="a"))]


def deadline_while_it_runs(world: World) -> list[object]:
    return [world.end(work(world, timeout=0.3))]


def deadline_of_a_key_while_it_runs(world: World) -> list[object]:
    return [world.end(work(world, timeout=0.3, idempotency_key="k"))]


def deadline_in_the_queue(world: World) -> list[object]:
    first = work(world)
    queued = work(world, "b", timeout=0.3)
    return [world.end(queued), first.cancel()]


def taken_back_while_it_runs(world: World) -> list[object]:
    call = work(world)
    world.wait_begun()
    return [call.cancel(), world.end(call), call.cancel()]


def taken_back_with_a_key_while_it_runs(world: World) -> list[object]:
    """The work is done all the same, and whoever comes again gets its result."""
    call = work(world, seconds=0.3, idempotency_key="k")
    world.wait_begun()
    return [call.cancel(), world.end(call), world.end(work(world, seconds=0.3, idempotency_key="k"))]


def taken_back_in_the_queue(world: World) -> list[object]:
    first, second = work(world), work(world, "b", seconds=0.0)
    third = work(world, "c", seconds=0.0)
    world.wait_begun()
    return [second.cancel(), world.end(second), first.cancel(), world.end(first), world.end(third)]


def taken_back_too_late(world: World) -> list[object]:
    call = work(world, seconds=0.0)
    return [world.end(call), call.cancel(), world.end(call)]


CASES: tuple[Callable[[World], list[object]], ...] = (
    result, wrong_argument, unknown_key, deadline_while_it_runs, deadline_of_a_key_while_it_runs, deadline_in_the_queue,
    taken_back_while_it_runs, taken_back_with_a_key_while_it_runs, taken_back_in_the_queue, taken_back_too_late,
)  # fmt: skip


def test_calls_end_in_a_test_as_they_end_in_a_process(up: Up) -> None:
    """Else what is tested is not what runs."""
    for case in CASES:
        with up(
            '[backplane.workshop]\ncomponents = ["components:Worker"]', case.__name__.replace("_", "-")[:24]
        ).connect() as client:
            assert (case.__name__, case(InTest())) == (case.__name__, case(InProcess(client)))
