"""Waiting: for an entry of the ready pool, or for a request to rejoin; in a thread, or in a coroutine that holds none.

A thread of the backplane that waits in the execution of a request is given up for as long: what else it would have done is
somebody else's, and those behind it inherit past it (execution/parking.py). A coroutine awaits a signal, in the wait queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from appbackplane.transport.errors import BackplaneError, InvalidArgument

from ..execution.blocking import wait_at
from ..execution.coroutines import Signal
from ..objects.app_object import Host

if TYPE_CHECKING:
    from .element import Element

#: Who gives no limit waits for a week, as a call does at most: nobody meant longer, and a timer has to end some day.
LIMIT_S = 7 * 86_400.0
#: Who waits for one of many is told of the first few only when there are more, or after so long. Woken for each, he and the
#: worker take turns at the interpreter, and either time a core has to wake up: 17 us of CPU a request instead of 9.
PATIENCE_S = 0.000_5


#: What is waited for.
ROOM: Final = "room in the pools"
AN_END: Final = "requests"


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Somebody who is to be told once: what he waited for, or why he waits in vain. Told from any thread."""

    __slots__ = ("asking", "element", "error", "is_told")

    def __init__(self) -> None:
        #: The request whose execution waits; None: somebody outside.
        self.asking: Element | None = None
        #: What he is given; None: nothing of that owner exists.
        self.element: Element | None = None
        self.error: BackplaneError | None = None
        self.is_told = False

    def tell(self, element: Element | None, error: BackplaneError | None = None) -> None:
        """Here it is; or why it will never come. With the kernel's mutex: who then takes back his waiting sees it."""
        self.element, self.error = element, error
        self.is_told = True

    def go_on(self) -> None:
        """Now. Without the mutex: it may take the lead."""
        raise NotImplementedError


class ThreadWaiter(Waiter):
    """Waits in its thread."""

    __slots__ = ("_gate", "_host", "_what")

    def __init__(self, host: Host, what: str) -> None:
        """`what`: is waited for, for whoever asks why."""
        super().__init__()
        self._host, self._what = host, what
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, limit_s: float | None, on_impatience: Callable[[], None] | None = None) -> bool:
        """Whether it was told in time. `on_impatience`: makes it one that is not patient any more."""
        return wait_at(
            self._gate,
            LIMIT_S if limit_s is None else limit_s,
            self._host.stand_in,
            self._what,
            PATIENCE_S,
            on_impatience,
        )

    def go_on(self) -> None:
        self._gate.release()


class SignalWaiter(Waiter):
    """Waits in a coroutine: `await waiter.signal`."""

    __slots__ = ("_host", "signal")

    def __init__(self, host: Host, limit_s: float | None, what: str) -> None:
        """`what`: is waited for, for whoever asks why."""
        super().__init__()
        self._host = host
        self.signal = Signal(round((LIMIT_S if limit_s is None else limit_s) * 1e9), what)

    def go_on(self) -> None:
        self._host.set(self.signal)


def checked_limit(timeout: Any, wait: Any = None) -> float | None:
    """A limit of waiting, in seconds. Raises `InvalidArgument`, before anything is posted: what is, is executed anyway.

    `wait`: whether who gives it asks for waiting; None: he does not say.
    """
    if timeout is None:
        return None
    if type(timeout) in (int, float) and timeout >= 0:
        if wait is not None and not wait:
            raise InvalidArgument(f"timeout={timeout!r}: wait=False waits for nothing: leave out one of the two")
        return min(timeout, LIMIT_S)  # type: ignore[no-any-return]
    raise InvalidArgument(f"timeout={timeout!r:.100}: expected seconds, 0 or more, or None")
