"""Simulation: recorded arrivals, the real scheduler, and simulated workers. Events run in order; no real time passes.

| part | model |
|---|---|
| an action | computes for `cpu` (interpreter.py), then is blocked for `run - cpu`, while others may compute |
| one that awaits | runs for half of `run`; awaits in the wait queue, without a worker; runs for the other half |
| between two actions | a worker is busy for `Costs.between_ns` more: it receives messages, replies, keeps accounts |
| an overrun | 1 or 2 relief workers for more urgent work (workers/poll_leader.py): after the quantum, if foreseen at once |
| a CPU limit | enforced by the kernel: a slower interpreter; by the scheduler: its own budget, with its ticks |
| an aim | the real limit of queueing times refuses actions (scheduling/adaptive_limit.py), priority 0 excepted |
| a lane | an action beyond its limit waits for one of the lane to end; its object waits with it, in order |

Costs 5 to 8 us per action.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Final, cast

from appbackplane.runtime.objects.action import DONE, WAITING, Action
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.adaptive_limit import AdaptiveLimit

from .interpreter import NEVER_NS, Interpreter
from .load import NEVER, Load
from .setting import ReplaySetting

#: As in execution/workers/poll_leader.py: how long an action may run before a relief worker is let in, and how many there are.
QUANTUM_NS: Final = 500_000
RELIEFS_MAX: Final = 2
#: Mean time from the end of a quantum to the sentinel's next scan: half of its pause, which is a quantum.
_LOOK_NS: Final = QUANTUM_NS // 2
#: A shorter wait for a reply counts as none: it is the noise of two clocks.
AWAITS_NS: Final = 20_000

#: In place of the wait of an action that the limit of queueing times refused.
REFUSED: Final = -2

_COMPUTES, _BLOCKED, _AWAITS, _ENDED = range(4)


@dataclass(frozen=True, slots=True)
class Costs:
    """Overheads of the recorded machine, found by calibration."""

    #: A worker's own work for each action.
    between_ns: int = 0
    #: Share of the CPU limit that is left for actions.
    limit_share: float = 1.0
    #: Time from the first arrival to the first tick. It matters if the scheduler enforces the limit.
    tick_after_ns: int | None = None


@dataclass(slots=True)
class Replayed:
    """The results of each action, in the order of the load; times in ns since the first arrival."""

    #: Total time in queues; -1: it was too late to begin; REFUSED: the limit of queueing times refused it.
    wait: list[int]
    #: The part of `wait` after it had begun.
    wait_later: list[int]
    #: When it ended; 0: it never began.
    end: list[int]
    #: Run time beyond its computing and blocked time: held up by the GIL or the limit.
    held_up: list[int]
    #: Sum of all workers' time with an action (relief workers too), and CPU time.
    busy_ns: int = 0
    cpu_ns: int = 0
    expired_count: int = 0
    #: When the last action ended.
    end_ns: int = 0
    ticks: tuple[int, int] = (0, 0)
    #: Actions run by relief workers.
    relieved_count: int = 0


class _Work(Action):
    """An action of the load. Has only the attributes that the scheduler reads: a million of them are made."""

    __slots__ = ("is_relief", "lane", "number", "phase", "start_ns", "step")

    def __init__(self, object: AppObject, number: int, priority: int, deadline_ns: int | None) -> None:
        self.object = object
        self.number = number
        self.priority = self.priority_asked = priority
        self.wait_ns = self.started_ns = 0
        self.is_queued = False
        self.deadline_ns = deadline_ns
        self.posted_ns = 0
        self.continues = False
        self.next = None
        #: 0: it runs in one go. 1, 2: the first and the second half of one that awaits.
        self.step = 0
        self.phase = _COMPUTES
        self.start_ns = 0
        self.is_relief = False
        self.lane = 0


def simulate(load: Load, setting: ReplaySetting, costs: Costs | None = None) -> Replayed:
    """Simulate a load under a setting. `costs`: from calibration; default: none."""
    return _Simulation(load, setting, costs or Costs()).run()


class _Simulation:
    """The state of one simulated run."""

    def __init__(self, load: Load, setting: ReplaySetting, costs: Costs) -> None:
        self.load, self.setting, self.costs = load, setting, costs
        self.order = sorted(range(len(load)), key=load.arrival.__getitem__)
        self.origin_ns = load.arrival[self.order[0]] if len(load) else 0
        first_ns = 0 if costs.tick_after_ns is None else costs.tick_after_ns - setting.tick_ns
        self.scheduler = setting.scheduler(first_ns)
        self.scheduler.budget.leave_to_kernel(setting.is_limited_by_kernel)
        share = None
        if setting.cpu_limit is not None and setting.is_limited_by_kernel:
            share = setting.cpu_limit / 100 * costs.limit_share
        self.interpreter = Interpreter(share)
        self.free_count = setting.threads
        #: Number of regular workers that run each priority, and the priorities that relief workers run.
        self.running = [0] * setting.priorities
        self.relieving: list[int] = []
        self.is_relieved = False
        #: (when, number, work): it is unblocked, its reply has come, or (number below 0) its quantum is over.
        self.events: list[tuple[float, int, _Work]] = []
        self.events_count = 0
        self.typical = typical_ns_of(load)
        self.objects: dict[int, AppObject] = {}
        self.limit = None if setting.aim_ns is None else AdaptiveLimit(setting.aim_ns, setting.priorities, 0)
        self.in_lane = dict.fromkeys(setting.lanes, 0)
        self.kept: dict[int, deque[_Work]] = {lane: deque() for lane in setting.lanes}
        count = len(load)
        self.result = Replayed([0] * count, [0] * count, [0] * count, [0] * count)

    def run(self) -> Replayed:  # hot: scripts/bench replay
        load, scheduler, interpreter, events = self.load, self.scheduler, self.interpreter, self.events
        order, arrival, origin_ns, count = self.order, load.arrival, self.origin_ns, len(load)
        computed_at = interpreter.next_ns
        index, now_ns = 0, 0.0
        arrives_ns = 0.0 if count else NEVER_NS
        computed_ns = NEVER_NS
        while True:
            event_ns = events[0][0] if events else NEVER_NS
            next_ns = min(arrives_ns, computed_ns, event_ns)
            if scheduler.ready.count:
                next_ns = min(next_ns, self._wake_ns())
            if next_ns == NEVER_NS:
                break
            now_ns = max(now_ns, next_ns)
            if computed_ns <= now_ns:
                self._computed(interpreter.pop(now_ns), now_ns)
            elif event_ns <= now_ns:
                _, number, work = heapq.heappop(events)
                if number < 0:
                    self._overran(work)
                elif work.phase == _AWAITS:
                    scheduler.resume(work, int(now_ns))
                else:
                    self._ended(work, now_ns)
            elif arrives_ns <= now_ns:
                self._arrives(order[index], int(now_ns))
                index += 1
                arrives_ns = float(arrival[order[index]] - origin_ns) if index < count else NEVER_NS
                if arrives_ns <= now_ns:
                    continue  # simultaneous arrivals are all queued before a worker chooses
            self._dispatch(int(now_ns))
            computed_ns = computed_at()
        result = self.result
        result.end_ns, result.cpu_ns = int(now_ns), int(interpreter.used_ns)
        result.ticks = (scheduler.tick_count, scheduler.virtual_tick_count)
        assert not scheduler.queued_count and not any(self.kept.values()), "whatever is queued runs some time"
        return result

    def _wake_ns(self) -> float:
        """The next tick, if a worker could use it: it refills a spent budget, or the quotas for a relief worker."""
        if self.free_count:
            return self.scheduler.ticks.next_ns if self.scheduler.budget.is_spent else NEVER_NS
        is_relief_free = self.is_relieved and len(self.relieving) < RELIEFS_MAX
        return self.scheduler.ticks.next_ns if is_relief_free else NEVER_NS

    def _arrives(self, index: int, now: int) -> None:
        load = self.load
        number = load.object[index]
        object = self.objects.get(number)
        if object is None:
            object = self.objects[number] = AppObject()
        deadline_ns = load.deadline[index]
        deadline = None if deadline_ns == NEVER else deadline_ns - self.origin_ns
        work = _Work(object, index, min(load.priority[index], self.setting.priorities - 1), deadline)
        if load.lane:
            work.lane = load.lane[index]
        if load.awaited[index] > AWAITS_NS:
            work.step = 1
        if self.limit is not None and not self._is_admitted(work, self.limit, now):
            return
        self.scheduler.post(work, now)

    def _is_admitted(self, work: _Work, limit: AdaptiveLimit, now: int) -> bool:
        """As execution/intake/overload_control.py does it: refuse queued actions that are too late, then this one or not."""
        while (late := limit.next_late(now)) is not None:
            if self.scheduler.withdraw(late):
                self._refuse(cast("_Work", late), limit, now)
        if not limit.admits(work.priority, now):
            self.result.wait[work.number] = REFUSED
            return False
        limit.admitted(work, now)
        return True

    def _refuse(self, work: _Work, limit: AdaptiveLimit, now: int) -> None:
        """End an action that has queued for longer than the aim."""
        limit.refused_late()
        limit.ended(work, now)
        self.result.wait[work.number] = REFUSED

    def _dispatch(self, now: int) -> None:
        """All free workers choose their next work, then the relief workers."""
        scheduler = self.scheduler
        while self.free_count:
            work = self._kept_back() if self.kept else None
            if work is None:
                work = cast("_Work | None", scheduler.next(now))
            if work is None:
                self.is_relieved = False
                return
            self._begin(work, now, is_relief=False)
        while self.is_relieved and len(self.relieving) < RELIEFS_MAX and scheduler.ready.count:
            below = max(priority for priority, count in enumerate(self.running) if count)
            work = cast("_Work | None", scheduler.next(now, min([below, *self.relieving])))
            if work is None:
                return
            self._begin(work, now, is_relief=True)

    def _kept_back(self) -> _Work | None:
        """An action that waited for its lane, and may run now; None: there is none."""
        for lane, kept in self.kept.items():
            if kept and self.in_lane[lane] < self.setting.lanes[lane]:
                return kept.popleft()
        return None

    def _begin(self, work: _Work, now: int, *, is_relief: bool) -> None:
        """Begin an action, unless it is too late, or its lane is full."""
        result, number, lane = self.result, work.number, work.lane
        waited = now - work.posted_ns
        if work.deadline_ns is not None and now >= work.deadline_ns and work.step < 2:
            result.wait[number] = -1
            result.expired_count += 1
            if self.limit is not None:
                self.limit.ended(work, now)
            self.scheduler.finished(work, DONE, now)
            return
        if self.limit is not None and self.limit.is_late(work, now):
            self._refuse(work, self.limit, now)
            self.scheduler.finished(work, DONE, now)
            return
        if lane in self.in_lane:
            if self.in_lane[lane] >= self.setting.lanes[lane]:
                self.kept[lane].append(work)
                return
            self.in_lane[lane] += 1
        if self.limit is not None:
            self.limit.begins(work)
            work.started_ns = work.started_ns or now
        result.wait[number] += waited
        if work.step == 2:
            result.wait_later[number] = waited
        work.start_ns, work.phase, work.is_relief = now, _COMPUTES, is_relief
        if is_relief:
            self.relieving.append(work.priority)
            result.relieved_count += 1
        else:
            self.free_count -= 1
            self.running[work.priority] += 1
            if self.setting.preempt:
                self._expect(work, now)
        cpu_ns: float = self.load.cpu[number]
        self.interpreter.join(work, (cpu_ns / 2 if work.step else cpu_ns) + self.costs.between_ns, float(now))

    def _expect(self, work: _Work, now: int) -> None:
        """A regular worker begins an action: decide whether a relief worker is let in beside it, now or later."""
        load = self.load
        if self.typical[load.operation[work.number]] >= QUANTUM_NS:
            if not self.free_count:
                self.is_relieved = True
            return
        self.is_relieved = False
        if load.run[work.number] >= QUANTUM_NS or self.setting.cpu_limit is not None or self.setting.threads > 1:
            self.events_count += 1
            heapq.heappush(self.events, (float(now + QUANTUM_NS + _LOOK_NS), -self.events_count, work))

    def _overran(self, work: _Work) -> None:
        """The quantum of an action is over: if it still runs, and no worker is free, a relief worker is let in."""
        if not self.free_count and work.phase in (_COMPUTES, _BLOCKED) and not work.is_relief:
            self.is_relieved = True

    def _computed(self, work: _Work, now_ns: float) -> None:
        """The CPU time of an action is over; it is blocked for the rest of its run."""
        number = work.number
        blocked_ns: float = self.load.run[number] - self.load.cpu[number]
        if blocked_ns <= 0:
            self._ended(work, now_ns)
            return
        work.phase = _BLOCKED
        self.events_count += 1
        heapq.heappush(self.events, (now_ns + (blocked_ns / 2 if work.step else blocked_ns), self.events_count, work))

    def _ended(self, work: _Work, now_ns: float) -> None:
        """An action, or this half of it, is done; its worker is free."""
        load, result, number, now = self.load, self.result, work.number, int(now_ns)
        ran_ns = now - work.start_ns
        result.busy_ns += ran_ns
        whole_ns = load.run[number] // (2 if work.step else 1) + self.costs.between_ns
        if ran_ns > whole_ns:
            result.held_up[number] += ran_ns - whole_ns
        if work.is_relief:
            self.relieving.remove(work.priority)
        else:
            self.free_count += 1
            self.running[work.priority] -= 1
        if work.lane in self.in_lane:
            self.in_lane[work.lane] -= 1
        operation = load.operation[number]
        self.typical[operation] += (ran_ns - self.typical[operation]) >> 3
        cpu_ns = load.cpu[number]
        if work.step == 1:
            work.step, work.phase = 2, _AWAITS
            self.scheduler.finished(work, WAITING, now)
            self.scheduler.budget.charge(cpu_ns // 2)
            self.events_count += 1
            heapq.heappush(self.events, (now_ns + load.awaited[number], self.events_count, work))
            return
        work.phase = _ENDED
        result.end[number] = now
        if self.limit is not None:
            self.limit.ended(work, now)
        self.scheduler.finished(work, DONE, now)
        self.scheduler.budget.charge(cpu_ns // 2 if work.step else cpu_ns)


def typical_ns_of(load: Load) -> dict[int, int]:
    """Mean run time of each operation, as the backplane had learned it before the load began."""
    totals: dict[int, list[int]] = {}
    for operation, run_ns in zip(load.operation, load.run, strict=True):
        total = totals.setdefault(operation, [0, 0])
        total[0] += run_ns
        total[1] += 1
    return {operation: total // count for operation, (total, count) in totals.items()}
