"""Async pending call: the future that an asyncio client returns for a submitted call; it may be an argument of another call."""

from __future__ import annotations

import asyncio
from typing import Any

from .operand import Operand


class AsyncPendingCall(asyncio.Future[Any], Operand):
    """A submitted call: await it for its result, cancel it, or give it to another call (docs/concepts/dataflow.md)."""

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop, route: str) -> None:
        super().__init__(loop=loop)
        self._client = client
        self._call_id = 0
        self.route = route

    def _owner(self) -> Any:
        return self._client

    def _outcome(self) -> tuple[bool, Any, BaseException | None]:
        if not self.done():
            return False, None, None
        if self.cancelled():
            return True, None, asyncio.CancelledError("it was cancelled")
        error = self.exception()
        return True, None if error is not None else self.result(), error

    def _source(self) -> tuple[Any, int, str]:
        return self, self._call_id, self.route

    def _passes_on(self) -> None:
        self.add_done_callback(_take_note)


def _take_note(ended: asyncio.Future[Any]) -> None:
    """asyncio need not warn that nobody has looked at its error."""
    if not ended.cancelled():
        ended.exception()
