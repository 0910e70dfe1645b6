"""Optimiser loop: hands the optimiser a sample of the kernel at each interval, and applies and logs its moves.

optimiser/ decides, and is pure. Here the totals of two moments are subtracted, and a move becomes a change of policy, as if a
person had made it: lanes and all else follow. If a person changes these settings, the optimiser continues from there. It costs
20 us an interval, and up to a few ms in a search: so it is an action of its own, and nothing waits for it.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from appbackplane.transport.errors import InvalidArgument

from ...objects.action import DONE, Action, Outcome
from ...objects.app_object import AppObject
from ..ledger.figures import Figures
from ..ledger.lanes import shares
from ..optimiser import KernelSample, Optimiser, OptimiserPolicy, Setting
from ..policy import KernelPolicy

if TYPE_CHECKING:
    from ..kernel_base import KernelBase

log = logging.getLogger("appbackplane.runtime")


class OptimiserLoop(AppObject):
    """Runs the optimiser, as an object of the kernel."""

    def __init__(self, kernel: KernelBase) -> None:
        self._kernel: Any = kernel
        policy = kernel.policy
        self._bounds = policy.optimiser
        self._optimiser = Optimiser(possible(policy), setting_of(policy))
        self._before: Figures | None = None  # None: there is nothing to compare with
        self._is_first = True
        #: Whether a check is queued or running; the next one is then left out.
        self.is_running = False

    @property
    def workers_held(self) -> int:
        """The best worker count, as far as it is known."""
        return self._optimiser.workers_held

    def pause(self) -> None:
        """The time until the next check is not measured: requests are held, or the optimiser is off. Any thread."""
        self._before = None

    def run_interval(self) -> None:
        """An interval has passed: sample it, and apply the optimiser's move."""
        kernel = self._kernel
        policy: KernelPolicy = kernel.policy
        optimiser = self._optimiser
        after = kernel.figures()
        before, self._before = self._before, after
        if before is not None and after.posted_total < before.posted_total:
            before = None  # the kernel went down and came up, and counts anew
        is_first, self._is_first = self._is_first, False
        if policy.optimiser != self._bounds:
            self._bounds = policy.optimiser
            optimiser.review(possible(policy))
            self._apply(optimiser.setting, "the bounds have changed")
        elif is_first:
            self._apply(optimiser.setting, "the setting was not within its bounds")
        elif setting_of(policy) != optimiser.setting:
            optimiser.adopt(setting_of(policy))
            log.info("%s: the optimiser continues from %s", kernel.name, words(optimiser.setting))
        elif before is None:
            optimiser.go_on()
        elif move := optimiser.observe(sample_of(before, after, kernel.workers_up())):
            self._apply(move.setting, move.reason)

    def _apply(self, setting: Setting, reason: str) -> None:
        kernel = self._kernel
        if setting == setting_of(kernel.policy):
            return
        try:
            kernel._change(
                {"workers": setting.workers, "ready": setting.ready, "rejoin": setting.rejoin}, f"optimiser: {reason}"
            )
        except InvalidArgument as error:
            log.warning("%s: %s was refused: %s", kernel.name, words(setting), error)
            self._optimiser.adopt(setting_of(kernel.policy))
            return
        log.info("%s: %s: %s", kernel.name, words(setting), reason)


class OptimiserAction(Action):
    """The action of one check by the optimiser."""

    __slots__ = ()

    def run(self) -> Outcome:
        optimiser: Any = self.object
        try:
            optimiser.run_interval()
        finally:
            optimiser.is_running = False
        return DONE


def setting_of(policy: KernelPolicy) -> Setting:
    """The settings of a policy that the optimiser may change."""
    return Setting(policy.workers, policy.ready, policy.rejoin)


def possible(policy: KernelPolicy) -> OptimiserPolicy:
    """The optimiser's bounds, as far as lanes allow: enough workers for each lane's share, and one more for lane 3."""
    bounds = policy.optimiser
    if policy.mode == "plain":
        return bounds
    least = next(workers for workers in itertools.count(1) if shares(policy.lanes, workers)[-1] < workers)
    return msgspec.structs.replace(
        bounds, workers_min=max(bounds.workers_min, least), workers_max=max(bounds.workers_max, least)
    )


def sample_of(before: Figures, after: Figures, workers: int) -> KernelSample:
    """The kernel's work between two moments, with so many workers up at the second."""
    ended_count = after.ended_total - before.ended_total
    return KernelSample(
        interval_ns=max(1, after.at_ns - before.at_ns),
        ended_count=ended_count,
        ready_count=sum(after.ready),
        posting_count=after.posting,
        rejoinable_count=sum(after.rejoinable),
        workers=workers,
        executing_count=after.executing,
        blocked_count=after.blocked,
        run_ns=(after.run_ns_total - before.run_ns_total) // max(1, ended_count),
        wait_ns=(after.wait_ns_total - before.wait_ns_total) // max(1, ended_count),
    )


def words(setting: Setting) -> str:
    """A setting as text for the log."""
    return f"{setting.workers} workers, {setting.ready} ready, {setting.rejoin} rejoin"
