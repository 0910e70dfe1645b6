"""Streamed argument: the object that an operation iterates over, in the place of an argument that its caller sends by items.

`async for row in rows` in an `async def` operation, `for row in rows` in a plain one. Only the operation that was called can
read it, once. Each item is checked against the annotation (`rows: AsyncIterator[Row]`) when it is read, as other arguments are
before the operation begins.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from appbackplane.transport.async_items import AsyncItems
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument
from appbackplane.transport.item_buffer import ItemBuffer

from ...objects.streamed_items import ItemConversion, StreamedItems
from ..workers.current import current
from .blocking import LIMIT_S, wait_at
from .reading_action import AwaitedItems, ReadingAction


class StreamedArgument(AsyncItems, StreamedItems):
    """The items of one argument, as an iterator."""

    __slots__ = ("_buffer", "_conversion", "_converted_count", "_unfit", "_what")

    def __init__(self, route: str, name: str, buffer: ItemBuffer, conversion: ItemConversion | None) -> None:
        """`conversion`: None: each item is taken as it comes."""
        super().__init__(f"{route}: argument {name!r}")
        self._buffer = buffer
        self._conversion = conversion
        self._converted_count = 0
        #: Raised in the place of an item that does not fit, once those before it were read.
        self._unfit: InvalidArgument | None = None
        #: The reason to wait, for `why`.
        self._what = f"its caller, which has not sent more items of {name!r}"

    def __iter__(self) -> Iterator[Any]:
        if self._reading().coroutine is not None:
            raise FailedPrecondition(f"{self._route}: an `async def` operation reads it with `async for`")
        self.__aiter__()  # it can be read once
        return self._blocking()

    def _blocking(self) -> Iterator[Any]:
        while (items := self._wait_for_items()) is not None:
            yield from items

    def _wait_for_items(self) -> list[Any] | None:
        """The next items, for a plain operation; blocks its thread. None: there are no more."""
        action, host = self._reading(), current.host
        assert host is not None
        while True:
            # Before `take`: another worker may bring the last items and the end between the two.
            has_ended = self._buffer.has_ended
            if (items := self._taken()) is not None:
                return items
            if has_ended:
                self._check_end(action)
                return None
            gate = threading.Lock()
            gate.acquire()
            if not host.asks_for_items(action, gate):
                wait_at(gate, LIMIT_S, what=self._what)

    async def _next_items(self) -> list[Any]:
        action = self._reading()
        while True:
            has_ended = self._buffer.has_ended
            if (items := self._taken()) is not None:
                return items
            if has_ended:
                self._check_end(action)
                raise StopAsyncIteration
            await AwaitedItems(self._what)

    def _taken(self) -> list[Any] | None:
        if self._unfit is not None:
            raise self._unfit
        items = self._buffer.take()
        if items is None or self._conversion is None:
            return items
        try:
            converted = self._conversion.many(items)
        except msgspec.ValidationError:
            converted = self._until_unfit(items, self._conversion)
            if not converted and self._unfit is not None:
                raise self._unfit from None
        self._converted_count += len(converted)
        return converted

    def _until_unfit(self, items: list[Any], conversion: ItemConversion) -> list[Any]:
        """Convert items one by one up to the first that does not fit, and keep the error to be raised in its place."""
        converted: list[Any] = []
        for number, item in enumerate(items, self._converted_count):
            try:
                converted.append(conversion.one(item))
            except msgspec.ValidationError as error:
                problem = str(error) or "it does not fit"
                self._unfit = InvalidArgument(f"{self._route}, item {number}: {problem[0].lower()}{problem[1:]}")
                break
        return converted

    def _check_end(self, action: ReadingAction) -> None:
        action.received = self._buffer.error  # the caller's fault or the wire's, and none of this operation
        self._buffer.check_end()

    def _reading(self) -> ReadingAction:
        action = current.action
        if not isinstance(action, ReadingAction) or action.buffer is not self._buffer:
            raise FailedPrecondition(f"{self._route} can only be read by the operation that was called with it")
        return action

    def _end(self) -> None:
        self._buffer.abandon()
