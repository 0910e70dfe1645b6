"""Invocations: state and results of long actions, for requests of their ActionStatus (W3C WoT TD 1.1)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from appbackplane.transport.errors import BackplaneError, Busy

from .problems import problem_of

#: Most invocations kept. When full, the oldest finished one is dropped; if all are running, `begin` raises `Busy`.
INVOCATIONS_MAX: Final = 1_000
#: Most of one principal, likewise: a tenth, so that nobody keeps others from theirs. All anonymous users are one.
PRINCIPAL_INVOCATIONS_MAX: Final = 100


class Invocation:
    """One invocation of an action, by `principal`."""

    def __init__(self, href: str, principal: str, requested: str, task: asyncio.Task[Any]) -> None:
        self.href = href
        self.principal = principal
        self.requested = requested
        #: When it ended, as `requested`; "": it is running.
        self.ended = ""
        self.task = task

    def status(self) -> dict[str, Any]:
        """Its ActionStatus."""
        said: dict[str, Any] = {"status": "running", "href": self.href, "timeRequested": self.requested}
        if not self.ended:
            return said
        said["timeEnded"] = self.ended
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

    def __init__(self, now: Callable[[], str]) -> None:
        """`now`: the time, as RFC 3339 writes it."""
        self._now = now
        self._kept: dict[str, Invocation] = {}

    def begin(self, path: str, principal: str, call: Coroutine[Any, Any, Any]) -> Invocation:
        """Begin one. Raises `Busy` if `PRINCIPAL_INVOCATIONS_MAX` of this principal, or `INVOCATIONS_MAX`, are running."""
        own = [href for href, each in self._kept.items() if each.principal == principal]
        try:
            if len(own) >= PRINCIPAL_INVOCATIONS_MAX:
                self._forget_ended(own, f"{principal} already has {PRINCIPAL_INVOCATIONS_MAX:,} long actions running")
            elif len(self._kept) >= INVOCATIONS_MAX:
                self._forget_ended(self._kept, f"the gateway already runs {INVOCATIONS_MAX:,} long actions")
        except Busy:
            call.close()
            raise
        # Nobody else can name it, not even another user of the same principal, nor is it that of an earlier gateway.
        href = f"{path}/{secrets.token_hex(16)}"
        begun = self._kept[href] = Invocation(href, principal, self._now(), asyncio.ensure_future(call))

        def note_end(task: asyncio.Task[Any]) -> None:
            begun.ended = self._now()
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it

        begun.task.add_done_callback(note_end)
        return begun

    def _forget_ended(self, hrefs: Iterable[str], full: str) -> None:
        """Forget the oldest of these that has ended. Raises `Busy` if all are running."""
        ended = next((href for href in hrefs if self._kept[href].task.done()), None)
        if ended is None:
            raise Busy(f"{full}, the maximum", retry_after=1.0)
        del self._kept[ended]

    def find(self, href: str, principal: str) -> Invocation | None:
        """One that this principal has begun."""
        found = self._kept.get(href)
        return found if found is not None and found.principal == principal else None

    def of(self, path: str, principal: str) -> list[Invocation]:
        """All of an action that this principal has begun, and that are kept: the latest first."""
        own = [each for each in self._kept.values() if each.principal == principal]
        return [each for each in reversed(own) if each.href.rpartition("/")[0] == path]

    def cancel_all(self) -> None:
        """The gateway ends: so do the calls."""
        for each in self._kept.values():
            each.task.cancel()
