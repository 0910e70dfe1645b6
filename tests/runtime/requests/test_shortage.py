"""Shortage: too few worker processes, said in a sentence that names what is missing and what to write."""

from __future__ import annotations

import logging

import pytest

from appbackplane.runtime.requests import KernelPolicy
from appbackplane.runtime.requests.executing.shortage import shortage_of

from .outside import Outside

PROCESSES = KernelPolicy(kind="processes", workers=4)


@pytest.mark.parametrize(
    ("policy", "there", "said"),
    [
        (PROCESSES, 4, ""),
        (PROCESSES, 7, ""),
        (KernelPolicy(workers=4), 0, ""),
        (KernelPolicy(kernel="spark", kind="processes", workers=4), 0, ""),
        (PROCESSES, 0, "no backplane has a component 'request_worker'"),
        (PROCESSES, 3, "3 of 4 workers: 'request_worker' has no more replicas: have more (replicas = 4)"),
        (KernelPolicy(kind="processes", pool="worker"), 0, 'which the policy names (pool = "worker")'),
    ],
)
def test_it_is_said_what_is_missing(policy: KernelPolicy, there: int, said: str) -> None:
    """And nothing where workers are there, or are not the supervisor's."""
    assert said in (sentence := shortage_of(policy, "bulk:Bulk", there))
    assert bool(sentence) is bool(said)


def test_a_kernel_says_it_once_and_a_worker_that_is_down_is_no_shortage(caplog: pytest.LogCaptureFixture) -> None:
    """A warning every half second would be read by nobody; one for each restart would be false."""
    caplog.set_level(logging.WARNING, "appbackplane.runtime")
    outside = Outside("worker-1", "worker-2")
    outside.kernel.change(workers=2)
    outside.kill("worker-2")
    for _ in range(3):
        outside.kernel._watch()
    assert "workers:" not in caplog.text
    outside.kernel.change(workers=3)
    for _ in range(3):
        outside.kernel._watch()
    assert caplog.text.count("2 of 3 workers: 'request_worker' has no more replicas") == 1
