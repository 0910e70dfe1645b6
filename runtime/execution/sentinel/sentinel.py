"""Sentinel: the main thread of the process, for duties that must not wait behind user code.

It owns the control link, detects the death of the supervisor, handles signals, writes the heartbeat, and checks the workers
once a quantum. When an action overruns and no worker polls the link, it makes one poll (poll_leader.py). When an action exceeds
`slow_action`, it takes the stack while the action runs. Like Go's sysmon it checks often only while that pays: checks without
a finding become rarer, and while all workers are idle it sleeps until one wakes it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appbackplane.transport.accept_gate import AcceptGate
from appbackplane.transport.directory import Directory, Registration
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument
from appbackplane.transport.local_links import LocalLink

from ...objects.module_state import ModuleState
from ..loop.engine import STOP_LOOKS_MAX, Engine
from ..loop.progress import Progress, is_long
from ..urgency.board import OwnSlot
from ..urgency.os_priority import OsPriority
from ..workers.overrun_detector import OverrunDetector
from ..workers.poll_leader import QUANTUM_NS
from ..workers.worker import Worker
from .control import Answer, Control
from .draining import LOOK_NS, Draining

#: A check costs about 15 us of CPU, so one every quantum is 3 %. After this many without an overrun ...
LOOKS_OFTEN = 4
#: ... one check in 4 ms must do: a first overrun is noticed later, but inside the default latency contract of 5 ms. On
#: overloaded cores a check costs 100 us, most of it waiting for the GIL, in steps of the switch interval.
SELDOM_NS = 4_000_000
#: With a longer contract the interval is the contract divided by this, the same proportion as by default. At 2 ms, checking
#: four workers that index files, with 250 ms, cost a twentieth of their CPU (scripts/bench_cases/requests_indexing.py).
SELDOM_OF_MAX_LATENCY = 1.25
#: Checks without any running action before it sleeps until a worker has work.
LOOKS_IDLE = 50
#: Pause without the lead between two drains of the link, after a callee backplane has ended. A lock that is released and
#: taken again at once seldom goes to a waiter: workers waited for all 100 drains, 0.1 s in most trials, and with 50 us for one.
GAP_S = 50e-6
#: select() takes only descriptors below this.
FD_SETSIZE = 1024
#: Interval of heartbeats, also while asleep: the supervisor considers a backplane silent after several of these.
HEARTBEAT_NS = 250_000_000
#: A reason to stop: no supervisor is left to kill overdue work.
SUPERVISOR_GONE = "the supervisor is gone"

log = logging.getLogger("appbackplane.runtime")


class Sentinel:
    """Runs in the main thread until the supervisor orders a stop or dies, or SIGTERM comes."""

    def __init__(
        self,
        engine: Engine,
        link: LocalLink,
        run_dir: Path,
        *,
        gate: AcceptGate | None = None,
        lifeline_fd: int | None,
        slot: OwnSlot | None,
        statistics: Callable[..., dict[str, Any]],
        why: Callable[..., dict[str, Any]],
        configure: Callable[[Any], None],
        os_priority: OsPriority | None = None,
        max_latency_ns: int = 0,
    ) -> None:
        self._engine = engine
        self._lead, self._clock, self._limits, self._reports = engine.lead, engine.clock, engine.limits, engine.reports
        self._scheduler, self._poll_leader, self._routing = engine.scheduler, engine.poll_leader, engine.routing
        self._lifecycle, self._statistics, self._completion = engine.lifecycle, engine.statistics, engine.completion
        #: Called under the lead with the keeper of the CPU limit (`CpuBudget.keeper`), if there is a limit.
        self.on_keeper: Callable[[str], None] | None = None
        #: The latency contract, ns; 0: at most the default one.
        self.max_latency_ns = max_latency_ns
        self._link = link
        self._gate = gate
        self._slot = slot
        self._lifeline_fd = lifeline_fd
        self._figures = statistics
        self._why = why
        self._configure = configure
        self._os_priority = os_priority
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll_leader.sentinel_fd = self._wake_fd
        self._control = Control(
            link,
            run_dir,
            {
                "control.directory": self._directory,
                "control.move": self._move,
                "control.configure": self._reconfigure,
                "control.statistics": self._tell_statistics,
                "control.why": self._tell_why,
                "control.drain": self._drain,
                "control.stop": self._stop,
            },
            self.wake,
        )
        self._draining: Draining | None = None
        self._stop_reason: str | None = None
        self._looks_without_overrun = 0
        self._looks_idle = 0
        self._beaten_ns = 0
        self._overrun_detector = OverrunDetector(self._clock.cpu_ns_of)
        self._progress = Progress(
            lead=engine.lead, statistics=engine.statistics, scheduler=engine.scheduler, poll_leader=engine.poll_leader,
            has_input=engine.link.has_input, now_ns=engine.now_ns(),
        )  # fmt: skip
        self._parent, self._is_orphan = os.getppid(), False

    def register(self, registration: Registration) -> None:
        """Send the registration to the supervisor; does not wait for its reply."""
        self._control.register(registration, self._placed)
        self._control.turn()

    def change_limit(self, percent: int | None) -> None:
        """Ask the supervisor to set the kernel's CPU limit to ours. Needs the lead. Raises `Busy`."""
        self._control.call("supervisor.limit", {"cpu_limit": percent}, self._limited)

    def wake(self) -> None:
        """Wake the sentinel. From any thread, or a signal handler."""
        os.eventfd_write(self._wake_fd, 1)

    def stop(self, reason: str) -> None:
        """Make `run` return `reason`. From a signal handler, or the sentinel itself."""
        self._stop_reason = reason
        self.wake()

    def run(self) -> str:
        """Serve the control link and check the workers until there is a reason to stop; returns the reason."""
        ears = [self._wake_fd, self._link.fileno(), *(() if self._lifeline_fd is None else (self._lifeline_fd,))]
        if self._gate is not None:
            ears.append(self._gate.fileno())
        wait = waiting(ears)
        is_called = True
        while self._stop_reason is None:
            # Each poll of the link releases the GIL, and beside a computing worker waits to get it back.
            if is_called:
                self._control.turn()
            pause_ns = self._look(self._clock.now_ns())
            if self._gate is not None and (line := self._gate.look(self._clock.now_ns())) is not None:
                log.warning("%s", line)
            if self._draining is not None and not self._draining.is_over:
                self._draining.look(self._clock.now_ns())
                pause_ns = min(pause_ns, LOOK_NS)
            if self._stop_reason is not None or (is_called and self._link.has_input()):
                continue
            events = wait(pause_ns)
            is_called = bool(events) or self._control.has_more
            if self._wake_fd in events:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                self._looks_idle = 0
            if self._lifeline_fd is not None and self._lifeline_fd in events:
                self._stop_reason = SUPERVISOR_GONE
        return self._stop_reason

    def close(self) -> None:
        """Send the queued envelopes and close the link. Unread envelopes are dropped."""
        self._control.flush()
        self._poll_leader.sentinel_fd = -1
        self._link.close()
        os.close(self._wake_fd)

    # -- checking the workers -----------------------------------------------------------------------------------------

    def _look(self, now_ns: int) -> int:  # hot: scripts/bench urgent_long
        """Check the workers; returns the nanoseconds until the next check."""
        poll_leader = self._poll_leader
        running_since_ns = 0
        is_overrun = False
        for worker in poll_leader.team:
            # No lead: only the worker itself writes `started_ns`, and a slightly stale value does no harm.
            started_ns = worker.started_ns
            if started_ns:
                running_since_ns = min(running_since_ns or started_ns, started_ns)
                is_overrun |= self._overrun_detector.overruns(worker, now_ns)
                if now_ns - started_ns >= self._reports.slow_actions.threshold_ns:
                    self._notice_slow(worker, started_ns, now_ns)
        if now_ns - self._beaten_ns >= HEARTBEAT_NS:
            self._beat(now_ns, running_since_ns)
        if not running_since_ns:
            self._looks_idle += 1
            if self._looks_idle >= LOOKS_IDLE:
                with self._lead:
                    # Only a worker that wakes up wakes us, and one that never sleeps (a flood of short actions) would not.
                    poll_leader.is_sentinel_asleep = poll_leader.poller is not None
                if poll_leader.is_sentinel_asleep:
                    return HEARTBEAT_NS
            return self._seldom_ns()
        self._looks_idle = 0
        poll_leader.is_sentinel_asleep = False
        if not poll_leader.reliefs:  # no thread reads the link before an action ends
            self._engine.see_unread(now_ns)
        if is_overrun:
            # Without a relief to let in, checking often would change nothing, and cost bulk work 10 %.
            is_found = poll_leader.poller is None and bool(poll_leader.reliefs)
            self._looks_without_overrun = 0 if is_found else self._looks_without_overrun + 1
            with self._lead:
                self._engine.overrun()
        else:
            self._looks_without_overrun += 1
        return QUANTUM_NS if self._looks_without_overrun < LOOKS_OFTEN else self._seldom_ns()

    def _seldom_ns(self) -> int:
        """The long interval between checks: bounded by the heartbeat and by half of `slow_action`, both noticed in time."""
        pause_ns = min(self.max_latency_ns / SELDOM_OF_MAX_LATENCY, HEARTBEAT_NS)
        return max(SELDOM_NS, min(int(pause_ns), self._reports.slow_actions.threshold_ns // 2))

    def _notice_slow(self, worker: Worker, started_ns: int, now_ns: int) -> None:
        action = worker.action
        if action is None or is_long(action) or id(action) in self._reports.noticed:
            return
        frame = sys._current_frames().get(worker.ident)
        with self._lead:
            if worker.action is not action or worker.started_ns != started_ns:
                return  # the action has just ended, and is reported without a stack
            self._reports.runs_slowly(action, now_ns - started_ns, now_ns, frame)

    def _beat(self, now_ns: int, running_since_ns: int) -> None:
        self._beaten_ns = now_ns
        if self._lifeline_fd is not None and os.getppid() != self._parent:
            # The guardian should cut the lifeline in a moment; if it has not by the next heartbeat, it never will.
            if self._is_orphan:
                self.stop(SUPERVISOR_GONE)
            self._is_orphan = True
        if self._slot is None:
            return
        ready_count, progress_ns = self._progress.look(now_ns)
        # Integers that other threads write; each is read once, so the figures need not agree exactly.
        self._slot.beat(
            now_ns,
            self._statistics.actions_count,
            self._scheduler.queued_count,
            self._scheduler.waiting_count,
            running_since_ns,
            self._clock.process_cpu_ns(),
            self._limits.refused_count(),
            self._reports.slow_actions.count,
            0 if self._os_priority is None else self._os_priority.boosts_count,
            ready_count,
            progress_ns,
            self._completion.failing_count(),
        )
        if self._os_priority is not None:
            with self._lead:
                self._os_priority.look()  # finds a boost that came while the last was being undone

    # -- calls of the supervisor --------------------------------------------------------------------------------------

    def _directory(self, body: Any, answer: Answer) -> None:
        directory = Directory.from_body(body["directory"])
        with self._lead:
            has_ended = bool(self._routing.connections.outdated(directory, keep=""))
        if has_ended:
            self._read_on()
        with self._lead:
            self._engine.update(directory, self._engine.now_ns())
            self._poll_leader.notify()
        answer({}, None)

    def _read_on(self) -> None:
        """A callee backplane has ended: receive the replies that it sent before. Workers continue between the drains."""
        engine = self._engine
        for _ in range(STOP_LOOKS_MAX):
            with self._lead:
                engine.drain(engine.now_ns())
                if not engine.link.has_input():
                    return
                self._poll_leader.notify()
            select.select((), (), (), GAP_S)

    def _move(self, body: Any, answer: Answer) -> None:
        try:
            name, state, epoch = str(body["component"]), ModuleState(body["state"]), int(body.get("epoch") or 0)
        except (KeyError, ValueError, TypeError) as error:
            raise InvalidArgument(f"control.move: {error}") from error
        with self._lead:
            self._lifecycle.move(name, state, lambda error: answer({}, error), epoch)

    def _reconfigure(self, body: Any, answer: Answer) -> None:
        self._configure(body.get("settings"))
        if body.get("placed") is not None:
            self._placed(body["placed"])
        answer({}, None)

    def _limited(self, result: Any, error: str | None) -> None:
        if error is None:
            self._placed(result)
            return
        log.warning("the CPU limit is held by the scheduler alone: %s", error)
        with self._lead:
            self._scheduler.budget.leave_to_kernel(False)
            self._tell_keeper()

    def _placed(self, body: Any) -> None:
        """Take over the supervisor's report, after registration or a change: the keeper of our limit, and our cgroup."""
        with self._lead:
            self._scheduler.budget.leave_to_kernel(body["by"] not in (None, "scheduler"))
            self._tell_keeper()
            if self._os_priority is not None:
                self._os_priority.moved_to(body["cgroup"])
            self._poll_leader.notify()  # a spent budget may hold up work no more, or from now on

    def _tell_keeper(self) -> None:
        keeper = self._scheduler.budget.keeper
        if keeper is not None and self.on_keeper is not None:
            self.on_keeper(keeper)

    def _tell_statistics(self, body: Any, answer: Answer) -> None:
        answer(self._figures(with_buckets=body.get("buckets") is True), None)

    def _tell_why(self, body: Any, answer: Answer) -> None:
        asked = body.get("asked")
        if not isinstance(asked, str):
            raise InvalidArgument(f"control.why: expected the name of an object, a call or a route, got {asked!r}")
        answer(self._why(asked, with_stack=bool(body.get("stack"))), None)

    def _drain(self, body: Any, answer: Answer) -> None:
        if self._draining is not None:
            raise FailedPrecondition("control.drain: a drain is already in progress")
        try:
            limit_ns, stop_limit_ns = (round(float(body[key]) * 1e9) for key in ("limit", "stop_limit"))
            because = str(body["because"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"control.drain: {type(error).__name__}: {error}") from error
        now_ns = self._engine.now_ns()
        self._draining = Draining(
            self._engine, limit_ns=limit_ns, stop_limit_ns=stop_limit_ns, because=because, answer=answer, now_ns=now_ns
        )

    def _stop(self, body: Any, answer: Answer) -> None:
        self._stop_reason = "ordered by the supervisor"
        answer({}, None)


def waiting(fds: list[int]) -> Callable[[int], list[int]]:
    """A function that waits for input on `fds`, for at most so many ns, and returns the ready ones."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    # poll() takes whole milliseconds. The quantum is shorter, so select() waits for it; but select() takes no descriptor above
    # 1023, and users may have opened that many before us: then it only waits, and poll() checks the descriptors.
    few = fds if max(fds) < FD_SETSIZE else []

    def wait(pause_ns: int) -> list[int]:
        timeout_ms = pause_ns // 1_000_000
        if not timeout_ms:
            ready, _, _ = select.select(few, [], [], pause_ns / 1e9)
            if few:
                return ready
        return [fd for fd, _ in poll.poll(timeout_ms)]

    return wait
