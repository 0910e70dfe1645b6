"""Blocking calls: a plain operation calls, and its thread waits; another one works on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from appbackplane.runtime import (
    AppObject,
    BackplaneError,
    Component,
    DeadlineExceeded,
    InternalError,
    current,
    operation,
    pause,
)
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall


class Plain(AppObject):
    """Calls without `await`."""

    def __init__(self, ended: list[str]) -> None:
        self.ended = ended

    @operation(priority=3)
    def ask(self, route: str, key: str, timeout: float | None = None, order: str | None = None) -> Any:
        result = self.call_blocking(route, key=key, timeout=timeout, idempotency_key=order)
        self.ended.append("ask")
        return result

    @operation(priority=5)
    def leaf(self) -> str:
        self.ended.append(f"leaf of {self.key}")
        return f"leaf of {self.key}"

    @operation()
    def asked_by(self) -> list[Any]:
        action = current()
        return [action.source, action.priority]

    @operation()
    def go_round(self, key: str) -> Any:
        return self.call_blocking("plains.come_back", key=key, to=str(self.key))

    @operation()
    def come_back(self, to: str) -> Any:
        return self.call_blocking("plains.leaf", key=to)

    @operation()
    def tries(self) -> str:
        try:
            self.call_blocking("plains.no_such")
        except BackplaneError as error:
            return type(error).__name__
        return ""

    @operation()
    def rows(self) -> Iterator[str]:
        yield self.call_blocking("plains.leaf", key="b")
        yield "end"

    @operation()
    async def wrong(self) -> Any:
        return self.call_blocking("plains.leaf", key="b")

    @operation()
    async def nap(self) -> str:
        await pause(10.0)
        return "rested"


class Plains(Component):
    """Three of them."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def setup(self) -> None:
        for key in "abc":
            self.add(Plain(self.ended), key=key)


@pytest.fixture
def plains() -> VirtualBackplane:
    """They call each other."""
    return VirtualBackplane(Plains())


def ask(plains: VirtualBackplane, route: str, key: str = "b", **options: Any) -> VirtualCall:
    """`a` asks `key`."""
    timeout = options.pop("timeout", 30.0)
    return plains.call("plains.ask", key="a", timeout=timeout, arguments={"route": route, "key": key, **options})


def test_a_plain_operation_gets_the_result(plains: VirtualBackplane) -> None:
    """The callee sees who asks, and at which priority."""
    assert ask(plains, "plains.leaf").result() == "leaf of b"
    assert ask(plains, "plains.asked_by", order="k").result() == ["virtual/plains.a", 3]


def test_an_error_is_raised_where_it_was_called(plains: VirtualBackplane) -> None:
    """As `await self.call()` does; what is not caught is the operation's own bug."""
    assert plains.call("plains.tries", key="a").result() == "UnknownRoute"
    error = ask(plains, "plains.leaf", "nobody").error()
    assert isinstance(error, InternalError)
    assert error.message == "plains.ask: NotFound: virtual/plains has no object with key 'nobody'"


def test_others_are_served_meanwhile_and_the_object_is_not() -> None:
    """Law 1: an object does one thing at a time; its thread is replaced."""
    component = Plains()
    plains = VirtualBackplane(component)
    calls = [ask(plains, "plains.nap"), plains.call("plains.leaf", key="a"), plains.call("plains.leaf", key="c")]
    assert [call.result() for call in calls] == ["rested", "leaf of a", "leaf of c"]
    assert component.ended == ["leaf of c", "ask", "leaf of a"]


def test_a_cycle_is_refused_at_once(plains: VirtualBackplane) -> None:
    """It would wait for itself until the deadline."""
    error = plains.call("plains.go_round", key="a", arguments={"key": "b"}).error()
    assert isinstance(error, InternalError)
    way = (
        "plains.go_round on virtual/plains.a -> plains.come_back on virtual/plains.b -> plains.leaf on virtual/plains.a"
    )
    assert f"call cycle: {way}" in error.message


def test_it_ends_with_the_nearer_deadline(plains: VirtualBackplane) -> None:
    """Its own, or that of the operation, whose caller has gone then."""
    arguments = {"route": "plains.nap", "key": "b", "timeout": 2.0}
    error = plains.call("plains.ask", key="a", arguments=arguments).error()
    assert "plains.nap: no answer before the deadline" in error.message
    assert isinstance(ask(plains, "plains.nap", timeout=2.0).error(), DeadlineExceeded)


def test_a_generator_may_block_between_its_items(plains: VirtualBackplane) -> None:
    """It is plain, too."""
    assert list(plains.stream("plains.rows", key="a")) == ["leaf of b", "end"]


def test_a_coroutine_is_told_to_await(plains: VirtualBackplane) -> None:
    """It has no thread of its own to block."""
    error = plains.call("plains.wrong", key="a").error()
    assert error.message == (
        "plains.wrong: RuntimeError: virtual/plains.a cannot block for a call of 'plains.leaf': plains.wrong is `async def`; "
        "await self.call() instead"
    )


def test_outside_an_operation_there_is_nobody_to_call_for(plains: VirtualBackplane) -> None:
    """A thread of the application is a client."""
    plains.run_until_idle()
    clerk = plains.backplane.engine.registry.by_key("plains", "a")
    assert clerk is not None
    with pytest.raises(RuntimeError, match="no operation of this thread is running; use a client"):
        clerk.call_blocking("plains.leaf", key="b")
