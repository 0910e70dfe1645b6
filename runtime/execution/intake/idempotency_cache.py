"""Idempotency cache: the work of calls with one key is done once, and each of them gets its reply.

A key belongs to one route and object. The first call runs. A call that comes meanwhile waits for the same end, and lends the
work its priority. A later call gets the recorded reply, or the error in which the work ended for good. An error that means
"not now" is not recorded: the next call does the work. Once begun, the work runs to its end, though its caller may go or its
deadline pass, or a repeated call would find it half done. Kept in this process's memory only: after a restart, or beyond the
bounds (`ReplayPolicy`), the work is done again (docs/concepts/retries.md).
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import msgpack

from appbackplane.transport.call_checks import check_idempotency_key
from appbackplane.transport.envelope import Envelope, status
from appbackplane.transport.errors import BackplaneError, Busy, InvalidArgument, Status, Unavailable

from ...objects.action import DONE, AcceptedCalls, Action, Outcome, own_priority
from ...process_config import ReplayPolicy
from ..actions.failures import as_error
from ..actions.method_action import MethodAction
from ..outgoing.call_cycles import check_return
from ..outgoing.sender import Sender
from ..workers.clock import Clock

#: Calls that may wait for the end of one. A caller that repeats a call has one outstanding, and cancels it by its deadline.
WAITERS_MAX: Final = 256
#: Statuses that mean "not now": they are not final, so the next call does the work.
NOT_NOW: Final = frozenset(
    (Status.UNAVAILABLE, Status.RESOURCE_EXHAUSTED, Status.PEER_DOWN, Status.DEADLINE_EXCEEDED, Status.CANCELLED)
)
#: Bytes of a record besides its key and its reply: measured, dictionary entries included.
RECORD_BYTES: Final = 600

Scope = tuple[str, str | None, str]


class KeyedAction(MethodAction):
    """The work of a call with an idempotency key."""

    __slots__ = ()

    def run(self) -> Outcome:
        """Run. Work that has begun loses its deadline, so that it completes and its end can be told to repeated calls."""
        outcome = super().run()
        if outcome is not DONE:
            self.deadline_ns = None
        return outcome


class KeyWaiter(NamedTuple):
    """A call that waits for the work of an earlier one."""

    priority: int
    #: Monotonic ns; None: never too late.
    deadline_ns: int | None
    #: When it came; the newest call of a ring is the one that is refused (ring_detector.py).
    since_ns: int


class IdempotencyRecord:
    """One key: the calls that wait while its work runs, and how the work ended."""

    __slots__ = ("action", "digest", "ended_ns", "packed", "scope", "waiters")

    def __init__(self, scope: Scope, digest: bytes, action: Action) -> None:
        self.scope = scope
        #: The work; None: it has ended.
        self.action: Action | None = action
        #: Digest of the arguments.
        self.digest = digest
        #: Waiting calls by (peer, context id); without the call whose work it is.
        self.waiters: dict[tuple[bytes, int], KeyWaiter] = {}
        #: The reply or status, packed under an id that no call has.
        self.packed = b""
        self.ended_ns = 0


class IdempotencyCache:
    """The idempotency cache. Used under the lead."""

    def __init__(
        self, policy: ReplayPolicy, *, clock: Clock, sender: Sender, accepted: AcceptedCalls, is_debug: bool
    ) -> None:
        self._clock = clock
        self._sender = sender
        self._accepted = accepted
        self._is_debug = is_debug
        #: Its bounds.
        self.policy = policy
        #: Work under way; usually none, which is all that a call without a key checks.
        self.running: dict[Action, IdempotencyRecord] = {}
        self._of: dict[Scope, IdempotencyRecord] = {}
        #: Records of ended work, oldest first, and their bytes.
        self._ended: dict[Scope, IdempotencyRecord] = {}
        self._bytes = 0
        #: Calls that got the reply of another call's work; and replies dropped before their time.
        self.replayed_count = self.forgotten_count = 0

    def find(self, envelope: Envelope, digest: bytes, now_ns: int) -> IdempotencyRecord | None:
        """The record of a call's key; None: this is the first call with it. Raises `InvalidArgument` if the key was used with
        other arguments, `FailedPrecondition` if the work waits for this call, `Busy` at WAITERS_MAX.

        `digest`: of the call's arguments (`digest_of`).
        """
        route, key = envelope.route, envelope.idempotency_key
        assert route is not None and key is not None
        check_idempotency_key(route, key)
        self._forget(now_ns)
        record = self._of.get((route, envelope.key, key))
        if record is None:
            return None
        if record.digest != digest:
            raise InvalidArgument(f"{route}: idempotency_key {key!r} was used with other arguments: take a new one")
        action = record.action
        if action is None:
            return record
        if envelope.chain:
            check_return(action, envelope.chain, is_reentrant=action.continues and not action.has_begun, key=key)
        if len(record.waiters) >= WAITERS_MAX:
            raise Busy(f"{route}: {WAITERS_MAX} calls wait for the one with idempotency_key {key!r}", retry_after=0.1)
        return record

    def join(
        self, record: IdempotencyRecord, peer: bytes, id: int, priority: int, deadline_ns: int | None, now_ns: int
    ) -> Action | None:
        """Give a call the recorded reply, or let it wait for the work. Returns that work, which is to inherit its priority."""
        action = record.action
        if action is None:
            self.replayed_count += 1
            self._sender.answer(peer, id, record.packed, now_ns)
            return None
        record.waiters[peer, id] = KeyWaiter(priority, deadline_ns, self._clock.now_ns())
        self._accepted[peer, id] = action
        return action

    def urgency_behind(self, action: Action) -> int | None:
        """The most urgent priority of the calls that wait for `action` beside its own; None: no call waits."""
        record = self.running.get(action)
        return None if record is None else min((one.priority for one in record.waiters.values()), default=None)

    def began(self, action: Action, envelope: Envelope, digest: bytes) -> None:
        """The work of a call with a key has been admitted. Never raises: the action is counted already."""
        route, key = envelope.route, envelope.idempotency_key
        assert route is not None and key is not None
        scope = (route, envelope.key, key)
        self.running[action] = self._of[scope] = IdempotencyRecord(scope, digest, action)

    def ended(self, action: Action, now_ns: int) -> None:
        """An action has ended: record its end, and answer the calls that wait for it."""
        record = self.running.pop(action, None)
        if record is None:
            return
        del self._of[record.scope]
        has_begun = action.account is not None
        told = None if action.error is None else as_error(action, action.error, is_debug=self._is_debug)
        if not has_begun and told is not None:
            why = f"{action.name}: the first call with this key ended before it began: {told.message}"
            again = Unavailable(why, retry_after=told.retry_after or 0.0)
            packed = self._sender.encoder.encode(status(0, again, is_refused=True))
        else:
            packed = self._pack(action, told)
        waiters, record.action, record.waiters = record.waiters, None, {}
        for peer, id in waiters:
            self._accepted.pop((peer, id), None)
            self.replayed_count += 1
            self._sender.answer(peer, id, packed, now_ns)
        if has_begun and (told is None or told.status not in NOT_NOW):
            record.packed, record.ended_ns = packed, now_ns
            self._of[record.scope] = self._ended[record.scope] = record
            self._bytes += _size(record)
            self._forget(now_ns)

    def taken_back(self, action: Action, peer: bytes, id: int) -> bool:
        """A caller of an action has cancelled its call, or is gone. True: the work goes on all the same, and may fall back to a
        lower priority.
        """
        record = self.running.get(action)
        if record is None:
            return False
        if record.waiters.pop((peer, id), None) is None:
            if record.waiters:  # the work now belongs to the next call
                action.peer, action.call_id = following = next(iter(record.waiters))
                waiter = record.waiters.pop(following)
                action.priority_boosted = waiter.priority
                action.priority_own = own_priority(action)
                if action.account is None:  # not begun: it may be begun as long as the next call waits
                    action.deadline_ns = waiter.deadline_ns
            elif action.account is None:
                return False
            else:
                action.peer = None
                action.priority_boosted = -1
                action.priority_own = max(action.priority_own, own_priority(action))
        self._accepted.pop((peer, id), None)
        return True

    def reprioritised(self, action: Action, peer: bytes, id: int, priority: int) -> bool:
        """Note the new priority of a call that waits for the work of another call. False: there is no such call."""
        record = self.running.get(action)
        waiter = None if record is None else record.waiters.get((peer, id))
        if record is None or waiter is None:
            return False
        record.waiters[peer, id] = waiter._replace(priority=priority)
        return True

    def refuse_waiter(self, action: Action, peer: bytes, id: int, error: BackplaneError, now_ns: int) -> None:
        """End one call that waits for the work of another; the work goes on, and may fall back to a lower priority."""
        del self.running[action].waiters[peer, id]
        self._accepted.pop((peer, id), None)
        self._sender.say(peer, status(id, error), now_ns)

    def figures(self) -> dict[str, int]:
        """Counts and bytes, for the statistics."""
        return {
            "kept": len(self._ended), "bytes": self._bytes, "replayed": self.replayed_count,
            "forgotten": self.forgotten_count,
        }  # fmt: skip

    # -- steps --------------------------------------------------------------------------------------------------------

    def _forget(self, now_ns: int) -> None:
        """Drop records that are too old, and the oldest beyond the bounds of number and bytes."""
        while self._ended:
            record = next(iter(self._ended.values()))
            is_over = len(self._ended) > self.policy.count or self._bytes > self.policy.size
            if now_ns - record.ended_ns >= self.policy.keep_ns:
                is_over = False
            elif not is_over:
                return
            del self._ended[record.scope], self._of[record.scope]
            self._bytes -= _size(record)
            self.forgotten_count += is_over

    def _pack(self, action: Action, told: BackplaneError | None) -> bytes:
        encoder = self._sender.encoder
        if told is None:
            try:
                return encoder.reply(0, action.result)
            except BackplaneError as problem:
                told = problem
        return encoder.encode(status(0, told))


def digest_of(route: str, arguments: Any) -> bytes:
    """Digest of a call's arguments, the same in any order of their names. Raises `InvalidArgument` for very deep ones."""
    try:
        packed: bytes = msgpack.packb(_ordered(arguments))
    except (ValueError, RecursionError) as error:  # a map takes two of msgpack's 511 levels here
        raise InvalidArgument(
            f"{route}: with an idempotency_key, arguments may have some 200 levels of lists and maps: send them flatter"
        ) from error
    return hashlib.blake2b(packed, digest_size=16).digest()


def _ordered(value: Any) -> Any:
    if type(value) is dict:
        pairs = [(msgpack.packb(key), _ordered(each)) for key, each in value.items()]
        return [[True], *sorted(pairs, key=lambda pair: pair[0])]
    if type(value) is list:
        return [[False], *[_ordered(each) for each in value]]
    return value


def _size(record: IdempotencyRecord) -> int:
    return RECORD_BYTES + len(record.packed) + len(record.scope[2])
