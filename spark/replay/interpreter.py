"""Interpreter: simulates how jobs share the GIL. One thread at a time has it; several share it in short time slices.

Slices are 0.1 ms (max_latency / 50) and actions that share are longer, so slices are modelled as infinitely short: each of k
computing jobs advances at 1/k of the speed (processor sharing). All present jobs are served equally, so a job is done when the
service per job since it joined reaches its need: one number, `_served`, and a heap are enough.
A CPU limit enforced by the kernel is a token bucket: full speed until it is empty, then the speed at which it fills. The
kernel works in periods of 10 to 100 ms; the model is wrong by at most one of them.
"""

from __future__ import annotations

import heapq
from typing import Any

#: CPU time that a limited group may have saved: quota and burst of supervisor/processes/cgroup_layout.py.
RESERVE_NS = 10_000_000.0
NEVER_NS = float("inf")


class Interpreter:
    """The jobs that compute now. Times are floats of ns since the load began: rounding to whole ns would add up."""

    __slots__ = ("_at_ns", "_jobs", "_number", "_served", "_share", "_tokens", "used_ns")

    def __init__(self, share: float | None = None) -> None:
        """`share`: of a core, the limit enforced by the kernel; None: no limit."""
        self._share = share if share is not None and share < 1.0 else None
        self._tokens = RESERVE_NS
        self._jobs: list[tuple[float, int, Any]] = []
        self._served = 0.0
        self._at_ns = 0.0
        self._number = 0
        #: CPU time used so far.
        self.used_ns = 0.0

    def join(self, job: Any, cpu_ns: float, now_ns: float) -> None:
        """A job begins to compute, and needs `cpu_ns` of CPU time."""
        self._advance(now_ns)
        self._number += 1
        heapq.heappush(self._jobs, (self._served + cpu_ns, self._number, job))

    def next_ns(self) -> float:
        """When the first job will be done if no other joins."""
        if not self._jobs:
            return NEVER_NS
        left = (self._jobs[0][0] - self._served) * len(self._jobs)
        if left < 0.0:
            left = 0.0
        share = self._share
        if share is None:
            return self._at_ns + left
        at_full_ns = self._tokens / (1.0 - share)
        if left <= at_full_ns:
            return self._at_ns + left
        return self._at_ns + at_full_ns + (left - at_full_ns) / share

    def pop(self, now_ns: float) -> Any:
        """Remove the first job that is done. Call it at `next_ns`."""
        self._advance(now_ns)
        finish, _, job = heapq.heappop(self._jobs)
        if self._jobs:
            if finish > self._served:
                self._served = finish
        else:
            self._served = 0.0
        return job

    def _advance(self, now_ns: float) -> None:
        elapsed = now_ns - self._at_ns
        self._at_ns = now_ns
        count = len(self._jobs)
        share = self._share
        if share is None:
            if count:
                self.used_ns += elapsed
                self._served += elapsed / count
        elif count:
            at_full = min(elapsed, self._tokens / (1.0 - share))
            done = at_full + (elapsed - at_full) * share
            self._tokens = max(0.0, self._tokens - at_full * (1.0 - share))
            self.used_ns += done
            self._served += done / count
        else:
            self._tokens = min(RESERVE_NS, self._tokens + elapsed * share)
