"""Stage: one function of a flow, as the decorators in declaring.py describe it; and chains of stages: `lines >> store`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from ..objects.batch import Batch
from ..objects.operation import DeclarationError


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One function of a flow. `lines >> parse` joins two."""

    #: "source", "stage" or "sink".
    kind: str
    name: str
    function: Callable[..., Any]
    #: Types of one item that it takes and makes; `Any`: not annotated. A source takes none, a sink makes none.
    takes: Any
    makes: Any
    priority: int
    #: Lanes; None: as many as pay, found at run time (`parallel="auto"`). Never None with a key.
    parallel: int | None
    batch: Batch | None
    #: The key of an item; None: the items have none.
    key_of: Callable[[Any], Hashable] | None
    #: Whether it makes several items of one.
    expands: bool
    retries_singly: bool
    #: Of a source: whether it is told behind which position it is to begin, and gives the position of each item.
    has_positions: bool
    position_type: Any
    #: Of a source: whether it is called for each piece, with the number of items wanted; else it is iterated over.
    is_pulled: bool
    #: Of a source: seconds until it is asked again after it had nothing.
    poll_s: float

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function itself, as a test calls it."""
        return self.function(*arguments, **keywords)

    def __rshift__(self, after: Stage | Chain) -> Chain:
        return Chain((self,)) >> after


class Chain:
    """Stages in their order."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages

    def __rshift__(self, after: Any) -> Chain:
        if isinstance(after, Stage):
            return Chain((*self.stages, after))
        if isinstance(after, Chain):
            return Chain((*self.stages, *after.stages))
        raise DeclarationError(
            f"{self.stages[-1].name} >> {after!r}: expected a function with @stage or @sink, or a chain of them"
        )
