"""Invocations: state and results of long actions, for requests of their ActionStatus (W3C WoT TD 1.1)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, Final

from appbackplane.transport.errors import BackplaneError, Busy

from .problems import problem_of

#: Most invocations kept. When full, the oldest finished one is dropped; if all are running, `begin` raises `Busy`.
INVOCATIONS_MAX: Final = 1_000


class Invocation:
    """One invocation of an action, by `principal`."""

    def __init__(self, href: str, principal: str, requested: str, task: asyncio.Task[Any]) -> None:
        self.href = href
        self.principal = principal
        self.requested = requested
        self.task = task

    def status(self) -> dict[str, Any]:
        """Its ActionStatus."""
        said: dict[str, Any] = {"status": "running", "href": self.href, "timeRequested": self.requested}
        if not self.task.done():
            return said
        if self.task.cancelled():
            return said | {"status": "failed", "error": {"title": "Cancelled", "status": 499}}
        error = self.task.exception()
        if error is None:
            return said | {"status": "completed", "output": self.task.result()}
        if isinstance(error, BackplaneError):
            return said | {"status": "failed", "error": problem_of(error)[1]}
        return said | {"status": "failed", "error": {"type": "about:blank", "status": 500}}


class Invocations:
    """The invocations that are kept, by path."""

    def __init__(self, epoch: str) -> None:
        """`epoch` names the gateway's process: an invocation of another process must not be taken for one of this."""
        self._epoch = epoch
        self._kept: dict[str, Invocation] = {}
        self._numbers = itertools.count(1)

    def begin(self, path: str, principal: str, requested: str, call: Coroutine[Any, Any, Any]) -> Invocation:
        """Begin one. Raises `Busy` if `INVOCATIONS_MAX` are running."""
        if len(self._kept) >= INVOCATIONS_MAX:
            ended = next((href for href, each in self._kept.items() if each.task.done()), None)
            if ended is None:
                call.close()
                raise Busy(f"the gateway already runs {INVOCATIONS_MAX:,} long actions, its maximum", retry_after=1.0)
            del self._kept[ended]
        href = f"{path}/{self._epoch}-{next(self._numbers)}"
        task = asyncio.ensure_future(call)
        task.add_done_callback(
            lambda ended: None if ended.cancelled() else ended.exception()
        )  # retrieved, so that asyncio does not log it
        self._kept[href] = Invocation(href, principal, requested, task)
        return self._kept[href]

    def find(self, href: str, principal: str) -> Invocation | None:
        """One that this principal has begun."""
        found = self._kept.get(href)
        return found if found is not None and found.principal == principal else None

    def cancel_all(self) -> None:
        """The gateway ends: so do the calls."""
        for each in self._kept.values():
            each.task.cancel()
