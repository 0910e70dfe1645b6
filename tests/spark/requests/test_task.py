"""Task: what runs in a Python worker of Spark's, without Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from appbackplane.runtime.requests.context import Context
from appbackplane.spark.requests.task import InTask
from appbackplane.transport.errors import FailedPrecondition


def test_a_runnable_that_asks_whether_to_stop_works_there_too() -> None:
    """A long request had better ask; it is the same class wherever it is executed."""
    assert InTask("").should_stop() is False


def test_what_the_kernel_can_is_there_to_be_asked_for_and_says_why_it_is_refused() -> None:
    """`hasattr` is a question, and its answer no error."""
    kernel = InTask("")
    names = [name for name in vars(Context) if not name.startswith("_")]
    assert "post" in names
    assert all(hasattr(kernel, name) for name in names)
    assert not hasattr(kernel, "element")
    with pytest.raises(
        FailedPrecondition, match=r"^kernel\.post: a request that Spark executes has no way back to the kernel"
    ):
        kernel.post(1, "Add", owner="a")
    with pytest.raises(AttributeError, match=r"^kernel\.element: a request that Spark executes has no way back"):
        _ = kernel.element
