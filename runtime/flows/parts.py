"""Parts: the components of which a flow consists: one for each stage, its source, or the inlet of a flow without a source.

The TOML places them like any component. What a stage has made of a chunk goes into its outlet, and the chunk's call ends when
the origin of these items has ended; the lanes wait for that without holding a worker.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from appbackplane.transport.call_checks import TIMEOUT_MAX_S
from appbackplane.transport.errors import Busy, InvalidArgument, Unavailable

from ..execution.actions.coroutines import OneShotEvent
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.operation import DeclarationError, operation
from .dead_letters import DeadLetters
from .outlet import Origin, StageOutlet
from .parallelism import Parallelism
from .plan import FlowPlan
from .pump import Pump
from .sender import RETRY_S, ChunkSender
from .source_file import SourceFile, file_of
from .stage import Stage
from .turns import Turns
from .working import Distribution, Working

_WAIT_NS = round(TIMEOUT_MAX_S * 1e9)
#: Dead letters that one call returns, unless it asks for another number.
LETTERS_SHOWN = 100


class FlowPart(Component):
    """A component of a flow: has an outlet to the next stage, unless it is the last."""

    plan: ClassVar[FlowPlan]
    #: The name of its stage; that of the inlet is "inlet".
    part: ClassVar[str]
    driven_by = "backplane"  # a stage that is down makes those before it wait, and does not take them down

    #: How many priorities its backplane has.
    priorities: int

    def _set_up(self, priorities: int) -> None:
        self.priorities = priorities
        super()._set_up(priorities)

    def setup(self) -> None:
        plan = self.plan
        self.letters = DeadLetters(plan.letters_max)
        self.after_stage = plan.after(self.part)
        self.outlet: StageOutlet | None = None
        self.sender: ChunkSender | None = None
        if self.after_stage is not None:
            self.distribution = Distribution(self.after_stage)
            self.outlet = StageOutlet(plan.credits, self.distribution.lanes)
            self.sender = ChunkSender(
                self.outlet, plan.route(self.after_stage.name), self.after_stage.priority, self.priorities,
                is_repeating=plan.is_repeating, ended=self.settle, failed=self.failed,
            )  # fmt: skip
            self.add(self.sender)

    def settle(self, origins: Sequence[Origin]) -> None:
        """Origins have ended: the actions that wait for them go on."""
        for origin in origins:
            for signal in origin.waiting:
                self._platform.set(signal)

    def failed(self, item: Any, error: BaseException) -> None:
        """Make a dead letter of an item that cannot be sent."""
        self.letters.add(item, error, self.unix_ns())

    def unix_ns(self) -> int:
        """The time of day."""
        return self._platform.unix_ns()

    def put(self, items: list[Any], origin: Origin) -> bool:
        """Send items on. False: there were none, so that the origin has ended."""
        outlet, sender = self.outlet, self.sender
        if outlet is None or sender is None:
            return False
        if not outlet.put(self.distribution.parts(items, self.failed), origin, self._host.now_ns()):
            return False
        sender.kick()
        return True

    def workings(self) -> Iterator[Working]:
        """Those of its lanes."""
        return iter(())

    def _flow_figures(self) -> dict[str, Any]:
        outlet, workings = self.outlet, list(self.workings())
        oldest_ns = None if outlet is None else outlet.oldest_ns()
        host = self._hosted_by
        return {
            "flow": self.plan.name,
            "stage": self.part,
            "taken": sum(each.taken_count for each in workings),
            "made": sum(each.made_count for each in workings),
            "dropped": sum(each.dropped_count for each in workings),
            "parallel": None,
            "dead_letters": self.letters.count,
            "edge": None
            if outlet is None or self.after_stage is None
            else {
                "to": self.after_stage.name,
                "credits": outlet.credits,
                "used": outlet.used_count,
                "waiting": outlet.waiting_count,
                "oldest_ms": None if oldest_ns is None or host is None else round((host.now_ns() - oldest_ns) / 1e6, 3),
                "ended": outlet.ended_count,
                "resent": outlet.resent_count,
                "lost": outlet.lost_count,
            },
        }

    @operation(priority=1, states=("initializing", "primary", "secondary"))
    def dead_letters(self, count: int = LETTERS_SHOWN) -> list[dict[str, Any]]:
        """The newest items that could not be processed here, with their errors."""
        return self.letters.newest(max(0, count))


class GatheredBatch:
    """Items of several chunks that make a batch together."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.origin = Origin()


