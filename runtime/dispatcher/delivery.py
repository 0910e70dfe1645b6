"""Delivery: a message on its way through its handlers. One action, which waits for locks in the scheduler's wait queue.

For each handler (seed 003, section 3.1): what it is given is worked out from the message, the locks are taken in the order of
their rank, it is called, the locks go back. How it waits for them is in holding.py; what is here is whose turn it is, and what
becomes of what a handler has returned, raised, or changed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import BackplaneError, Busy

from ..objects.action import DONE, WAITING, Outcome
from ..objects.app_object import AppObject
from . import locking
from .accessor import finished
from .answer import detached
from .errors import HandlerFailed
from .handles import Handle
from .holding import Holding
from .locking import Claim, Lock
from .message import Message
from .observed import Observed, given_back, messages_of, taken

if TYPE_CHECKING:
    from .dispatcher import Dispatcher
    from .registration import Entry
    from .served import Served


class Delivery(Holding):
    """Made by the dispatcher (dispatcher.py)."""

    __slots__ = (
        "changed", "claims", "entries", "handle", "index", "is_calling", "kept", "message", "reached", "served", "thread",
        "values",
    )  # fmt: skip

    def __init__(
        self, lane: AppObject, priority: int, deadline_ns: int | None, dispatcher: Dispatcher, served: Served,
        message: Message | None, handle: Handle | None,
    ) -> None:  # fmt: skip
        Holding.__init__(self, lane, served.route, priority, deadline_ns, dispatcher)
        self.served = served
        #: What holds for it once its turn has come.
        self.entries: Sequence[Entry] | None = None
        #: None: the message is there already.
        self.handle = handle
        self.message = message
        #: The handler it has come to.
        self.index = 0
        #: What it holds for all its handlers.
        self.kept: Sequence[Claim] = ()
        #: What this one is given; None: not worked out yet.
        self.values: tuple[Any, ...] | None = None
        #: What its handler is registered for, what that one has reached for besides, and in which thread it runs.
        self.claims: Sequence[Claim] = ()
        self.reached: list[Claim] = []
        self.thread = 0
        self.is_calling = False
        #: What the handler has changed so far in data that it had to let go for a while: what it was before.
        self.changed: dict[Lock, dict[str, Any]] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a handler has seen it."""
        return self.index > 0

    def run(self) -> Outcome:  # hot: scripts/bench dispatcher_overhead
        """Go on: from the beginning, or with the locks it waited for."""
        assert self.waits_on is None, "resumed without what it waits for"
        if self.message is None:
            assert self.handle is not None
            if self.handle.lock is not None and not self.held:
                self.kept = self._to_keep()
                if not self.take(self.kept):
                    return WAITING
            self.waited_from_ns = 0  # no handler's
            if not self._resolve():
                return DONE
        entries = self.entries
        if entries is None:
            served = self.served
            entries = self.entries = served.entries
            # Not asked again: for a place among accessors, which comes first, the lock of its source would have to go back.
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
                except BaseException as error:  # the edge: what chooses data is a user's, and may not know the key
                    self._failed(entry, error, is_chosen=False)
                    self.index += 1
                    continue
                # What it has already it has as long as it wants: nobody takes that away, so it need not be guarded.
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
        """It is not to be handled (any more)."""
        super().refuse(error)
        try:
            if self.handle is not None:
                self._let_go()
        finally:
            self.release()

    # -- a handler's turn ---------------------------------------------------------------------------------------------

    def _to_keep(self) -> list[Claim]:
        """In ascending rank: its place among those whose handlers may wait in their threads, and the lock of its source."""
        kept = [Claim(self.dispatcher._places, True)] if self.served.has_accessor else []
        if self.handle is not None and self.handle.lock is not None:
            kept.append(Claim(self.handle.lock, False))
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
        except BaseException as error:  # the edge: a handle is a user's, and so is the key of what it gives
            self.error = error
            message = None
            if self.peer is None and isinstance(error, BackplaneError):  # all else is reported by who ran it
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
        """It has turned out to be another shard's."""
        try:
            self.dispatcher.dispatch(message, priority=self.priority)
        except BackplaneError as error:
            self.error = error
            self.dispatcher._report(self, error)
        self._let_go()
        if self.held:
            self.release()
        return False

    def _call(self, entry: Entry, values: tuple[Any, ...]) -> None:  # hot: scripts/bench dispatcher_overhead
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
                self.reached.clear()  # by blocks that it has not left
        if entry.may_observe:
            for lock, is_shared in self.held:
                if lock.observed is not None and not is_shared:
                    self._tell_changes(entry, lock, lock.observed)
        took_ns = now_ns() - started_ns
        entry.calls_count += 1  # nothing is called between reading and writing, so that no other thread comes between
        entry.run_ns += took_ns

    def _tell_changes(self, entry: Entry, lock: Lock, datum: Observed) -> None:
        """While it is locked, so that what is told of it is told in the order in which it happened."""
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
        except BaseException as error:  # the edge: `@on_change` is a user's, and so is what compares values
            self._failed(entry, error)

    def _keep_changes(self) -> None:
        """Its data may be others' for a while: what they change then is theirs."""
        for lock, is_shared in self.held:
            if lock.observed is not None and not is_shared and (before := taken(lock.observed)):
                if self.changed is None:
                    self.changed = {}
                self.changed[lock] = before | self.changed.get(lock, {})

    def _failed(self, entry: Entry, error: BaseException, *, is_chosen: bool = True) -> None:
        """The first failure is what the caller is told; each is reported."""
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
        except BaseException as error:  # the edge: a handle is a user's; what its message has done is done
            self.dispatcher._report(self, error)

    # -- for accessors ------------------------------------------------------------------------------------------------

    def reach(self, lock: Lock, *, is_shared: bool, who: str) -> tuple[Claim, tuple[str, ...]]:
        """For an accessor: hold this one, too. What `let_go` wants, and which of what it held others have changed meanwhile."""
        if not self.is_calling or self.thread != threading.get_ident():
            raise finished(who)
        self._keep_changes()
        before = {claim.lock: claim.lock.written_count for claim in self.held}
        claim = Claim(lock, is_shared)
        self.reached.append(claim)
        self.wait_for(locking.ordered([*self.claims, *self.reached]))
        # What was taken again to write has been counted once more for it.
        disturbed = [
            each.name
            for each, is_read in self.held
            if each in before and each.written_count > before[each] + (not is_read)
        ]
        return claim, tuple(disturbed)

    def let_go(self, claim: Claim) -> None:
        """For an accessor: hold it no longer, unless somebody else wants it: the handler, or another accessor. Never waits."""
        at = next((at for at, each in enumerate(self.reached) if each is claim), None)
        if at is None or not self.is_calling or self.thread != threading.get_ident():
            return
        del self.reached[at]
        wanted = locking.ordered([*self.claims, *self.reached])
        lock = claim.lock
        if lock.observed is not None and self._holds(lock) and not any(each.lock is lock for each in wanted):
            assert self.entries is not None
            self._tell_changes(self.entries[self.index], lock, lock.observed)
        self.wait_for(wanted)  # which it has

    def _holds(self, lock: Lock) -> bool:
        return any(claim.lock is lock and not claim.is_shared for claim in self.held)

    # -- as what may be parked ----------------------------------------------------------------------------------------

    def book_wait(self) -> None:
        """With the handler that it waited for."""
        if self.entries is not None:
            waited_ns = self.dispatcher._now_ns() - self.waited_from_ns
            self.entries[self.index].wait_ns += waited_ns
        self.waited_from_ns = 0

    def doing(self) -> str:
        """The handler, and the data that it keeps from others."""
        entries, index = self.entries, self.index  # of a running action: each is read once
        if entries is None or index >= len(entries):
            return ""
        with self.dispatcher._mutex:
            places = self.dispatcher._places
            locked = ", ".join(claim.lock.name for claim in self.held if claim.lock is not places)
        return f"in handler {entries[index].name}" + (f" with {locked} locked" if locked else "")
