"""Failures: what ends in INTERNAL at a caller is in the log of whose bug it is, once, with its traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime import (
    Action,
    Busy,
    Component,
    Endpoint,
    InternalError,
    NotFound,
    Request,
    Unavailable,
    operation,
)
from appbackplane.runtime.testing import VirtualBackplane


class Strange(Endpoint):
    """Makes no action."""

    def create_action(self, request: Request) -> Action:
        return "done"  # type: ignore[return-value]


class Good(Component):
    """Fails in each way there is."""

    def setup(self) -> None:
        self.expose(Strange("strange", priority=3))

    @operation()
    async def mistyped(self) -> Any:
        return await self.call("god.hello")

    @operation()
    def unsendable(self) -> Any:
        return object()

    @operation()
    def too_large(self) -> Any:
        return bytes(17 << 20)

    @operation()
    def says_so(self) -> None:
        raise InternalError("out of order")

    @operation()
    def raises(self) -> None:
        raise KeyError("hat")

    @operation()
    async def asks(self) -> Any:
        return await self.call("other.raises")

    @operation()
    def busy(self) -> None:
        raise Busy("come back")

    @operation()
    def not_found(self) -> None:
        raise NotFound("no such hat")

    @operation()
    async def unavailable(self) -> Any:
        return await self.call("elsewhere.do", retry=False)

    @operation()
    async def sleeps(self) -> None:
        await asyncio.sleep(1)

    @operation()
    async def gathers(self) -> None:
        await asyncio.gather(self.call("good.hello"), self.call("good.hello"))

    @operation(digest="where")
    def digested(self) -> str:
        return "here"

    def where(self) -> Any:
        return 5


class Other(Component):
    """Somebody who is called."""

    @operation()
    def raises(self) -> None:
        raise KeyError("cap")


def ran(begin: Callable[[VirtualBackplane], object]) -> Any:
    """Begin a call, and have it end; returns its handle."""
    backplane = VirtualBackplane(Good(), Other(), outside=("elsewhere.do",))
    call = begin(backplane)
    backplane.run_until_idle()
    if backplane.outside_calls():
        backplane.kill_outside()
        backplane.run_until_idle()
    return call


def said_of(caplog: pytest.LogCaptureFixture, route: str) -> tuple[BaseException, list[str], str]:
    """What the caller of a route is told, what the log says meanwhile, and the tracebacks with it."""
    error = ran(lambda backplane: backplane.call(route)).error()
    return error, [record.getMessage() for record in caplog.records], caplog.text


@pytest.mark.parametrize(
    ("name", "words", "trace"),
    [
        ("mistyped", "no route 'god.hello'", 'self.call("god.hello")'),
        ("unsendable", "returned what cannot be sent", ""),
        ("too_large", "returned what cannot be sent", "exceed the limit"),
        ("says_so", "out of order", 'raise InternalError("out of order")'),
        ("raises", "hat", 'raise KeyError("hat")'),
        ("sleeps", "there is no asyncio here; for asyncio.sleep(1) await pause(1)", "await asyncio.sleep(1)"),
        (
            "gathers",
            "an operation may await self.call(...), self.gather(...) (not asyncio.gather)",
            "await asyncio.gather(",
        ),
        ("strange", "create_action must return an Action", ""),
        ("digested", "expected a key (a string), or a key and a priority, 0 to 7, got 5", ""),
    ],
)
def test_an_operations_own_bug_is_in_the_log(
    caplog: pytest.LogCaptureFixture, name: str, words: str, trace: str
) -> None:
    """The caller is told INTERNAL, which says: read the log."""
    error, said, text = said_of(caplog, f"good.{name}")
    assert isinstance(error, InternalError)
    (line,) = said
    assert words in line
    assert trace in text


def test_a_callees_bug_is_in_its_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    """One bug is one line, however long the chain of those who waited for it."""
    error, said, _ = said_of(caplog, "good.asks")
    assert isinstance(error, InternalError)
    assert said == ["other.raises on virtual/other failed: 'cap'"]


@pytest.mark.parametrize(("name", "kind"), [("busy", Busy), ("not_found", NotFound), ("unavailable", Unavailable)])
def test_what_is_no_bug_is_not_in_the_log(caplog: pytest.LogCaptureFixture, name: str, kind: type[Exception]) -> None:
    """A refusal is an answer; its caller has it, and nobody else needs it."""
    error, said, _ = said_of(caplog, f"good.{name}")
    assert isinstance(error, kind)
    assert said == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("busy", "come back"),
        ("not_found", "no such hat"),
        ("unavailable", "elsewhere.do: the process that held the call died"),
    ],
)
def test_a_refusal_that_nobody_waits_for_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, name: str, words: str
) -> None:
    """As `down` showed a traceback of each cast whose callee went first."""
    ran(lambda backplane: backplane.cast(f"good.{name}"))
    (line,) = caplog.text.splitlines()
    assert line.endswith(f"good.{name} on virtual/good failed: {words}")


def test_who_awaits_asyncio_is_told_what_to_await(caplog: pytest.LogCaptureFixture) -> None:
    """ "No running event loop" is true, and helps nobody who does not know that there is to be none."""
    error, _, _ = said_of(caplog, "good.sleeps")
    assert error.message.startswith("good.sleeps: RuntimeError: no running event loop: there is no asyncio here")  # type: ignore[attr-defined]
