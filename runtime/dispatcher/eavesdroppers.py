"""Eavesdroppers: functions that receive all messages of a category: loggers, monitors, recorders.

Seed 003, section 4.3. They hold no locks and cannot change a message: messages are frozen, and one with a list or a map in it
is copied for each of them. Each has a thread and a bounded queue of its own, so that no message, no worker and no other
eavesdropper ever waits for it, even if it never returns. A message that finds the queue full is lost to it, counted and
reported. An eavesdropper that raises is cut off and reported. A virtual backplane has no threads: there each gets a message
before its handlers do. A worker pays one queue step per eavesdropper and message, and the copy if there is one.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from appbackplane.transport.errors import FailedPrecondition, text_of

from ..objects.operation import DeclarationError
from ..observation.rate_limit import RateLimit
from .checks.choosing import check_function
from .checks.data import is_value
from .errors import RegistrationError
from .message import Message
from .protectors import shortened
from .sources.block import Block, blocks_in
from .sources.block_memory import MAPPINGS

if TYPE_CHECKING:
    from .dispatcher_base import DispatcherBase

#: Messages that wait for one eavesdropper. They bridge a disk that stalls for a tenth of a second at 10,000 messages/s; more
#: would only spend memory on an eavesdropper that is too slow in any case.
QUEUE_MAX: Final = 1_000
#: Bytes of shared memory that stay mapped for messages that wait for one eavesdropper. If none are mapped, a
#: message is taken, however large.
BLOCK_BYTES_MAX: Final = 64 << 20

log = logging.getLogger("appbackplane.runtime")


class QueuedMessage(NamedTuple):
    """A queued message, and the blocks that stay mapped until the function has had it."""

    message: Message
    blocks: Sequence[Block]

    @property
    def bytes(self) -> int:
        """Total size of its blocks."""
        return sum(block.size for block in self.blocks)


class Eavesdropper:
    """One function that listens to a category, with its queue, and its thread, which starts with the first message."""

    def __init__(self, dispatcher: DispatcherBase, function: Callable[[Any], object], category: int) -> None:
        self._dispatcher, self.function, self.category = dispatcher, function, category
        self.name = str(getattr(function, "__qualname__", function))
        #: Messages processed, and messages lost.
        self.heard_count = self.lost_count = 0
        #: The error for which it was cut off; None: it listens.
        self.cut_off: str | None = None
        # Under `_changed`. Take no other lock while holding it.
        self._changed = threading.Condition(threading.Lock())
        self._queue: deque[QueuedMessage] = deque()
        self._block_bytes = 0
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._reports = RateLimit()

    @property
    def waiting_count(self) -> int:
        """Messages in its queue, without the one that its thread processes."""
        return len(self._queue)

    def tell(self, message: Message, blocks: Sequence[Block]) -> None:
        """Queue a message for it; lost if the queue is full. Never waits. Raises the errors of copying it."""
        if self.cut_off is not None:
            return
        told = QueuedMessage(message, blocks)
        if not self._has_room(told):  # before the copy: even one that never returns must cost little
            self._loses()
            return
        told = QueuedMessage(_own(message), blocks)
        for block in blocks:
            MAPPINGS.map(block)
        problem, is_due = None, False
        with self._changed:
            is_taken = self._has_room(told) and self.cut_off is None
            if is_taken:
                self._queue.append(told)
                self._block_bytes += told.bytes
                if self._thread is None:
                    problem = self._start()
                    is_due = problem is not None and self._is_report_due()
                self._changed.notify()
        if not is_taken:
            _let_go(told)
            self._loses()
        elif is_due:
            log.warning(
                "%s: the thread of %s could not be started; its messages are queued: %s",
                self._dispatcher.name,
                self,
                problem,
            )

    def hear(self, message: Message) -> None:
        """Call the function; if it raises, the eavesdropper is cut off."""
        try:
            self.function(message)
        except BaseException as error:  # the edge: sys.exit() in it ends only this eavesdropper
            self._cuts_off(error)
        else:
            self.heard_count += 1

    def end(self) -> None:
        """Let its thread end once its queue is empty."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()

    def wait_ended(self, limit_s: float) -> None:
        """Wait at most `limit_s` for its queue to empty; log the number of messages that remain."""
        thread = self._thread
        if thread is not None:
            thread.join(limit_s)
        if self._queue:
            log.warning(
                "%s: the backplane ends with %d messages not yet delivered to %s",
                self._dispatcher.name,
                len(self._queue),
                self,
            )

    def __str__(self) -> str:
        return f"eavesdropper {self.name} of category {self.category}"

    # -- in its thread ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while (told := self._next()) is not None:
            try:
                self.hear(told.message)
            finally:
                _let_go(told)

    def _next(self) -> QueuedMessage | None:
        """Wait for the next message; None: the thread is to end."""
        with self._changed:
            while not self._queue:
                if self._is_ending or self.cut_off is not None:
                    self._thread = None
                    return None
                self._changed.wait()
            told = self._queue.popleft()
            self._block_bytes -= told.bytes
            return told

    def _cuts_off(self, error: BaseException) -> None:
        because = f"it raised {type(error).__name__}: {text_of(error)}"
        with self._changed:
            self.cut_off = because
            unheard, self._queue = self._queue, deque()
            self.lost_count += len(unheard)
        for told in unheard:
            _let_go(told)
        # No rate limit: it happens once per eavesdropper.
        log.error(
            "%s: %s is cut off: %s; messages go on without it", self._dispatcher.name, self, because, exc_info=error
        )

    # -- steps --------------------------------------------------------------------------------------------------------

    def _has_room(self, told: QueuedMessage) -> bool:
        if len(self._queue) >= QUEUE_MAX:
            return False
        return not told.blocks or not self._block_bytes or self._block_bytes + told.bytes <= BLOCK_BYTES_MAX

    def _start(self) -> RuntimeError | None:
        """Start its thread; returns the error if the system refuses one. The next message tries again."""
        thread = threading.Thread(target=self._listen, name=f"eavesdropper-{self.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            return error
        self._thread = thread
        return None

    def _loses(self) -> None:
        with self._changed:
            self.lost_count += 1
            is_due = self._is_report_due()
        if is_due:
            log.warning(
                "%s: %s does not keep up: %d messages wait for it, and %d are lost to it so far",
                self._dispatcher.name, self, self.waiting_count, self.lost_count,
            )  # fmt: skip

    def _is_report_due(self) -> bool:
        """At most one report per interval: a stalled disk makes it lose every message."""
        return self._reports.admit(self.name, self._dispatcher._now_ns()) is not None


class Eavesdropping:
    """All eavesdroppers of one dispatcher, by category."""

    def __init__(self, dispatcher: DispatcherBase) -> None:
        self._dispatcher = dispatcher
        self.of_category: dict[int, tuple[Eavesdropper, ...]] = {}
        #: Message types that could not be copied, already logged.
        self._uncopied: set[type[Message]] = set()

    @property
    def all(self) -> list[Eavesdropper]:
        """All eavesdroppers, by category, in the order in which they were added."""
        return [each for listening in self.of_category.values() for each in listening]

    def add(self, function: Any, category: Any) -> Eavesdropper:
        """Add a listening function. Raises `RegistrationError`; `FailedPrecondition` once the dispatcher runs."""
        where = f"eavesdrop({shortened(function)})"
        if self._dispatcher._hosted_by is not None:
            raise FailedPrecondition(f"{where}: {self._dispatcher.name} runs: eavesdrop in setup()")
        try:
            check_function(function, where, "message")
        except DeclarationError as error:
            raise RegistrationError(str(error)) from None
        if not isinstance(category, int) or isinstance(category, bool):
            raise RegistrationError(f"{where}: category={category!r}, expected the number of a category")
        added = Eavesdropper(self._dispatcher, function, category)
        self.of_category[category] = (*self.of_category.get(category, ()), added)
        return added

    def tell(self, message: Message, *, has_blocks: bool) -> None:
        """Pass a message to the eavesdroppers of its category, which must have some. Never waits, never fails."""
        has_threads = self._dispatcher._platform.stand_in is None  # a virtual backplane has only the thread of its test
        try:
            blocks = blocks_in(message) if has_blocks else ()
            for each in self.of_category[message.__message__.category]:
                if has_threads:
                    each.tell(message, blocks)
                elif each.cut_off is None:
                    each.hear(_own(message))
        except Exception as error:  # nested too deep, or with a value that cannot be copied
            self._not_copied(message, error)

    def end(self, limit_s: float) -> None:
        """No more messages come: wait at most `limit_s`, for all together, until all queues are empty."""
        now_ns = self._dispatcher._now_ns
        end_ns = now_ns() + round(limit_s * 1e9)
        for each in self.all:
            each.end()
        for each in self.all:
            each.wait_ended(max(0.0, (end_ns - now_ns()) / 1e9))

    def figures(self) -> list[dict[str, Any]]:
        """For the operation `eavesdroppers`: counts of messages processed, waiting and lost, for each."""
        return [
            {
                "eavesdropper": each.name,
                "category": each.category,
                "heard": each.heard_count,
                "waiting": each.waiting_count,
                "lost": each.lost_count,
                "cut_off": each.cut_off,
                "backplane": self._dispatcher.name.partition("/")[0],
            }
            for each in self.all
        ]

    def _not_copied(self, message: Message, error: Exception) -> None:
        if type(message) not in self._uncopied:
            self._uncopied.add(type(message))
            log.warning(
                "%s: a %s cannot be copied for eavesdroppers, which do not get it (logged once): %s: %s",
                self._dispatcher.name, type(message).__name__, type(error).__name__, text_of(error),
            )  # fmt: skip


def _own(message: Message) -> Message:
    """The message, or a copy if anything in it can be changed."""
    return message if is_value(message) else copy.deepcopy(message)


def _let_go(told: QueuedMessage) -> None:
    for block in told.blocks:
        MAPPINGS.unmap(block)
