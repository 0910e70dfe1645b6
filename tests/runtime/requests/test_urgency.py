"""Urgency: larger is more urgent for requests, smaller for a backplane; one function turns the one into the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.requests import KernelPolicy
from appbackplane.runtime.requests.urgency import backplane_priority

POLICIES = st.builds(KernelPolicy, base=st.none() | st.integers(1, 255), step=st.integers(1, 100))


@given(policy=POLICIES, priorities=st.integers(1, 256), urgency=st.integers(), more=st.integers(0, 1000))
def test_more_urgent_is_never_later(policy: KernelPolicy, priorities: int, urgency: int, more: int) -> None:
    """And it is a priority that the backplane has; and never its highest, which something must be able to have before it."""
    priority = backplane_priority(urgency, policy, priorities)
    assert 0 <= priority < priorities
    assert priority >= min(1, priorities - 1)
    assert backplane_priority(urgency + more, policy, priorities) <= priority


def test_the_scale() -> None:
    """Zero and less is the base; each step is one higher."""
    assert [backplane_priority(each, KernelPolicy(base=5, step=2), 8) for each in (-9, 0, 1, 2, 4, 7, 8, 99)] == [
        5, 5, 5, 4, 3, 2, 1, 1,
    ]  # fmt: skip
    assert backplane_priority(0, KernelPolicy(), 8) == 7
    assert backplane_priority(0, KernelPolicy(base=200), 8) == 7, "of those that there are"
