"""What does not come out at a worker process as what its annotation says is refused where it is posted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

import msgspec
import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, Rejoin, RequestKernel, Runnable
from appbackplane.runtime.requests.runnable import RunnableSpec
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InvalidArgument


@dataclass
class Base:
    a: int


@dataclass
class Derived(Base):
    b: int = 7


@dataclass
class Renamed(Base):
    """Has nothing that could be lost."""


class Point(msgspec.Struct):
    x: int


class Point3(Point):
    z: int = 3


class Colour(IntEnum):
    RED = 1


def runnable(kind: Any) -> RunnableSpec:
    """One that executes these."""

    def execute(self: Runnable, request: Any, kernel: Context) -> None:
        """Nothing."""

    execute.__annotations__["request"] = kind
    return RunnableSpec(type("Do", (Runnable,), {"execute": execute}))


REFUSED = [
    (tuple[int, int], "abc", "Do executes tuple[int, int], not this str: Expected `array`, got `str`: got 'abc'"),
    (tuple[int, int], [1, 2, 3], "Expected `array` of length 2, got 3"),
    (int | None, "abc", "Do executes int | None, not this str: "),
    (int, True, "Do executes int, not this bool: "),
    (float, True, "Do executes float, not this bool: "),
    (list[Base], [Point(1)], "Do executes list["),
    (
        Base,
        Derived(1, 2),
        "Do executes Base, and of this Derived 'b' would be lost on the way: annotate Derived, or post a Base",
    ),
    (Base | None, Derived(1, 2), "and of this Derived 'b' would be lost on the way"),
    (Point, Point3(1), "and of this Point3 'z' would be lost on the way"),
]


@pytest.mark.parametrize(("kind", "request_", "said"), REFUSED, ids=[f"{k} {r!r}" for k, r, _ in REFUSED])
def test_what_would_fail_or_be_less_at_the_worker_is_refused_where_it_is_posted(
    kind: Any, request_: Any, said: str
) -> None:
    """Else its poster hears of it when it rejoins, or never."""
    with pytest.raises(InvalidArgument) as refused:
        runnable(kind).pack(request_)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("kind", "given", "executed"),
    [
        (tuple[int, int], [1, 2], (1, 2)),
        (int | None, None, None),
        (int, Colour.RED, 1),
        (float, 3, 3.0),
        (Base, Base(1), Base(1)),
        (Base, Renamed(1), Base(1)),
        (Base | None, Base(1), Base(1)),
        (list[Base], [Base(1), {"a": 2}], [Base(1), Base(2)]),
        (Any, (1, "a"), [1, "a"]),
        (dict[str, int], Derived(1, 2), {"a": 1, "b": 2}),
        (object, Derived(1, 2), {"a": 1, "b": 2}),
        (object, (1, "a"), [1, "a"]),
    ],
)
def test_what_comes_out_as_what_is_annotated_travels(kind: Any, given: Any, executed: Any) -> None:
    """Also what is written as it travels: a list for a tuple."""
    spec = runnable(kind)
    assert spec.unpack(spec.pack(given)) == executed


class Part(Runnable):
    def execute(self, part: tuple[int, int], kernel: Context) -> int:
        return part[1] - part[0]


class Parts(RequestKernel):
    runnables = (Part,)


@pytest.mark.parametrize("post", [Context.post, Context.run, lambda kernel, *what: kernel.post_all([what[0]], Part)])
def test_nothing_was_posted_then(post: Callable[..., Any]) -> None:
    """What is refused changes nothing."""
    parts = Parts(KernelPolicy(kind="processes"))
    _ = VirtualBackplane(parts).backplane
    with pytest.raises(InvalidArgument, match=r"Part executes tuple\[int, int\], not this str"):
        post(parts.kernel, "abc", Part)
    assert parts.kernel.rejoin() == (Rejoin.NONE_EXIST, None)
    assert parts.figures().posted_total == 0


@pytest.mark.parametrize(
    ("kind", "fits", "request_"),
    [
        (Annotated[int, msgspec.Meta(le=100)], 100, 500),
        (dict[str, Annotated[int, msgspec.Meta(le=100)]], {"a": 100}, {"a": 500}),
    ],
)
def test_a_request_beyond_the_bounds_of_its_annotation_is_refused_where_it_is_posted(
    kind: Any, fits: Any, request_: Any
) -> None:
    """Threads got it, and processes, too: the bounds were dropped with all that is in `Annotated`."""
    spec = runnable(kind)
    spec.check(fits)
    with pytest.raises(InvalidArgument, match="<= 100"):
        spec.check(request_)
    with pytest.raises(InvalidArgument, match="<= 100"):
        spec.unpack(msgspec.msgpack.encode(request_))
