"""What a test sees as a client of a virtual backplane; what can be compared with a process is in test_virtual_alike.py."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime import (
    AppObject,
    Busy,
    Component,
    DeadlineExceeded,
    NotFound,
    Unavailable,
    UnknownRoute,
    operation,
    pause,
)
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane, VirtualClock
from appbackplane.transport import Client
from appbackplane.transport.envelope import CALL, Envelope


class Kettle(Component):
    """Takes its time."""

    clock: VirtualClock

    def __init__(self) -> None:
        self.ended: list[str] = []

    @operation()
    async def boil(self, seconds: float) -> str:
        try:
            await pause(seconds)
        except Exception as error:
            self.ended.append(type(error).__name__)
            raise
        self.ended.append("boiled")
        return "tea"

    @operation()
    def brew(self, seconds: float) -> str:
        """Without letting others run."""
        self.clock.work(seconds)
        return "strong tea"

    @operation()
    def whistle(self, note: str) -> None:
        self.publish("kettle.whistles", note=note)


@pytest.fixture
def kettle() -> Kettle:
    return Kettle()


@pytest.fixture
def backplane(kettle: Kettle) -> VirtualBackplane:
    backplane = VirtualBackplane(kettle)
    kettle.clock = backplane.clock
    return backplane


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (VirtualBackplane.call, Client.submit),
        (VirtualBackplane.cast, Client.cast),
        (VirtualBackplane.publish, Client.publish),
        (VirtualBackplane.subscribe, Client.subscribe),
    ],
)
def test_its_methods_take_what_those_of_a_client_take(here: Callable[..., Any], there: Callable[..., Any]) -> None:
    """A program is changed in one place to run with the other. Only `retry` is off, unless a test asks for it."""

    def taken(method: Callable[..., Any]) -> list[tuple[object, ...]]:
        parameters = inspect.signature(method).parameters.values()
        return [(each.name, each.kind, each.default) for each in parameters if each.name != "retry"]

    assert taken(here) == taken(there)
    assert ("retry" in inspect.signature(here).parameters) == ("retry" in inspect.signature(there).parameters)


def test_a_call_without_a_timeout_ends_after_30_s(backplane: VirtualBackplane, kettle: Kettle) -> None:
    """As everybody's."""
    call = backplane.call("kettle.boil", seconds=60.0)
    backplane.advance(29.9)
    assert not call.done()
    backplane.advance(0.2)
    assert call.done() and isinstance(call.error(), DeadlineExceeded)
    assert kettle.ended == ["DeadlineExceeded"], "and its work does"


def test_an_answer_that_was_sent_too_late_is_none(backplane: VirtualBackplane) -> None:
    """A plain operation that has begun ends after the deadline: its caller has gone by then."""
    late = backplane.call("kettle.brew", seconds=2.0, timeout=1.0)
    in_time = backplane.call("kettle.brew", seconds=2.0, timeout=5.0)
    assert isinstance(late.error(), DeadlineExceeded)
    assert in_time.result() == "strong tea"


def test_time_passes_only_for_who_says_how_much(backplane: VirtualBackplane) -> None:
    """A test that forgot to let time pass is told so, and does not go on 30 s later."""
    call = backplane.call("kettle.boil", seconds=2.0)
    began_ns = backplane.clock.now_ns()
    with pytest.raises(AssertionError, match="time has to pass"):
        call.result()
    assert backplane.clock.now_ns() == began_ns
    with pytest.raises(TimeoutError, match=r"kettle\.boil: still outstanding after 0\.5 s"):
        call.result(timeout=0.5)
    assert backplane.clock.now_ns() == began_ns + 500_000_000
    assert call.result(timeout=10.0) == "tea"
    assert backplane.clock.now_ns() == began_ns + 2_000_000_000, "no longer than it has to wait"


def test_a_call_that_succeeds_has_no_error(backplane: VirtualBackplane) -> None:
    """`error` is what a test expects; it says what came instead."""
    call = backplane.call("kettle.brew", seconds=0.0)
    with pytest.raises(AssertionError, match="it returned 'strong tea'"):
        call.error()


def test_a_refused_call_is_retried_for_who_asks_for_it() -> None:
    """When it is due, until its own deadline; nobody else need be waiting for anything."""

    class Queue(Component):
        max_requests = 1

        @operation()
        async def stand(self) -> None:
            await self.call("counter.open", retry=False)

    backplane = VirtualBackplane(Queue(), outside=("counter.open",))
    first = backplane.call("queue.stand")
    retried, late = (backplane.call("queue.stand", retry=True, timeout=timeout) for timeout in (20.0, 2.0))
    assert isinstance(backplane.call("queue.stand").error(), Busy)
    assert not retried.done()
    began_ns = backplane.clock.now_ns()
    error = late.exception(timeout=10.0)
    assert isinstance(error, Busy) and error.attempts > 1
    assert backplane.clock.now_ns() < began_ns + 2_000_000_000
    backplane.outside_calls()[0].reply()
    assert first.result() is None
    backplane.advance(2.0)
    backplane.outside_calls()[1].reply()
    assert retried.result() is None


def test_there_is_no_supervisor(backplane: VirtualBackplane) -> None:
    """And no other system behind it: the test is told, not left to wait."""
    assert str(backplane.call("supervisor.status").error()) == "no route 'supervisor.status': a test has no supervisor"
    assert type(backplane.call("supervisor.status").error()) is NotFound
    with pytest.raises(UnknownRoute, match=r"did you mean 'kettle\.boil'"):
        backplane.call("kettle.bail")


def test_a_subscription_runs_the_backplane_and_lets_no_time_pass(backplane: VirtualBackplane) -> None:
    """As a call does."""
    with backplane.subscribe("kettle.*") as heard:
        backplane.cast("kettle.whistle", note="c")
        assert heard.get().body == {"note": "c"}
        with pytest.raises(AssertionError, match=r"no message of 'kettle\.\*'"):
            heard.get()
        with pytest.raises(TimeoutError):
            heard.get(timeout=1.0)
        backplane.cast("kettle.whistle", note="d")
        backplane.run_until_idle()
    backplane.cast("kettle.whistle", note="e")
    backplane.run_until_idle()
    assert [message.body["note"] for message in heard] == ["d"], "what had come is kept, and no more comes"
    with pytest.raises(Unavailable, match="is closed"):
        heard.get()


def test_a_call_of_another_caller_has_a_handle_too(backplane: VirtualBackplane) -> None:
    """Callers that no client would be: with an id of their own, and a deadline at which they take nothing back."""
    other = backplane.hear_call(Envelope(CALL, 2, None, "kettle.brew", None, None, None, {"seconds": 0.0}), b"other")
    own = backplane.call("kettle.brew", seconds="long")
    assert other.result() == "strong tea"
    assert "expected `float`" in own.error().message


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Kettle, "Kettle is a class: give it an object of it, Kettle()"),
        (AppObject(), "AppObject is not derived from Component: `add` takes other objects"),
    ],
)
def test_what_is_no_component_is_refused_by_name(given: Any, says: str) -> None:
    """The first mistake of a newcomer, where it was made."""
    with pytest.raises(DeclarationError, match=re.escape(f"VirtualBackplane: {says}")):
        VirtualBackplane(given)
