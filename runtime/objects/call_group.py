"""Call group: several calls of one operation in a block, awaited together at its end (`AppObject.group`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self


class GroupedCall:
    """A call of a group. `result` is its result, once the block has ended."""

    __slots__ = ("_has_ended", "_result", "_route")

    def __init__(self, route: str) -> None:
        self._route = route
        self._has_ended = False
        self._result: Any = None

    @property
    def result(self) -> Any:
        """Its result. Raises RuntimeError inside the block, where the call has not begun."""
        if not self._has_ended:
            raise RuntimeError(f"{self._route}: its result is there after the block of its group has ended")
        return self._result

    def _end(self, result: Any) -> None:
        self._result, self._has_ended = result, True


class CallGroup:
    """The calls of one block. They begin at its end; if the block raises, none is made."""

    __slots__ = ("_call", "_calls", "_gather", "_handles")

    def __init__(self, call: Callable[..., Awaitable[Any]], gather: Callable[..., Awaitable[list[Any]]]) -> None:
        """`call`: makes a call (`AppObject.call`). `gather`: awaits all that it is given."""
        self._call, self._gather = call, gather
        self._calls: list[Awaitable[Any]] = []
        self._handles: list[GroupedCall] = []

    def call(self, route: str, /, **options: Any) -> GroupedCall:
        """A call of the group, with the parameters of `AppObject.call`."""
        self._calls.append(self._call(route, **options))
        self._handles.append(GroupedCall(route))
        return self._handles[-1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for handle, result in zip(self._handles, await self._gather(*self._calls), strict=True):
                handle._end(result)
