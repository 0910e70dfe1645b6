"""Flow: stages joined into a pipeline, checked, and made into components that the TOML can place.

`ingest = Flow("ingest", lines >> parse >> store)` in the module `pipe` has the components `pipe:ingest.lines`,
`pipe:ingest.parse` and `pipe:ingest.store`, named `ingest_lines` and so on. All checks are made here, when the module is
imported: so `appbackplane check` finds a flow that cannot work, and names its stages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from ..objects.component import Component
from ..objects.operation import DeclarationError, operation
from .fitting import fits, shown
from .parts import Entry, FlowPart, InletPart, Lane, SourcePart, StagePart
from .plan import INLET, FlowPlan
from .stage import Chain, Stage
from .turns import CAME_EARLY, Turn

#: Items that a stage may have under way in the next one: a few milliseconds of work at 200,000 items a second.
CREDITS_DEFAULT = 1_024
CREDITS_MAX = 1_000_000
#: Dead letters that each process of a stage keeps: enough to see what is wrong.
LETTERS_DEFAULT = 1_000
LETTERS_MAX = 100_000
_DELIVERIES = ("at_most_once", "at_least_once")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Flow:
    """A pipeline. Its components are listed in the TOML as `MODULE:FLOW.STAGE`."""

    def __init__(
        self, name: str, chain: Chain | Stage, *, credits: int = CREDITS_DEFAULT, delivery: str = "at_most_once",
        dead_letters: int = LETTERS_DEFAULT,
    ) -> None:  # fmt: skip
        """name: the first word of its components' names.

        chain: `lines >> parse >> store`. Without a source it begins with an inlet, into which callers put items.
        credits: items that a stage may have under way in the next one; an item is, until all that was made of it has ended.
        delivery: what happens to the items of a process that has died. "at_least_once": they are sent again; the source needs
        positions. "at_most_once": they are lost, and counted.
        dead_letters: how many of the items that could not be processed each process of a stage keeps.

        Raises `DeclarationError` for stages that do not fit together.
        """
        where = f"flow {name!r}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeclarationError(f"{where}: expected a word of small letters, digits and _, as a component's name")
        if not isinstance(chain, Chain | Stage):
            raise DeclarationError(f"{where}: expected stages, as in lines >> parse >> store, got {chain!r}")
        _check_number(where, "credits", credits, CREDITS_MAX)
        _check_number(where, "dead_letters", dead_letters, LETTERS_MAX)
        if delivery not in _DELIVERIES:
            raise DeclarationError(f"{where}: delivery={delivery!r}: expected {' or '.join(map(repr, _DELIVERIES))}")
        stages = chain.stages if isinstance(chain, Chain) else (chain,)
        is_repeating = delivery == "at_least_once"
        _check_order(where, stages)
        _check_types(where, stages)
        _check_bounds(where, stages, credits, is_repeating=is_repeating)
        self.name = name
        self.plan = FlowPlan(name, stages, credits, is_repeating, dead_letters)
        #: By the name of the stage: its component.
        self.components: Mapping[str, type[Component]] = MappingProxyType(
            {part: _component(self.plan, part) for part in self.plan.parts}
        )

    def construct(self) -> list[Component]:
        """All its components, the last stage first, for a test: `VirtualBackplane(*ingest.construct())`."""
        return [self.components[part]() for part in reversed(self.plan.parts)]


def _check_number(where: str, name: str, given: Any, most: int) -> None:
    if type(given) is not int or not 1 <= given <= most:
        raise DeclarationError(f"{where}: {name}={given!r}: expected a whole number, 1 to {most:,}")


def _check_order(where: str, stages: tuple[Stage, ...]) -> None:
    seen: set[str] = set()
    for number, each in enumerate(stages):
        if each.name in seen:
            same = sum(each.function is other.function for other in stages) > 1
            raise DeclarationError(
                f"{where}: {each.name} is in it twice: "
                + ("a circle would wait for its own credits" if same else "give one of the two another name=")
            )
        seen.add(each.name)
        if each.name == INLET:
            raise DeclarationError(
                f"{where}: no stage may be called {INLET!r}: that is the entry of a flow without a source"
            )
        if each.kind == "source" and number:
            raise DeclarationError(f"{where}: the source {each.name} can only be the first: {_shown(stages)}")
        if each.kind == "sink" and number < len(stages) - 1:
            raise DeclarationError(f"{where}: nothing can follow the sink {each.name}: {_shown(stages)}")
    if stages[-1].kind != "sink":
        raise DeclarationError(f"{where} ends in {stages[-1].name}, which is no sink: {_shown(stages)}")


def _check_types(where: str, stages: tuple[Stage, ...]) -> None:
    for before, after in pairwise(stages):
        if not fits(before.makes, after.takes):
            raise DeclarationError(
                f"{where}: {before.name} makes {shown(before.makes)}, and {after.name}, which follows it, takes "
                f"{shown(after.takes)}: change one of the annotations, or put a stage between them"
            )


def _check_bounds(where: str, stages: tuple[Stage, ...], credits: int, *, is_repeating: bool) -> None:
    if is_repeating and stages[0].kind == "source" and not stages[0].has_positions:
        raise DeclarationError(
            f"{where}: with at_least_once, the source {stages[0].name} has to give items again after a death: declare it as "
            "(after, wanted), with positions"
        )
    for each in stages:
        if each.batch is not None and each.batch.wait_ms and each.batch.max > credits:
            raise DeclarationError(
                f"{where}: {each.name} waits for batches of {each.batch.max:,}, and there are {credits:,} credits: no batch "
                "would ever be full"
            )


def _shown(stages: tuple[Stage, ...]) -> str:
    return " >> ".join(each.name for each in stages)


def _component(plan: FlowPlan, part: str) -> type[Component]:
    """The component of one part: a class of its own, since each component has a class."""
    after = plan.after(part)
    attributes: dict[str, Any] = {
        "plan": plan,
        "part": part,
        "component_name": plan.component(part),
        "depends_on": () if after is None else (plan.component(after.name),),
        "__module__": __name__,
        "__qualname__": f"{plan.name}.{part}",
    }
    calls = () if after is None else (plan.route(after.name),)
    base: type[FlowPart] = InletPart
    if part == INLET:
        entry = _entry_class(plan, calls)
        attributes |= {"entry_class": entry, "declares": (entry,)}
    else:
        stage = next(each for each in plan.stages if each.name == part)
        attributes["stage"] = stage
        base = SourcePart if stage.kind == "source" else StagePart
        if base is StagePart:
            lane = _lane_class(stage, calls)
            attributes |= {"lane": lane, "declares": (lane,)}
    return type(f"{plan.name}.{part}", (base,), attributes)


def _lane_class(stage: Stage, calls: tuple[str, ...]) -> type[Lane]:
    class StageLane(Lane):
        @operation(priority=stage.priority, calls=calls, idempotent=True)
        async def take(self, items: list[Any], turn: Turn | None = None) -> int | None:
            """Serve a chunk of items; its reply is the end of all that was made of them. It tells the lanes that were found.

            `turn`: where the order matters. A chunk that came before the one that it follows is not served (turns.CAME_EARLY).
            """
            if turn is not None and not self.turns.is_next(*turn):
                return CAME_EARLY
            await self.serve(items)
            return self.lanes_found

    return StageLane


def _entry_class(plan: FlowPlan, calls: tuple[str, ...]) -> type[Entry]:
    class FlowEntry(Entry):
        @operation(priority=plan.stages[0].priority, calls=calls, idempotent=plan.is_repeating)
        async def put(self, items: list[Any]) -> int:
            """Put items into the flow; the number of them, when all that was made of them has ended."""
            return await self.take(items)

    return FlowEntry
