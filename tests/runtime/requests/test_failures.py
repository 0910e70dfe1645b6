"""What an owner has of what `execute` raised: its class as data, and itself where it was raised in this process."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestFailed, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane

from .outside import Outside, failed


class Broken(Exception):
    """With something to say that is no text."""

    def __init__(self, code: int) -> None:
        super().__init__(f"broken {code}")
        self.code = code


@dataclass(frozen=True)
class Frozen(Exception):
    """Of which nothing can be set."""

    number: int


class Data:
    """What an execution works on."""


#: What executions had in their hands when they failed.
alive: list[weakref.ref[Any]] = []


def break_with(request: int) -> int:
    """Fail while something is held, and because of something else."""
    data = Data()
    alive.append(weakref.ref(data))
    if request < 0:
        raise FileNotFoundError(2, "nothing there", str(request))
    if not request:
        raise Frozen(request)
    try:
        raise KeyError(request)
    except KeyError as error:
        raise Broken(request) from error


class Plain(Runnable):
    def execute(self, request: int, kernel: Context) -> int:
        return break_with(request)


class Async(Runnable):
    async def execute(self, request: int, kernel: Context) -> int:
        return break_with(request)


class Parent(Runnable):
    """Fails as its child does."""

    def execute(self, request: str, kernel: Context) -> int:
        return int(kernel.run(3, request))


class Kernel(RequestKernel):
    runnables = (Plain, Async, Parent)
    policy = KernelPolicy(workers=2)


@pytest.fixture
def kernel() -> Context:
    alive.clear()
    made = Kernel()
    VirtualBackplane(made).run_until_idle()
    return made.kernel


@pytest.mark.parametrize("runnable", [Plain, Async])
def test_its_class_is_data_and_it_is_the_cause(kernel: Context, runnable: type[Runnable]) -> None:
    """Whoever decides by what went wrong need not read texts: and an errno is in no text that could be relied on."""
    own, builtin = sorted(kernel.map_unordered([3, -1], runnable), key=lambda done: -done.request)
    assert own.error_type == f"{__name__}.Broken", "as Python's own tracebacks say it"
    assert own.trace is not None and own.trace.rstrip().endswith(f"{own.error_type}: broken 3")
    assert builtin.error_type == "FileNotFoundError"
    with pytest.raises(RequestFailed) as raised:
        own.get()
    cause = raised.value.__cause__
    assert isinstance(cause, Broken) and cause.code == 3 and isinstance(cause.__cause__, KeyError)
    with pytest.raises(RequestFailed) as raised:
        builtin.get()
    assert isinstance(raised.value.__cause__, FileNotFoundError) and raised.value.__cause__.errno == 2


@pytest.mark.parametrize("runnable", ["Plain", "Async"])
def test_what_it_worked_on_is_let_go_of(kernel: Context, runnable: str) -> None:
    """Its traceback would keep all that each failed request had in its hands for as long as its owner keeps the request."""
    done = [*kernel.map_unordered([0, 1], runnable), *kernel.map_unordered([runnable], Parent)]
    assert [each.is_failed for each in done] == [True] * 3
    assert [one() for one in alive] == [None] * 3


def test_a_parent_that_fails_with_its_child_has_the_same_cause(kernel: Context) -> None:
    """Not the child's RequestFailed: it leads back to the parent, a circle that only the collector would end."""
    (parent,) = kernel.map_unordered(["Plain"], Parent)
    assert parent.error_type == "appbackplane.runtime.requests.errors.RequestFailed"
    with pytest.raises(RequestFailed, match=r"Parent 1: RequestFailed: Plain 2: Broken: broken 3") as raised:
        parent.get()
    assert isinstance(raised.value.__cause__, Broken)
    assert parent.trace is not None
    began, led_to = parent.trace.index("in break_with"), parent.trace.index("in get")
    assert began < led_to, "where it began is there, before what it led to"


def test_what_succeeded_or_was_never_raised_has_none(kernel: Context) -> None:
    element = kernel.post(1, Plain)
    assert (element.error_type, element.trace, element.cause) == (None, None, None)


def test_from_a_process_its_class_comes_and_it_does_not() -> None:
    """As the worker says it; one that says nothing of it, as one of an earlier installation, is understood."""
    outside = Outside("worker-1")
    first, second = outside.post(1, owner="x"), outside.post(2, owner="x")
    outside.batch("worker-1").reply([[*failed(first.id), "words.Odd"]])
    outside.run()
    outside.batch("worker-1").reply([failed(second.id)])
    outside.run()
    done = [outside.rejoin("x")[1] for _ in "12"]
    assert [each and (each.error, each.error_type, each.cause) for each in done] == [
        ("ValueError: no", "words.Odd", None),
        ("ValueError: no", None, None),
    ]
    with pytest.raises(RequestFailed) as raised:
        first.get()
    assert raised.value.__cause__ is None and not raised.value.__suppress_context__


def test_a_worker_that_was_lost_raised_nothing() -> None:
    outside = Outside("worker-1")
    element = outside.post(1, owner="x")
    outside.batch("worker-1")
    outside.kill("worker-1")
    outside.run()
    outside.rejoin("x")
    assert element.is_lost and element.error_type is None


def test_what_a_request_rejoins_in_its_process_has_it_too() -> None:
    outside = Outside("worker-1", "worker-2")
    parent = outside.post(1, owner="x")
    batch = outside.batch("worker-1")
    outside.says_posts("worker-1", outside.asked("worker-1", batch, parent.id), 5)
    child = outside.batch("worker-2")
    outside.run()
    child.reply([[*failed(child.arguments["items"][0][0]), "ValueError"]])
    outside.run()
    said, rows = outside.says_rejoins("worker-1", outside.asked("worker-1", batch, parent.id)).result()
    assert (said, rows[0][-1]) == ("returned", "ValueError")
