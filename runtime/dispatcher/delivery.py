"""Delivery: a message on its way through its handlers. One action, which waits for locks in the scheduler's wait queue.

For each handler (seed 003, section 3.1): its arguments are selected by the message, the locks are taken in the order of their
rank, the handler is called, the locks are released. Its result, error and changes are processed here.

locking.py decides who has which lock, under the dispatcher's mutex; this file acts on its decisions, without the mutex. A busy
lock costs no thread: the delivery is parked (execution/actions/parked_actions.py), and whoever releases the lock hands it over.
Meanwhile the holders of the lock inherit the waiter's priority (law 10). Only a handler that uses an accessor (accessor.py)
blocks its thread, because its stack cannot be parked. Meanwhile the backplane has a spare thread in its place, so that the
holders it waits for find a thread to run in.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from appbackplane.transport.errors import BackplaneError, Busy

from ..objects.action import DONE, WAITING, Action, Outcome, ParkableAction
from ..objects.app_object import AppObject
from . import locking
from .accessor import finished
from .answer import detached
from .errors import HandlerFailed
from .handles import Handle
from .locking import NO_EFFECTS, Lock, LockClaim, LockEffects
from .message import Message
from .observed import Observed, given_back, messages_of, taken

if TYPE_CHECKING:
    from .dispatcher_base import DispatcherBase
    from .registration import HandlerEntry
    from .served import Served


class Delivery(ParkableAction):
    """One message as an action, and a holder of locks (`locking.LockHolder`). Made by the dispatcher (`_action_of`)."""

    __slots__ = (
        "changed", "claims", "dispatcher", "entries", "gate", "handle", "held", "index", "is_calling", "kept", "left",
        "message", "reached", "served", "thread", "values", "waited_from_ns", "waits_on", "wanted",
    )  # fmt: skip

    def __init__(
        self, queue: AppObject, priority: int, deadline_ns: int | None, dispatcher: DispatcherBase, served: Served,
        message: Message | None, handle: Handle | None,
    ) -> None:  # fmt: skip
        Action.__init__(
            self, queue, served.route, priority, deadline_ns
        )  # a level of `super` costs 0.1 us, interpreted
        self.is_resumed = False
        self.taken_back = None
        self.dispatcher = dispatcher
        self.held: list[LockClaim] = []
        self.wanted: Sequence[LockClaim] = ()
        self.waits_on: Lock | None = None
        #: When its wait for locks began, until the wait is booked; 0: it does not wait.
        self.waited_from_ns = 0
        #: Closed lock at which its thread blocks; None: it does not block.
        self.gate: threading.Lock | None = None
        #: Effects of its last release on others, which continue once it has ended.
        self.left = NO_EFFECTS
        self.served = served
        #: Its handlers, read when its turn has come; None: not yet.
        self.entries: Sequence[HandlerEntry] | None = None
        #: None: the message was given itself.
        self.handle = handle
        self.message = message
        #: Index of the current handler.
        self.index = 0
        #: Claims that it holds through all its handlers.
        self.kept: Sequence[LockClaim] = ()
        #: Arguments of the current handler; None: not selected yet.
        self.values: tuple[Any, ...] | None = None
        #: Claims of the current handler, claims that its accessors add, and the thread in which it runs.
        self.claims: Sequence[LockClaim] = ()
        self.reached: list[LockClaim] = []
        self.thread = 0
        self.is_calling = False
        #: Old values of fields that the handler changed in data it had to release for a while.
        self.changed: dict[Lock, dict[str, Any]] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has been through a handler; False while the first one runs."""
        return self.index > 0

    def run(self) -> Outcome:  # hot: scripts/bench dispatcher_overhead
        """Start, or continue with the locks it waited for."""
        assert self.waits_on is None, "resumed without what it waits for"
        if self.message is None:
            assert self.handle is not None
            if self.handle.lock is not None and not self.held:
                self.kept = self._to_keep()
                if not self.take(self.kept):
                    return WAITING
            self.waited_from_ns = 0  # the wait for its source's lock is booked to no handler
            if not self._resolve():
                return DONE
        entries = self.entries
        if entries is None:
            served = self.served
            entries = self.entries = served.entries
            # Not if claims are kept already: a place ranks first, so the source's lock would have to be released for it.
            if served.has_accessor and not self.kept:
                self.kept = self._to_keep()
            if served.is_eavesdropped:
                assert self.message is not None
                self.dispatcher._eavesdropping.tell(self.message, has_blocks=served.has_blocks)
        elif self.waited_from_ns:
            self.book_wait()
        while self.index < len(entries):
            entry = entries[self.index]
            values = self.values
            if values is None:
                try:
                    claims, values = entry.fixed or entry.prepare(self.message, self)
                    if self.kept:
                        claims = locking.ordered([*claims, *self.kept])
                    self.claims = claims
                except BaseException as error:  # the edge: the selector is user code, and may not know the key
                    self._failed(entry, error, is_chosen=False)
                    self.index += 1
                    continue
                # `held` is compared without the mutex: no other thread takes a held lock away.
                if self.held != [*claims] and not self.take(claims):
                    self.values = values
                    return WAITING
            if self.taken_back is not None and not self.index:
                self.error = self.taken_back
                break
            self._call(entry, values)
            self.values = None
            self.index += 1
        if self.handle is not None:
            self._let_go()
        if self.held:
            self.release()
        return DONE

    def refuse(self, error: BackplaneError) -> None:
        """It will not be handled (further): release its handle and its locks."""
        super().refuse(error)
        try:
            if self.handle is not None:
                self._let_go()
        finally:
            self.release()

    # -- a handler's turn ---------------------------------------------------------------------------------------------

    def _to_keep(self) -> list[LockClaim]:
        """In ascending rank: a place among messages whose handlers may block their threads, and the lock of its source."""
        kept = [LockClaim(self.dispatcher._places, True)] if self.served.has_accessor else []
        if self.handle is not None and self.handle.lock is not None:
            kept.append(LockClaim(self.handle.lock, False))
        return kept

    def _resolve(self) -> bool:
        handle = self.handle
        assert handle is not None
        is_here = True
        try:
            message = None if handle.is_cancelled else handle.resolve()
            if message is not None:
                if type(message) is not self.served.spec.type:
                    raise TypeError(
                        f"{type(handle).__name__}.resolve() gave a {type(message).__name__}: expected a "
                        f"{self.served.spec.type.__name__}, or None"
                    )
                is_here = self.dispatcher._shards is None or self.dispatcher._shards.is_here(message)
        except BaseException as error:  # the edge: the handle is user code, and so is the key of its message
            self.error = error
            message = None
            if self.peer is None and isinstance(error, BackplaneError):  # its worker reports all others
                self.dispatcher._report(self, error)
        if message is None:
            self.dispatcher.vanished_count += 1
            self._let_go()
            if self.held:
                self.release()
            return False
        if not is_here:
            return self._pass_on(message)
        self.message = message
        return True

    def _pass_on(self, message: Message) -> bool:
        """The resolved message belongs to another shard: dispatch it again."""
        try:
            self.dispatcher.dispatch(message, priority=self.priority)
        except BackplaneError as error:
            self.error = error
            self.dispatcher._report(self, error)
        self._let_go()
        if self.held:
            self.release()
        return False

    def _call(self, entry: HandlerEntry, values: tuple[Any, ...]) -> None:  # hot: scripts/bench dispatcher_overhead
        if not entry.is_registered:
            return
        if self.handle is not None and not self.handle.begin():
            return
        host = self.dispatcher._hosted_by
        assert host is not None
        now_ns = host.now_ns
        started_ns = now_ns()
        if entry.has_accessor:
            self.thread = threading.get_ident()
        self.is_calling = True
        try:
            result = entry.handler(self.message, *values)
            if entry.answers:
                self.result = detached(result)
        except BaseException as error:  # the edge: sys.exit() in a handler ends the handler, not the worker
            self._failed(entry, error)
        finally:
            self.is_calling = False
            if self.reached:
                self.reached.clear()  # of `with` blocks that it has not left
        if entry.may_observe:
            for lock, is_shared in self.held:
                if lock.observed is not None and not is_shared:
                    self._tell_changes(entry, lock, lock.observed)
        took_ns = now_ns() - started_ns
        entry.calls_count += 1  # no call between read and write, so no other thread interleaves
        entry.run_ns += took_ns

    def _tell_changes(self, entry: HandlerEntry, lock: Lock, datum: Observed) -> None:
        """Post the messages for its changes, while it is locked: so they are posted in the order of the changes."""
        before = taken(datum)
        if self.changed is not None:
            before |= self.changed.pop(lock, {})
        if not before:
            return
        try:
            for message in messages_of(datum, before):
                self.dispatcher._sources.tell(message)
        except Busy as error:
            given_back(datum, before)
            self._failed(entry, error)
        except BaseException as error:  # the edge: `@on_change` is user code, and so is `==` of values
            self._failed(entry, error)

    def _keep_changes(self) -> None:
        """Its data may be released for a while: set its own changes apart from those that others make then."""
        for lock, is_shared in self.held:
            if lock.observed is not None and not is_shared and (before := taken(lock.observed)):
                if self.changed is None:
                    self.changed = {}
                self.changed[lock] = before | self.changed.get(lock, {})

    def _failed(self, entry: HandlerEntry, error: BaseException, *, is_chosen: bool = True) -> None:
        """The first error goes to the caller. Each is logged, but a handler's `BackplaneError` only without a caller."""
        if isinstance(error, BackplaneError):
            told: BackplaneError = error
        else:
            data = [claim.lock.name for claim in self.held if not claim.is_shared]
            who = f"handler {entry.name}" if is_chosen else f"choosing the data of handler {entry.name}"
            told = HandlerFailed(self.name, who, error, data if is_chosen else ())
            told.__cause__ = error
        entry.failures_count += 1
        if self.peer is None or isinstance(told, HandlerFailed):
            self.dispatcher._report(self, told)
        if self.error is None:
            self.error = told

    def _let_go(self) -> None:
        handle, self.handle = self.handle, None
        if handle is None:
            return
        try:
            handle.release()
        except BaseException as error:  # the edge: the handle is user code; its message stays handled
            self.dispatcher._report(self, error)

    # -- its locks ----------------------------------------------------------------------------------------------------

    def take(self, claims: Sequence[LockClaim], gate: threading.Lock | None = None) -> bool:
        """Hold exactly `claims`. False: not yet; then the action is to be parked, or its thread waits at the closed `gate`."""
        dispatcher = self.dispatcher
        is_free, effects = False, NO_EFFECTS
        with dispatcher._mutex:
            if self.held:
                is_free, effects = locking.change(self, claims)
            elif locking.take(self, claims):  # hot: scripts/bench dispatcher_overhead
                return True
            if not is_free:
                self.waited_from_ns = dispatcher._now_ns()
                self.gate = gate
        if effects is not NO_EFFECTS:
            self.tell(effects)
        return is_free

    def wait_for(self, claims: Sequence[LockClaim]) -> None:
        """Hold exactly `claims`; blocks its thread if it has to."""
        gate = threading.Lock()
        gate.acquire()
        if self.take(claims, gate):
            return
        platform = self.dispatcher._platform
        platform.begins_to_block(self)
        gate.acquire()
        platform.blocks_no_more(self)
        self.gate = None
        self.book_wait()

    def tell(self, effects: LockEffects) -> None:
        """Resume holders that have their locks, and pass priority on for those that still wait. Without the mutex."""
        for each in cast("list[Delivery]", effects.ready):
            if not each.try_open():
                self.dispatcher._platform.resume(each)
        for each in cast("list[Delivery]", effects.moved):
            self.dispatcher._platform.hurry(each)

    def try_open(self) -> bool:
        """Unblock the thread in which it waits. False: it does not wait in a thread."""
        if self.gate is None:
            return False
        self.gate.release()
        return True

    def release(self) -> None:
        """Release all locks, at its end. New holders continue once it has ended; those that block a thread, at once."""
        with self.dispatcher._mutex:
            effects = locking.release(self)
        if effects is not NO_EFFECTS:
            ready = [each for each in effects.ready if not cast("Delivery", each).try_open()]
            self.left = LockEffects(ready, effects.moved)

    def tell_left(self) -> None:
        """Notify the others of `release`. With the lead: this thread then runs them itself; waking another costs 40 us."""
        if self.held:  # its worker stopped it in the middle
            self.release()
        left, self.left = self.left, NO_EFFECTS
        if left is not NO_EFFECTS:
            self.tell(left)

    # -- for accessors ------------------------------------------------------------------------------------------------

    def reach(self, lock: Lock, *, is_shared: bool, who: str) -> tuple[LockClaim, tuple[str, ...]]:
        if not self.is_calling or self.thread != threading.get_ident():
            raise finished(who)
        self._keep_changes()
        before = {claim.lock: claim.lock.written_count for claim in self.held}
        claim = LockClaim(lock, is_shared)
        self.reached.append(claim)
        self.wait_for(locking.ordered([*self.claims, *self.reached]))
        # Taking a lock again to write has itself counted once.
        disturbed = [
            each.name
            for each, is_read in self.held
            if each in before and each.written_count > before[each] + (not is_read)
        ]
        return claim, tuple(disturbed)

    def let_go(self, claim: LockClaim) -> None:
        at = next((at for at, each in enumerate(self.reached) if each is claim), None)
        if at is None or not self.is_calling or self.thread != threading.get_ident():
            return
        del self.reached[at]
        wanted = locking.ordered([*self.claims, *self.reached])
        lock = claim.lock
        if lock.observed is not None and self._holds(lock) and not any(each.lock is lock for each in wanted):
            assert self.entries is not None
            self._tell_changes(self.entries[self.index], lock, lock.observed)
        self.wait_for(wanted)  # it holds them: returns at once

    def _holds(self, lock: Lock) -> bool:
        return any(claim.lock is lock and not claim.is_shared for claim in self.held)

    # -- as a parkable action -----------------------------------------------------------------------------------------

    def book_wait(self) -> None:
        if self.entries is not None:
            waited_ns = self.dispatcher._now_ns() - self.waited_from_ns
            self.entries[self.index].wait_ns += waited_ns
        self.waited_from_ns = 0

    def waits_for(self) -> Sequence[Action]:
        """The holders of the lock that it waits for."""
        with self.dispatcher._mutex:
            return [] if self.waits_on is None else cast("list[Action]", self.waits_on.holders)

    def urgency_behind(self) -> int | None:
        """The most urgent priority waiting for one of its locks; None: nobody waits."""
        with self.dispatcher._mutex:
            return min((claim.lock.waiting[0][0] for claim in self.held if claim.lock.waiting), default=None)

    def waits_because(self) -> str:
        """For reports: the lock that it waits for."""
        with self.dispatcher._mutex:
            return "" if self.waits_on is None else f"the lock of {self.waits_on.name}"

    def priority_changed(self) -> None:
        """Its priority has changed: move it in the wait queue of its lock."""
        with self.dispatcher._mutex:
            effects = locking.boosted(self)
        if effects is not NO_EFFECTS:
            self.tell(effects)

    def doing(self) -> str:
        """For reports: the current handler, and the data that it has locked."""
        entries, index = self.entries, self.index  # another thread runs it: each is read once
        if entries is None or index >= len(entries):
            return ""
        with self.dispatcher._mutex:
            places = self.dispatcher._places
            locked = ", ".join(claim.lock.name for claim in self.held if claim.lock is not places)
        return f"in handler {entries[index].name}" + (f" with {locked} locked" if locked else "")
