"""Eavesdroppers: who hears all messages of a category before their handlers do: loggers, monitors, recorders.

Seed 003, section 4.3. They hold no locks and cannot change what they hear: messages are frozen, and one that has a list or a
map in it is copied for them. Each runs as work of its own, on an object of its own, so that it hears the messages of one
priority in their order; the message goes on when all have heard it. An eavesdropper that raises, or takes longer than
`slow_after`, is cut off and reported; the message goes on without it.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import Busy, FailedPrecondition, text_of
from appbackplane.transport.request import is_number

from ..objects.action import DONE, Action, Outcome
from ..objects.app_object import AppObject
from ..objects.operation import DeclarationError
from .checks.choosing import check_function
from .checks.data import is_value
from .errors import RegistrationError
from .message import Message
from .protectors import shortened

if TYPE_CHECKING:
    from .delivery import Delivery
    from .dispatcher import Dispatcher

#: How long an eavesdropper may take over one message. Every message of its category waits for it: what logs or counts takes
#: microseconds, and a machine that stands still for a moment is not its fault.
SLOW_AFTER_S: Final = 0.1


log = logging.getLogger("appbackplane.runtime")


class Eavesdropper:
    """One function that listens to a category."""

    __slots__ = ("category", "function", "heard_count", "is_cut_off", "name", "slow_ns")

    def __init__(self, function: Callable[[Any], object], category: int, slow_ns: int) -> None:
        self.function, self.category, self.slow_ns = function, category, slow_ns
        self.name = str(getattr(function, "__qualname__", function))
        self.is_cut_off = False
        self.heard_count = 0


class Ear(AppObject):
    """Where one eavesdropper's work of one priority is queued."""

    __slots__ = ()


class Hearing(Action):
    """One eavesdropper hears one message."""

    __slots__ = ("delivery", "dispatcher", "eavesdropper", "heard_from_ns", "is_over", "message")

    def __init__(
        self, ear: AppObject, dispatcher: Dispatcher, eavesdropper: Eavesdropper, delivery: Delivery, message: Message
    ) -> None:
        super().__init__(ear, f"{dispatcher.component_name}.eavesdropping", delivery.priority)
        self.dispatcher, self.eavesdropper, self.delivery, self.message = dispatcher, eavesdropper, delivery, message
        #: When it began to run; 0: not yet.
        self.heard_from_ns = 0
        #: Whether the message waits for it no more.
        self.is_over = False

    def run(self) -> Outcome:
        """Let it hear."""
        eavesdropper = self.eavesdropper
        if eavesdropper.is_cut_off:
            return DONE
        now_ns = self.dispatcher._now_ns
        self.heard_from_ns = now_ns()
        try:
            eavesdropper.function(self.message)
        except BaseException as error:  # the edge: sys.exit() in it ends it, not the worker
            self.dispatcher._eavesdropping.cut_off(self, f"it raised {type(error).__name__}: {text_of(error)}", error)
        else:
            eavesdropper.heard_count += 1
            took_ns = now_ns() - self.heard_from_ns
            if took_ns > eavesdropper.slow_ns:
                self.dispatcher._eavesdropping.cut_off(self, f"it took {took_ns / 1e6:.0f} ms over one message", None)
        return DONE


