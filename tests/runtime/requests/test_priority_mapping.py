"""Priority mapping: requests and a backplane count from 0, the most urgent; one function turns the one into the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime import operation
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.executing.priority_mapping import NEVER, backplane_priority, least_urgent_above
from appbackplane.runtime.requests.ledger.element import PRIORITY_MAX, REQUEST_PRIORITY
from appbackplane.runtime.testing import VirtualBackplane

POLICIES = st.builds(KernelPolicy, base=st.none() | st.integers(1, 255), step=st.integers(1, 100))


@given(policy=POLICIES, priorities=st.integers(1, 256), priority=st.integers(), less=st.integers(0, 1000))
def test_more_urgent_is_never_later(policy: KernelPolicy, priorities: int, priority: int, less: int) -> None:
    """And it is a priority that the backplane has; and never its highest, which something must be able to have before it."""
    backplane = backplane_priority(priority, policy, priorities)
    assert 0 <= backplane < priorities
    assert backplane >= min(1, priorities - 1)
    assert backplane_priority(priority - less, policy, priorities) <= backplane


def test_the_scale() -> None:
    """The default and whatever is less urgent is the base; each step is one higher."""
    policy = KernelPolicy(base=5, step=2)
    assert [backplane_priority(each, policy, 8) for each in (109, 100, 99, 98, 96, 93, 92, 1, 0, -1)] == [
        5, 5, 5, 4, 3, 2, 1, 1, 1, 1,
    ]  # fmt: skip
    assert backplane_priority(REQUEST_PRIORITY, KernelPolicy(), 8) == 7
    assert backplane_priority(PRIORITY_MAX, KernelPolicy(), 8) == 7
    assert backplane_priority(REQUEST_PRIORITY, KernelPolicy(base=200), 8) == 7, "of those that there are"


def test_a_request_without_a_priority_has_the_default() -> None:
    kernel, _ = started(1)
    assert kernel.kernel.post(1, Noted).priority == REQUEST_PRIORITY


def test_the_smaller_priority_goes_first() -> None:
    """As with operations: 0 before all. It was the other way round once."""
    kernel, backplane = started(1)
    for priority in (101, 100, 0, 99, 1):
        kernel.kernel.post(priority, Noted, priority=priority)
    backplane.run_until_idle()
    assert order == [0, 1, 99, 100, 101]


@given(
    policy=POLICIES, priorities=st.integers(1, 256), backplane=st.integers(0, 255), priority=st.integers(-30_000, 109)
)
def test_what_is_more_urgent_than_a_priority(
    policy: KernelPolicy, priorities: int, backplane: int, priority: int
) -> None:
    """Exactly from there on a request would have another priority: above it nothing is to be done for it."""
    backplane = min(backplane, backplane_priority(REQUEST_PRIORITY, policy, priorities))
    is_more_urgent = backplane_priority(priority, policy, priorities) < backplane
    assert is_more_urgent == (priority <= least_urgent_above(backplane, policy, priorities))
    assert least_urgent_above(backplane, policy, priorities) >= NEVER


#: What ran.
order: list[Any] = []


class Noted(Runnable):
    """Notes when it is executed."""

    def execute(self, request: Any, kernel: Context) -> None:
        order.append(request)


class Kernel(RequestKernel):
    runnables = (Noted,)

    @operation(priority=3)
    def other(self) -> None:
        """Work of the backplane that is no request."""
        order.append("other")


def started(workers: int) -> tuple[Kernel, VirtualBackplane]:
    order.clear()
    kernel = Kernel(KernelPolicy(workers=workers))
    backplane = VirtualBackplane(kernel)
    backplane.run_until_idle()
    return kernel, backplane


@pytest.mark.parametrize("bulk", [1, 3, 4, 5, 40])
def test_an_urgent_request_does_not_wait_behind_what_bulk_waits_for(bulk: int) -> None:
    """All workers may have been queued for bulk when it comes: as they were queued, it would be behind all other work."""
    kernel, backplane = started(4)
    for number in range(bulk):
        kernel.kernel.post(number, Noted)
    for _ in range(100):
        backplane.cast("kernel.other")
    kernel.kernel.post("urgent", Noted, priority=1)
    backplane.run_until_idle()
    assert len(order) == bulk + 101
    assert order[0] == "urgent"


def test_each_urgent_request_has_a_worker_and_no_more() -> None:
    """What is queued for bulk beside them stays where it was: behind the backplane's other work."""
    kernel, backplane = started(4)
    for number in range(4):
        kernel.kernel.post(number, Noted)
    for _ in range(10):
        backplane.cast("kernel.other")
    kernel.kernel.post("urgent", Noted, priority=1)
    kernel.kernel.post("more urgent", Noted, priority=0)
    executor: Any = kernel._executor
    assert sorted(each.priority for each in executor._queued.values()) == [1, 1, 7, 7]
    kernel.kernel.post(5, Noted, priority=95)
    assert sorted(each.priority for each in executor._queued.values()) == [1, 1, 7, 7], "it is as urgent as the others"
    backplane.run_until_idle()
    assert order[:2] == ["more urgent", "urgent"]
    assert not executor._queued


def test_who_was_raised_in_vain_is_as_urgent_as_what_is_left() -> None:
    """Somebody else has executed it: bulk that ran in its place would run before the backplane's other work."""
    kernel, backplane = started(2)
    for number in range(2):
        kernel.kernel.post(number, Noted)
    backplane.cast("kernel.other")
    urgent = [kernel.kernel.post("urgent", Noted, priority=1, owner="x") for _ in range(2)]
    assert len(urgent) == 2
    kernel.kernel.disown("x")
    backplane.run_until_idle()
    assert order == ["other", 0, 1]
