"""Plan of a flow: its stages in their order, and the bounds that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

from .stage import Stage

#: The part that takes the place of a source where a flow has none.
INLET = "inlet"


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One flow, as its parts know it."""

    name: str
    stages: tuple[Stage, ...]
    #: Items that each process of a stage may have under way in the next one.
    credits: int
    #: Whether items of a process that has died are sent again (`at_least_once`).
    is_repeating: bool
    #: Dead letters that each process of a stage keeps.
    letters_max: int

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its parts, in the order of the flow."""
        names = tuple(each.name for each in self.stages)
        return names if self.stages[0].kind == "source" else (INLET, *names)

    def after(self, part: str) -> Stage | None:
        """The stage behind a part; None: it is the last."""
        names = [each.name for each in self.stages]
        at = names.index(part) + 1 if part in names else 0
        return self.stages[at] if at < len(names) else None

    def component(self, part: str) -> str:
        """The name of the component that is this part."""
        return self.name if part == INLET else f"{self.name}_{part}"

    def route(self, part: str) -> str:
        """The route on which a stage takes chunks."""
        return f"{self.component(part)}.take"
