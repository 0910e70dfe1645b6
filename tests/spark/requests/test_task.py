"""Task: what runs in a Python worker of Spark's, without Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

import msgspec

from appbackplane.runtime.requests.executing.wire import ITEM_BYTES_MAX
from appbackplane.spark.requests.task import (
    TASK_BYTES_MAX,
    ImportPlace,
    InTask,
    PackedRequest,
    Slice,
    TaskAnswers,
    bytes_of,
    execute,
)
from appbackplane.transport.errors import FailedPrecondition

from .made import Large


def test_a_runnable_that_asks_whether_to_stop_works_there_too() -> None:
    """A long request had better ask; it is the same class wherever it is executed."""
    assert InTask("").should_stop() is False


def test_what_there_is_not_can_be_asked_for_and_says_why() -> None:
    """`hasattr` is a question, and its answer no error."""
    kernel = InTask("")
    assert [hasattr(kernel, name) for name in ("resources", "should_stop", "post", "element")] == [
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(
        FailedPrecondition, match=r"^kernel\.post: a request that Spark executes cannot reach the kernel"
    ):
        kernel.post(1, "Add", owner="a")


def executed(*sizes: int) -> TaskAnswers:
    """What a task gathers of requests whose results are so large."""
    terms: list[bytes] = []

    class Gathered:
        def add(self, term: list[bytes]) -> None:
            terms.extend(term)

    place = ImportPlace({"Large": f"{Large.__module__}:Large"}, "", ())
    asked = [PackedRequest(number, "Large", msgspec.msgpack.encode(size)) for number, size in enumerate(sizes, 1)]
    assert list(execute(Gathered(), [msgspec.msgpack.encode(Slice(7, place, asked))])) == []
    (packed,) = terms
    return msgspec.msgpack.decode(packed, type=TaskAnswers)


def test_a_task_that_has_gathered_enough_leaves_the_rest() -> None:
    """Results of a size that is allowed, a thousand in one task, are more than the driver's JVM can hold."""
    part = executed(*[TASK_BYTES_MAX // 3] * 9)
    assert [answer.number for answer in part.answers] == [1, 2, 3]
    assert part.left == [4, 5, 6, 7, 8, 9]
    assert TASK_BYTES_MAX <= sum(map(bytes_of, part.answers)) < 2 * TASK_BYTES_MAX
    part = executed(*[1] * 9)
    assert (len(part.answers), part.left) == (9, [])


def test_a_result_that_is_too_large_is_a_failure_as_everywhere() -> None:
    """With what to do about it, and none to those behind it."""
    part = executed(ITEM_BYTES_MAX + 1, 1)
    assert [answer.result is None for answer in part.answers] == [True, False]
    assert part.answers[0].error.startswith("Large returned 7,340,0")
    assert part.answers[0].error.endswith(" bytes: at most 7,340,032 can be sent")
    assert part.left == []