class Eavesdropping:
    """Who listens to a dispatcher."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.of_category: dict[int, tuple[Eavesdropper, ...]] = {}
        self._ears: dict[tuple[Eavesdropper, int], Ear] = {}
        #: Those that messages wait for, and when somebody will look how long they take; None: nobody will. Under the mutex.
        self._hearings: set[Hearing] = set()
        self._looks_ns: int | None = None
        #: Types of messages that could not be copied, of which the log has been told.
        self._uncopied: set[type[Message]] = set()

    def add(self, function: Any, category: Any, slow_after: Any) -> Eavesdropper:
        """Have it listen. Raises `RegistrationError`."""
        where = f"eavesdrop({shortened(function)})"
        if self._dispatcher._hosted_by is not None:
            raise FailedPrecondition(f"{where}: {self._dispatcher.name} runs: eavesdrop in setup()")
        try:
            check_function(function, where, "message")
        except DeclarationError as error:
            raise RegistrationError(str(error)) from None
        if not isinstance(category, int) or isinstance(category, bool):
            raise RegistrationError(f"{where}: category={category!r}, expected the number of a category")
        if not is_number(slow_after) or not 0 < slow_after < math.inf:
            raise RegistrationError(f"{where}: slow_after={slow_after!r}, expected seconds above 0")
        added = Eavesdropper(function, category, round(slow_after * 1e9))
        self.of_category[category] = (*self.of_category.get(category, ()), added)
        return added

    def tell(self, delivery: Delivery, message: Message) -> bool:
        """Have all hear a message; False: nobody listens (any more). `over` is called when all have heard it."""
        listening = [e for e in self.of_category[message.__message__.category] if not e.is_cut_off]
        if not listening:
            return False
        dispatcher = self._dispatcher
        try:
            hearings = [
                Hearing(self._ear(e, delivery.priority), dispatcher, e, delivery, _own(message)) for e in listening
            ]
        except Exception as error:  # nested too deep, or made in this process of what is not copied
            self._not_copied(message, error)
            return False
        with dispatcher._mutex:
            # Whoever is cut off from now on finds them; what has been cut off meanwhile may never hear anything again.
            hearings = [each for each in hearings if not each.eavesdropper.is_cut_off]
            delivery.hearings = list(hearings)
            self._hearings.update(hearings)
        if not hearings:
            return False
        for number, hearing in enumerate(hearings):
            hearing.on_end = self._ended
            try:
                dispatcher.post(hearing)
            except Busy as error:  # what the component may have outstanding is all there is
                dispatcher._report(delivery, error)
                if not self._waits_for_others(delivery, hearings[number:]):
                    return False
                break
        self._watch(min(e.slow_ns for e in listening))
        return True

    def _not_copied(self, message: Message, error: Exception) -> None:
        if type(message) not in self._uncopied:
            self._uncopied.add(type(message))
            log.warning(
                "%s: a %s cannot be copied for eavesdroppers, and goes on without them (said once): %s: %s",
                self._dispatcher.name, type(message).__name__, type(error).__name__, text_of(error),
            )  # fmt: skip

    def _waits_for_others(self, delivery: Delivery, unheard: list[Hearing]) -> bool:
        """Some will not hear it: whether others still have to, or the last of them has resumed it."""
        with self._dispatcher._mutex:
            left_out = [each for each in unheard if not each.is_over]  # the others have been cut off
            for hearing in left_out:
                hearing.is_over = True
                self._hearings.discard(hearing)
                delivery.hearings.remove(hearing)
            return bool(delivery.hearings) or not left_out

    def cut_off(self, hearing: Hearing, because: str, error: BaseException | None) -> None:
        """It hears no more, and no message waits for it."""
        eavesdropper, dispatcher = hearing.eavesdropper, self._dispatcher
        with dispatcher._mutex:
            if eavesdropper.is_cut_off:
                return
            eavesdropper.is_cut_off = True
            waiting = [each for each in self._hearings if each.eavesdropper is eavesdropper]
        words = (dispatcher.name, eavesdropper.name, eavesdropper.category, because)
        # Said in any case: it happens to each of them once.
        log.error(
            "%s: eavesdropper %s of category %d is cut off: %s; messages go on without it", *words, exc_info=error
        )
        for each in waiting:
            self._over(each)

    def _ear(self, eavesdropper: Eavesdropper, priority: int) -> Ear:
        with self._dispatcher._mutex:
            ear = self._ears.get((eavesdropper, priority))
            if ear is None:
                ear = self._ears[eavesdropper, priority] = self._dispatcher._inner(Ear(), eavesdropper.name)
            return ear

    def _ended(self, action: Action) -> None:
        assert isinstance(action, Hearing)
        self._over(action)

    def _over(self, hearing: Hearing) -> None:
        """One has heard its message, or never will."""
        delivery = hearing.delivery
        with self._dispatcher._mutex:
            if hearing.is_over:
                return
            hearing.is_over = True
            self._hearings.discard(hearing)
            delivery.hearings.remove(hearing)
            is_last = not delivery.hearings
        if is_last:
            self._dispatcher._host.resume(delivery)

    def _watch(self, slow_ns: int) -> None:
        """See to it that somebody looks by then."""
        now_ns = self._dispatcher._now_ns()
        with self._dispatcher._mutex:
            # One that should have looked by now may have been taken back: its component went down.
            if self._looks_ns is not None and now_ns <= self._looks_ns <= now_ns + slow_ns:
                return
            self._looks_ns = now_ns + slow_ns
        self._dispatcher._look_at_eavesdroppers_in(slow_ns)

    def watch_again(self) -> None:
        """The component has gone down, and with it the timer. What has come before is still waiting to be heard."""
        with self._dispatcher._mutex:
            self._looks_ns = None
            slow_ns = min((each.eavesdropper.slow_ns for each in self._hearings), default=None)
        if slow_ns is not None:
            self._watch(slow_ns)

    def look(self) -> None:
        """Cut off who has been at one message for too long."""
        now_ns = self._dispatcher._now_ns()
        with self._dispatcher._mutex:
            # In one step: what comes later sees that nobody will look, what came before is looked at.
            if self._looks_ns is not None and self._looks_ns <= now_ns:
                self._looks_ns = None
            pending = list(self._hearings)
        for each in pending:
            slow_ns = each.eavesdropper.slow_ns
            if each.heard_from_ns and not each.is_over and now_ns - each.heard_from_ns >= slow_ns:
                self.cut_off(each, f"it has been at one message for {slow_ns / 1e6:.0f} ms", None)
        if pending := [each for each in pending if not each.is_over]:
            self._watch(min(each.eavesdropper.slow_ns for each in pending))


def _own(message: Message) -> Message:
    """What an eavesdropper may do with as it likes."""
    return message if is_value(message) else copy.deepcopy(message)
