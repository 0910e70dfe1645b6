"""CoroutineAction: a user's own action makes a call, and goes on with the reply."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import (
    Action,
    AppObject,
    Busy,
    Cancelled,
    Component,
    Endpoint,
    Outcome,
    Request,
    operation,
    pause,
)
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import BackplaneError, DeadlineExceeded, InternalError, Unavailable


class Port(AppObject):
    @operation()
    def count(self) -> int:
        return 7


class Codec(AppObject):
    @operation()
    def encode(self, text: str) -> str:
        return text.upper()


class Line(Action):
    """Calls, pauses, and calls again; then `ends`."""

    def __init__(self, port: AppObject, request: Request) -> None:
        super().__init__(port, request.route, request.priority, request.deadline_ns)
        self.text = request.body.get("text", "")
        self.told: list[BackplaneError] = []

    async def run(self) -> Any:
        if self.text == "refuse":
            raise Busy("not now")
        encoded = await self.object.call("gateway.encode", text=self.text)
        await pause(0.5)
        outside = await self.object.call("oracle.answer")
        self.result = (encoded, outside, self.source)
        return Outcome.DONE if self.text != "odd" else Outcome.YIELDED

    def refuse(self, error: BackplaneError) -> None:
        super().refuse(error)
        self.told.append(error)


class LineEndpoint(Endpoint):
    def __init__(self, port: Port, made: list[Line]) -> None:
        super().__init__("line", priority=2)
        self.port, self.made = port, made

    def create_action(self, request: Request) -> Action:
        self.made.append(Line(self.port, request))
        return self.made[-1]


class Gateway(Component):
    def setup(self) -> None:
        self.made: list[Line] = []
        self.port = self.add(Port(), key="port")
        self.add(Codec(), key="codec")
        self.expose(LineEndpoint(self.port, self.made))


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def backplane(gateway: Gateway) -> VirtualBackplane:
    backplane = VirtualBackplane(gateway, outside=("oracle.answer",))
    backplane.run_until_idle()
    assert backplane.backplane is not None
    return backplane


def test_it_goes_on_with_each_reply(backplane: VirtualBackplane) -> None:
    call = backplane.call("gateway.line", text="hello")
    backplane.advance(0.5)
    (asked,) = backplane.outside_calls()
    asked.reply("because")
    encoded, outside, source = call.result()
    assert (encoded, outside) == ("HELLO", "because")
    assert source.startswith("client:")


def test_its_object_serves_nobody_else_meanwhile(backplane: VirtualBackplane) -> None:
    """Law 6, as for an operation that awaits."""
    backplane.call("gateway.line", text="hello")
    backplane.run_until_idle()
    other = backplane.call("gateway.count", key="port")
    backplane.run_until_idle()
    assert not other.done()
    backplane.advance(0.5)
    backplane.outside_calls()[0].reply("because")
    assert other.result() == 7


def test_an_error_of_a_call_is_not_the_callers_fault(backplane: VirtualBackplane) -> None:
    call = backplane.call("gateway.line", text="hello")
    backplane.advance(0.5)
    backplane.kill_outside()
    assert isinstance(call.error(), Unavailable)


def test_it_may_refuse(backplane: VirtualBackplane) -> None:
    assert str(backplane.call("gateway.line", text="refuse").error()) == "not now"


def test_another_outcome_is_named(backplane: VirtualBackplane) -> None:
    call = backplane.call("gateway.line", text="odd")
    backplane.advance(0.5)
    backplane.outside_calls()[0].reply("because")
    error = call.error()
    assert isinstance(error, InternalError)
    assert "Line.run() returned Outcome.YIELDED: a coroutine returns Outcome.DONE" in error.message


def test_a_cancellation_reaches_it_at_its_await(backplane: VirtualBackplane, gateway: Gateway) -> None:
    call = backplane.call("gateway.line", text="hello")
    backplane.run_until_idle()
    call.cancel()
    backplane.run_until_idle()
    assert isinstance(call.exception(), Cancelled)
    assert backplane.call("gateway.count", key="port").result() == 7
    assert gateway.port._load == 0


def test_one_that_never_began_releases_what_it_holds(backplane: VirtualBackplane, gateway: Gateway) -> None:
    backplane.call("gateway.line", text="first")
    backplane.run_until_idle()
    late = backplane.call("gateway.line", text="late", timeout=0.1)
    backplane.advance(0.2)
    assert isinstance(late.exception(), DeadlineExceeded)
    assert len(gateway.made[1].told) == 1


def test_one_of_a_device_is_told_of_its_end_and_can_be_posted_again(
    backplane: VirtualBackplane, gateway: Gateway
) -> None:
    """By `Component.post`, from any thread."""
    ended: list[Any] = []
    action = Line(gateway.port, Request("gateway.line", None, {"text": "tick"}, 1, None))
    action.on_end = lambda one: ended.append(one.result)
    for _ in range(2):
        gateway.post(action)
        with pytest.raises(ValueError, match="posted already and has not ended"):
            gateway.post(action)
        backplane.advance(0.5)
        backplane.outside_calls()[-1].reply("because")
        backplane.run_until_idle()
    assert [result[:2] for result in ended] == [("TICK", "because")] * 2
    backplane.backplane.engine.limits.own_work["gateway"].change(1)
    refused = Line(gateway.port, Request("gateway.line", None, {"text": "refuse"}, 1, None))
    gateway.post(Line(gateway.port, Request("gateway.line", None, {"text": "refuse"}, 1, None)))
    with pytest.raises(Busy):
        gateway.post(refused)
    backplane.run_until_idle()
    gateway.post(refused)
    backplane.run_until_idle()
    failing = Line(gateway.port, Request("gateway.line", None, {"text": "refuse"}, 1, None))
    failing.on_end = lambda one: ended.append(one.error)
    gateway.post(failing)
    backplane.run_until_idle()
    assert isinstance(ended[-1], Busy)