class Lane(AppObject):
    """Serves the chunks of one stage, one after the other. While what it made of them is under way, it serves the next ones."""

    interleaves = True
    is_refusable = False  # credits bound them

    def __init__(self, part: StagePart, stage: Stage, number: int) -> None:
        self._part = part
        self._number = number
        self.turns = Turns()
        self.working = Working(stage, part.letters, part.unix_ns)
        batch = stage.batch
        self._wait_s = 0.0 if batch is None else batch.wait_ms / 1e3
        self._batch_max = 0 if batch is None else batch.max
        self._group: GatheredBatch | None = None

    async def serve(self, items: list[Any]) -> None:
        """Process a chunk; return when everything that was made of it has ended."""
        signal = OneShotEvent(_WAIT_NS, "the items that it has sent on")
        if self._wait_s:
            origin = self._gather(items, signal)
        else:
            origin = Origin()
            origin.waiting.append(signal)
            if not self._part.put(self._run(items), origin):
                return
        if not origin.is_ended:
            await signal
        if origin.has_failed:
            raise Unavailable(f"{self.name}: this backplane goes down", retry_after=RETRY_S)

    def flush(self, group: GatheredBatch) -> None:
        """A batch has waited for long enough."""
        if self._group is group:
            self._close(group)

    @property
    def lanes_found(self) -> int | None:
        """How many lanes pay now; None: their number is declared."""
        adaptive = self._part.adaptive
        return None if adaptive is None else adaptive.limit

    def _run(self, items: list[Any]) -> list[Any]:
        if self._part.adaptive is None:
            return self.working.run(items)
        began_ns = self._host.now_ns()
        made = self.working.run(items)
        # Another thread may queue actions meanwhile. Those that go on are before those that begin: the last one tells.
        last = self._tail
        self._part.ran(self._number, len(items), began_ns, is_followed=last is not None and not last.continues)
        return made

    def _gather(self, items: list[Any], signal: OneShotEvent) -> Origin:
        group = self._group
        if group is None:
            group = self._group = GatheredBatch()
            if len(items) < self._batch_max:
                self.after(self._wait_s, self.flush, group)
        group.items += items
        group.origin.waiting.append(signal)
        if len(group.items) >= self._batch_max:
            self._close(group)
        return group.origin

    def _close(self, group: GatheredBatch) -> None:
        self._group = None
        if not self._part.put(self._run(group.items), group.origin):
            group.origin.is_ended = True
            self._part.settle((group.origin,))


class StagePart(FlowPart):
    """A stage or a sink: its lanes take the chunks."""

    stage: ClassVar[Stage]
    lane: ClassVar[type[Lane]]

    def setup(self) -> None:
        super().setup()
        #: Finds the number of lanes; None: it is declared.
        self.adaptive = Parallelism() if self.stage.parallel is None else None
        #: Guards the two and the number of lanes that are offered: chunks end in several threads.
        self._mutex = threading.Lock()
        self.lanes: list[Lane] = []
        for _ in range(self.stage.parallel or 1):
            self._add_lane()
        self._offered_count = len(self.lanes)

    def ran(self, lane: int, items: int, began_ns: int, *, is_followed: bool) -> None:
        """A lane has processed so many items: there may be more lanes from now on, or fewer."""
        adaptive = self.adaptive
        assert adaptive is not None
        with self._mutex:
            now_ns = self._host.now_ns()
            adaptive.ran(
                items, now_ns - began_ns, lane=lane, is_followed=is_followed, most=self._platform.threads, now_ns=now_ns
            )
            while self._offered_count > adaptive.limit:
                self._offered_count -= 1
                self._platform.withhold(self.lanes[self._offered_count])  # it serves what it has, and gets no more
            while self._offered_count < adaptive.limit:
                if self._offered_count < len(self.lanes):
                    self._platform.offer(self.lanes[self._offered_count])
                else:
                    self._add_lane()
                self._offered_count += 1

    def _flow_figures(self) -> dict[str, Any]:
        adaptive = self.adaptive
        return super()._flow_figures() | {"parallel": len(self.lanes) if adaptive is None else adaptive.limit}

    def _add_lane(self) -> None:
        number = len(self.lanes)
        lane = self.lane(self, self.stage, number)
        self.add(lane, key=str(number))
        self.lanes.append(lane)

    def workings(self) -> Iterator[Working]:
        return (lane.working for lane in self.lanes)


class InletPart(FlowPart):
    """The entry of a flow that has no source: callers put items into it."""

    entry_class: ClassVar[type[Entry]]

    def setup(self) -> None:
        super().setup()
        self.entry = self.add(self.entry_class(self))


class Entry(AppObject):
    """Takes items from callers."""

    interleaves = True

    def __init__(self, part: InletPart) -> None:
        self._part = part

    async def take(self, items: list[Any]) -> int:
        """Put items into the flow; return their number when all that was made of them has ended."""
        outlet = self._part.outlet
        assert outlet is not None
        if len(items) > outlet.credits:
            raise InvalidArgument(f"{len(items):,} items at once: the flow has {outlet.credits:,} credits")
        if outlet.waiting_count >= outlet.credits:
            raise Busy(f"{self.name}: {outlet.waiting_count:,} items wait for credit already", retry_after=RETRY_S)
        signal, origin = OneShotEvent(_WAIT_NS, "the end of the items that were put in"), Origin()
        origin.waiting.append(signal)
        if self._part.put(items, origin) and not origin.is_ended:
            await signal
        if origin.has_failed:
            raise Unavailable(f"{self.name}: this backplane goes down", retry_after=RETRY_S)
        return len(items)


class SourcePart(FlowPart):
    """A source: asks its function for items while there is credit."""

    stage: ClassVar[Stage]

    def setup(self) -> None:
        super().setup()
        assert self.outlet is not None
        if self.stage.priority >= self.priorities:
            raise DeclarationError(
                f"source {self.stage.name}: priority {self.stage.priority}, but the backplane has 0..{self.priorities - 1}"
            )
        self.pump = Pump(self.stage, self.outlet, self.put, is_repeating=self.plan.is_repeating)
        self.add(self.pump)

    def on_initializing(self) -> None:
        self.pump.open(SourceFile(file_of(self._platform.run_dir, self.plan.name, self._host.backplane)))

    def on_primary(self) -> None:
        self.pump.start()

    def on_secondary(self) -> None:
        self.pump.stop()

    def on_down(self) -> None:
        self.pump.stop()
        self.pump.close()

    def settle(self, origins: Sequence[Origin]) -> None:
        self.pump.ended()

    def _flow_figures(self) -> dict[str, Any]:
        figures = super()._flow_figures()
        figures["taken"] = self.pump.given_count
        figures["edge"]["lost"] += self.pump.lost_count
        return {**figures, "is_at_end": self.pump.is_at_end}
