"""Waiting for an entry of the ready pool, or for a request to rejoin: in a thread, or in a coroutine that holds none.

A backplane thread that waits during an execution does nothing else meanwhile: another thread takes over its other work, and
priority inheritance passes through the wait (actions/parked_actions.py). A coroutine awaits a signal, in the wait queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from appbackplane.transport.errors import BackplaneError, InvalidArgument

from ...execution.actions.blocking import wait_at
from ...execution.actions.coroutines import OneShotEvent
from ...objects.platform import Platform

if TYPE_CHECKING:
    from ..ledger.element import Element

#: Limit of a wait whose caller gives none: a week, as for a call. Nobody means longer, and a timer has to end some day.
LIMIT_S = 7 * 86_400.0
#: A patient waiter is notified of the first few requests only once there are more, or after this. Woken for each, waiter and
#: worker alternate at the interpreter, and a core has to wake up each time: 17 us of CPU a request instead of 9.
PATIENCE_S = 0.000_5


#: Reasons for waiting, as shown to people.
ROOM: Final = "room in the pools"
AN_END: Final = "requests"


@mypyc_attr(allow_interpreted_subclasses=True)
class AnswerWaiter:
    """A wait that is notified once, from any thread: of its answer, or of the error that ends it."""

    __slots__ = ("asking", "element", "error", "is_told")

    def __init__(self) -> None:
        #: The request whose execution waits; None: a caller outside any request.
        self.asking: Element | None = None
        #: The answer; None: no request of that owner exists.
        self.element: Element | None = None
        self.error: BackplaneError | None = None
        self.is_told = False

    def tell(self, element: Element | None, error: BackplaneError | None = None) -> None:
        """Set the answer or the error. Call with the kernel's mutex: a waiter that withdraws at the same time then sees it."""
        self.element, self.error = element, error
        self.is_told = True

    def go_on(self) -> None:
        """Resume the waiter. Call without the kernel's mutex: this may take the lead."""
        raise NotImplementedError


class ThreadWaiter(AnswerWaiter):
    """A waiter that blocks its thread."""

    __slots__ = ("_gate", "_platform", "_what")

    def __init__(self, platform: Platform, what: str) -> None:
        """`what`: the reason, shown to people who ask why it waits."""
        super().__init__()
        self._platform, self._what = platform, what
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, limit_s: float | None, on_impatience: Callable[[], None] | None = None) -> bool:
        """Whether it was notified in time. `on_impatience`: called after `PATIENCE_S`, to end its patience."""
        return wait_at(
            self._gate,
            LIMIT_S if limit_s is None else limit_s,
            self._platform.stand_in,
            self._what,
            PATIENCE_S,
            on_impatience,
        )

    def go_on(self) -> None:
        self._gate.release()


class SignalWaiter(AnswerWaiter):
    """A waiter for a coroutine: `await waiter.signal`."""

    __slots__ = ("_platform", "signal")

    def __init__(self, platform: Platform, limit_s: float | None, what: str) -> None:
        """`what`: the reason, shown to people who ask why it waits."""
        super().__init__()
        self._platform = platform
        self.signal = OneShotEvent(round((LIMIT_S if limit_s is None else limit_s) * 1e9), what)

    def go_on(self) -> None:
        self._platform.set(self.signal)


def checked_limit(timeout: Any, wait: Any = None) -> float | None:
    """The limit of a wait, seconds. Raises `InvalidArgument`; call it before posting, since posted requests run anyway.

    `wait`: the caller's argument of that name; None: not given.
    """
    if timeout is None:
        return None
    if type(timeout) in (int, float) and timeout >= 0:
        if wait is not None and not wait:
            raise InvalidArgument(f"timeout={timeout!r} has no effect with wait=False: leave out one of the two")
        return min(timeout, LIMIT_S)  # type: ignore[no-any-return]
    raise InvalidArgument(f"timeout={timeout!r:.100}: expected seconds, 0 or more, or None")
