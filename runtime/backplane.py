"""Backplane: assembles one process from its parts, and decides nothing itself.

It sets the components up and registers their routes, which are fixed from then on (law 12). It gives the engine its link,
clock and limits, and starts, adds and stops workers. The scheduler decides which action runs; the intake interprets
messages. The same assembly runs in a process (process.py) and in the thread of a test (testing/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from appbackplane.transport.directory import ComponentEntry
from appbackplane.transport.errors import InvalidArgument

from .backplane_operations import BackplaneOperations
from .execution.loop.engine import Engine, EngineLink
from .execution.loop.worker_loop import start
from .execution.records.applying import Applying
from .execution.records.recording import Recording
from .execution.records.span_export import SpanExport
from .execution.services.host import EngineHost
from .execution.services.inspection import Inspection
from .execution.services.monitors import Monitors
from .execution.urgency.board import OwnSlot
from .execution.urgency.os_priority import OsPriority
from .execution.workers.clock import Clock
from .execution.workers.poll_leader import RELIEFS_MAX
from .execution.workers.worker import ReliefWorker, Worker
from .objects.component import Component
from .objects.module_state import ModuleState
from .process_config import LiveSettings, ProcessConfig
from .scheduling.quotas import quotas_from

#: Workers of one backplane. Beyond a few dozen they contend for the GIL; use more backplanes to use more cores.
THREADS_MAX = 256
#: `stop` waits this long for the lead after its timeout has passed. One iteration takes 1 ms, with a full link 10 ms.
LEAD_TIMEOUT_S = 0.1


class Backplane:
    """One scheduler with its components, link and workers."""

    def __init__(
        self,
        config: ProcessConfig,
        components: Sequence[Component],
        *,
        clock: Clock,
        link: EngineLink,
        slot: OwnSlot | None = None,
        os_priority: OsPriority | None = None,
    ) -> None:
        """Set the components up. Raises `DeclarationError`, and any error that a component's `setup` raises."""
        self.name = config.backplane
        self.os_priority = os_priority
        #: Requests the kernel's CPU limit to match; percent of one core, None for no limit. Raises `Busy`.
        self.on_cpu_limit: Callable[[int | None], None] | None = None
        #: None: nothing is recorded.
        self.recording: Recording | None = None
        #: None: no spans are exported.
        self.span_export: SpanExport | None = None
        self._preempts = config.preempt
        self.engine = engine = Engine(config, clock=clock, link=link, slot=slot, os_priority=os_priority)
        self._clock = clock
        self._lead, self._scheduler, self._parking = engine.lead, engine.scheduler, engine.parking
        self._registry, self._poll_leader = engine.registry, engine.poll_leader
        self._inspection = Inspection(engine)
        #: Batches of rows from outside (backplane_operations.py).
        self.applying = Applying(
            self.name, Path(config.run_dir), config.generation, lead=engine.lead, clock=clock, poll_leader=engine.poll_leader,
            sender=engine.sender, publishing=engine.publishing,
        )  # fmt: skip
        self._monitors = Monitors(engine)
        self._own = BackplaneOperations(self, engine, self.applying, self._monitors)
        self._monitors.own = self._own
        for component in components:
            try:
                component._set_up(config.priorities)
            except Exception as error:
                error.add_note(f"component '{type(component).__module__}:{type(component).__qualname__}': setup failed")
                raise
        host = EngineHost(engine, self._monitors, config.run_dir)
        self._platform = host.platform
        self._platform.count_threads = lambda: self.threads_count
        for component in (self._own, *components):
            self._registry.add_component(component)
            component._hosted_by = host
            engine.limits.add(component)
        self._registry.is_static = True
        engine.overload.add_declared()
        self._numbers = 0
        #: Workers requested by configuration or an operator, without those kept for components; 0: not started.
        self._threads = 0

    def entries(self) -> tuple[ComponentEntry, ...]:
        """The components to register with the supervisor. The backplane's own operations need no registration."""
        return tuple(entry for entry in self._registry.entries() if entry.name != self._own.component_name)

    def states(self) -> dict[str, ModuleState]:
        """The state of each component."""
        return {name: component.state for name, component in self._registry.components.items()}

    # -- workers ------------------------------------------------------------------------------------------------------

    @property
    def threads_count(self) -> int:
        """The number of workers that was set, without those that components keep for themselves."""
        return self._threads or sum(not worker.is_stopping for worker in self._poll_leader.workers)

    def start(self, threads: int) -> None:
        """Start `threads` workers, and the parked relief workers if preemption is on."""
        if self._preempts:
            with self._lead:
                for number in range(1, RELIEFS_MAX + 1):
                    relief = ReliefWorker(-number, self._lead, self._platform)
                    start(self.engine, relief)
                    self._poll_leader.joins(relief)
        self._platform.on_threads = self._parking.on_spares = self._match_threads
        self.set_threads(threads)

    def set_threads(self, count: int) -> None:
        """Set the number of workers. A removed worker finishes its action first. Raises `InvalidArgument`."""
        if not 1 <= count <= THREADS_MAX:
            raise InvalidArgument(f"{count} threads: expected 1 to {THREADS_MAX}")
        with self._lead:
            self._threads = count
            self._match_threads()

    def _match_threads(self) -> None:
        """Start or stop workers to match the number set, those kept for components, and spares for blocked actions."""
        with self._lead:
            count = min(THREADS_MAX, self._threads + sum(self._platform.kept.values()) + self._parking.spares)
            staying = [worker for worker in self._poll_leader.workers if not worker.is_stopping]
            for worker in staying[count:]:
                worker.is_stopping = True
            for _ in range(count - len(staying)):
                self._numbers += 1
                worker = Worker(self._numbers, self._lead, self._platform)
                # It takes the lead first, which is held here: it cannot run before it has joined.
                start(self.engine, worker)
                self._poll_leader.joins(worker)
            self._poll_leader.wake_all()

    def configure(self, settings: LiveSettings) -> None:
        """Apply the settings that are set; the others stay. Raises `InvalidArgument`; then nothing has changed."""
        scheduler, budget = self._scheduler, self._scheduler.budget
        with self._lead:
            if settings.quotas is not UNSET:
                try:
                    quotas = quotas_from(settings.quotas, scheduler.priorities)
                except ValueError as error:
                    raise InvalidArgument(str(error)) from error
                scheduler.quotas.change(quotas)
            if settings.tick_ns is not UNSET:
                scheduler.change_tick(settings.tick_ns, self._clock.now_ns())
            if settings.cpu_exempt is not UNSET:
                budget.exempt = settings.cpu_exempt
            if settings.cpu_limit is not UNSET:
                budget.change(settings.cpu_limit)
            if settings.slow_action_ns is not UNSET:
                self.engine.reports.slow_actions.threshold_ns = settings.slow_action_ns
            if settings.max_latency_ns is not UNSET:
                self.engine.late_actions.limit_ns = settings.max_latency_ns or 0
            if settings.threads is not UNSET:
                self.set_threads(settings.threads)
            if self.recording is not None:
                self.recording.changed(settings)
            self._poll_leader.notify()  # work that was held up may run now, and due times may have moved

    def stop(self, timeout: float) -> bool:
        """Let running actions end within `timeout` seconds, answer waiting callers, close the link. False: not all ended."""
        end_ns = self._clock.now_ns() + round(timeout * 1e9)

        def left_s() -> float:
            return max(0.0, (end_ns - self._clock.now_ns()) / 1e9)

        if not self._lead.acquire(timeout=left_s()):
            return False  # user code that runs under the lead (make_room) does not return; without the lead nothing can be done
        workers = self._poll_leader.team
        for worker in workers:
            worker.is_stopping = True
        self._poll_leader.wake_all()
        self._lead.release()
        has_ended = all([worker.join(left_s()) for worker in workers])
        for component in self._registry.components.values():
            component._ends(left_s())
        # The lead is kept: a worker that comes back late waits for it until the process ends.
        if not self._lead.acquire(timeout=max(left_s(), LEAD_TIMEOUT_S)):
            return False
        self.engine.stop()
        self.engine.close()
        if self.recording is not None:
            self.recording.close()
        self.applying.close()
        if self.span_export is not None:
            self.span_export.close()
        return has_ended

    # -- tests --------------------------------------------------------------------------------------------------------

    def be_virtual(self, random: Callable[[], float], stand_in: Callable[[Any, float], bool]) -> None:
        """Run in one thread (testing/): take random numbers from `random`, and let `stand_in` wait where a thread would."""
        self.engine.outgoing.retries.random = random
        self._platform.stand_in = stand_in

    def stand_in_worker(self, number: int) -> Worker:
        """A worker without a thread of its own: the caller takes its steps."""
        worker = Worker(number, self._lead, self._platform)
        self._poll_leader.joins(worker)
        return worker

    # -- figures ------------------------------------------------------------------------------------------------------

    def why(self, asked: str, *, with_stack: bool = False) -> dict[str, Any]:
        """Why an object, a call or a route waits, as data (services/inspection.py). Raises `NotFound`, `InvalidArgument`."""
        return self._inspection.why(asked, with_stack=with_stack)

    def statistics(self, *, with_buckets: bool = False) -> dict[str, Any]:
        """All figures, as data. `with_buckets` adds the histograms' buckets, to compute percentiles of an interval."""
        engine = self.engine
        # Without the lead: summing a histogram takes 10 us, and each operation has two. A histogram that is being written
        # may be one action behind.
        statistics, endings, reports = engine.statistics, engine.completion, engine.reports
        operations = statistics.snapshot(endings.failures(), with_buckets=with_buckets)
        requests = {name: each._requests() for name, each in self._registry.components.items()}
        flows = {name: each._flow_figures() for name, each in self._registry.components.items()}
        with self._lead:
            oldest = self._inspection.figures()
            scheduler, publishing, calls, limits = self._scheduler, engine.publishing, engine.calls, engine.limits
            return {
                "backplane": self.name,
                "at_ns": self._clock.now_ns(),
                "threads": self.threads_count,
                "actions": statistics.actions_count,
                "operations": operations,
                "oldest": {"objects": oldest["objects"], "calls": oldest["calls"]},
                "running": oldest["running"],
                "queues": {
                    "ready": scheduler.ready.depths(),
                    "oldest_ms": oldest["oldest_ms"],
                    "actions": scheduler.queued_count,
                    "waiting": scheduler.waiting_count,
                    "timers": len(scheduler.timers),
                },
                "components": {
                    name: {
                        "state": component.state.value,
                        "objects": len(component.objects),
                        **limits.figures(name),
                        "locks": {
                            lock: held.figures(with_buckets=with_buckets) for lock, held in component._locks.items()
                        },
                    }
                    for name, component in self._registry.components.items()
                    if component is not self._own
                },
                "cpu": {
                    "limit_percent": scheduler.budget.limit_percent,
                    "limit_by": scheduler.budget.keeper,
                    "used_ms": round(scheduler.budget.used_total_ns / 1e6, 3),
                    "process_ms": round(self._clock.process_cpu_ns() / 1e6, 3),
                    "ticks": scheduler.tick_count,
                    "virtual_ticks": scheduler.virtual_tick_count,
                },
                "links": {
                    "malformed": reports.malformed_count,
                    "undelivered": engine.sender.undelivered_count,
                    "late": calls.late_count,
                    "retried": engine.outgoing.retries.account.taken_count,
                    "refused_here": engine.outgoing.throttle.refused_count,
                    "outstanding": len(calls),
                    "abandoned": engine.callers.abandoned_count,
                    "refused_casts": engine.intake.refused_casts_count,
                    "topics_lost_here": publishing.lost_count,
                    "topics_lost_elsewhere": publishing.gaps.lost_count,
                },
                "operands": engine.awaiting.figures() | {"forwarded": engine.forwarding.forwarded_count},
                "admission": engine.overload.figures(),
                "replays": engine.replays.figures(),
                "addresses": self._monitors.figures(),
                "requests": {name: told for name, told in requests.items() if told is not None},
                "flows": {name: told for name, told in flows.items() if told is not None},
                "traces": None if self.span_export is None else self.span_export.figures(),
                "recording": {} if self.recording is None else self.recording.figures(),
                "os_priority": None if self.os_priority is None else self.os_priority.describe(),
                "slow_actions": reports.slow_actions.count,
                "late_actions": engine.late_actions.count,
            }
