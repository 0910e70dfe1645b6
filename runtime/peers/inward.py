"""Inward: calls that other nodes make to this system, within the routes that their keys may use.

A session (transport/session.py) makes them like calls of any client on this host: same routing table, refusals and ends. A
route that the key may not use looks unknown. Calls of a peer that is down are cancelled. The trace is passed on, so that the
work of several hosts is one trace. The chain of waiting objects (`chain`) is not: objects have the same names everywhere, and
a chain lets a call in ahead of a queue. A cycle over nodes ends by its deadline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from appbackplane.transport.addressing import OF_NODE, RESERVED
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS, WINDOW_MAX
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import FRAME_BYTES_MAX, Encoder
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import (
    ARGUMENT_ITEMS,
    BOOST,
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    FORWARD,
    Envelope,
    argument_credit,
    items,
    reply,
    status,
)
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    InvalidArgument,
    MalformedFrame,
    PeerDown,
    Unavailable,
    UnknownRoute,
)
from appbackplane.transport.events import Credited, Ended, Streamed
from appbackplane.transport.item_sender import BYTES_AHEAD_MAX
from appbackplane.transport.peers.likeness import Likeness
from appbackplane.transport.security.grants import EXPORTED
from appbackplane.transport.security.ring import Holder

from ..execution.services.monitors import NODE_WATCH
from ..observation.span_ids import traceparent_of
from ..permissions.table import is_of_host
from .outward import is_bulk_at

#: Calls that one key may have outstanding here, by all its connections together. A session is made for these and the 4,096
#: of each process's own.
OUTSTANDING_MAX: Final = 8_192
#: Bytes of the frames of these calls: all 8,192 at 8 KiB each, or four frames of the greatest length. If only the number of
#: calls were bounded, a key could make this node keep 128 GiB.
OUTSTANDING_BYTES_MAX: Final = 64 << 20
#: Bytes of items of its streamed argument that one call may have passed on without their having been read: what an honest
#: caller may run ahead (item_sender.py), and a frame of the greatest length.
UNREAD_BYTES_MAX: Final = BYTES_AHEAD_MAX + FRAME_BYTES_MAX
#: The same of all calls of one key: 256 that run ahead as far as they may. They wait in the memory of the callees.
UNREAD_OF_KEY_MAX: Final = 256 << 20
#: Routes remembered as permitted, per holder of a key.
PERMITTED_MAX: Final = 4_096
#: Longest remaining time, a week: no peer waits for longer, and a larger number does not fit the wire.
TIMEOUT_MAX_NS: Final = 7 * 24 * 3600 * 1_000_000_000


class AskedHere(NamedTuple):
    """A peer's call: the node, its incarnation, and its id of the call."""

    name: str
    incarnation: int
    id: int


class Arrival:
    """A received frame. Its whole length is charged to its key, from its first call to the end of its last.

    The calls are unpacked by then, and only packing one again would show its length.
    """

    def __init__(self, bytes: int = 0, envelopes_count: int = 1) -> None:
        self.bytes = bytes
        self.outstanding = 0
        #: Items alone in their frame are charged with its length. Those of a shared frame are packed again to learn their own:
        #: charged to one of its calls, a frame would hide the items of the others.
        self.is_shared = envelopes_count > 1


class UnreadItems:
    """The items of one call's streamed argument that were passed on, as far as it is known that they have not been read."""

    def __init__(self, window: int) -> None:
        self.bytes = 0
        self._window = window
        #: Of each envelope: the number behind its last item, and its bytes.
        self._envelopes: deque[tuple[int, int]] = deque()

    def passed(self, envelope: Envelope, bytes: int) -> None:
        """The items of an envelope were passed on, and take so many bytes."""
        self._envelopes.append((envelope.number + len(envelope.body), bytes))
        self.bytes += bytes

    def credited(self, credit: int) -> int:
        """The operation has read on: returns the bytes of what it has read."""
        before, envelopes = self.bytes, self._envelopes
        while envelopes and envelopes[0][0] <= credit - self._window:
            self.bytes -= envelopes.popleft()[1]
        return before - self.bytes


class _Usage:
    """Calls, bytes of their frames, and bytes of unread items that one key holds here."""

    def __init__(self) -> None:
        self.calls = self.bytes = self.unread = 0


class HeldCall(NamedTuple):
    """An outstanding call: its id in the session, the line of its answer, the holder of its key, its frame, and the items of
    its streamed argument; None: it has none.
    """

    id: int
    is_bulk: bool
    holder: str
    arrival: Arrival
    unread: UnreadItems | None


#: What is wrong with calls that await operands, and with operands (transport/dataflow.py), from another host.
_CARRIED: Final = "operands do not travel between hosts: their caller carries them"


class System(Protocol):
    """The part of `ClientSession` (transport/session.py) that inward calls use."""

    directory: Directory | None

    def call(self, token: object, spec: CallSpec, now_ns: int) -> int: ...
    def cast(self, spec: CallSpec, now_ns: int) -> None: ...
    def cancel(self, id: int) -> None: ...
    def boost(self, id: int, priority: int) -> None: ...

    def give_credit(self, id: int, items: int) -> bool:
        """Let the callee of a stream have sent this many items in all."""

    def pass_items(self, id: int, envelope: Envelope) -> None:
        """Send items of a streamed argument to the callee. Raises a `BackplaneError`."""


class Inward:
    """Calls of other nodes outstanding here."""

    def __init__(
        self, session: System, say: Callable[[str, Envelope, bool], bool], believed: Collection[str] = ()
    ) -> None:
        """`say`: sends an answer to a node, by its name, as bulk or not; False: it was replaced, or lost (answers.py).
        `believed`: names of the keys whose nodes say on whose behalf they call.
        """
        self._believed = frozenset(believed)
        self._session = session
        self._say = say
        self._likeness = Likeness()
        self._encoder = Encoder(has_signals=False)
        self._held: dict[AskedHere, HeldCall] = {}
        self._counts: dict[str, int] = {}
        #: By the key's holder, which may be connected several times, as a node and as clients.
        self._usage: dict[str, _Usage] = {}
        self._directory: Directory | None = None
        self._exported: frozenset[str] = frozenset()
        self._bulk: frozenset[str] = frozenset()
        #: Routes exported before, and not now: a caller that has not been told yet may find them elsewhere.
        self._withdrawn: frozenset[str] = frozenset()
        #: Valid for this routing table: by holder's name, the holder and its permitted routes.
        self._permitted: dict[str, tuple[Holder, set[str]]] = {}
        #: Refused casts; no caller waits to be told.
        self.refused_casts_count = 0
        #: Calls under an id that was outstanding already: dropped, as one id has one end.
        self.repeated_count = 0

    def __len__(self) -> int:
        return len(self._held)

    def count_of(self, name: str) -> int:
        """Calls that a node has outstanding here."""
        return self._counts.get(name, 0)

    def take(
        self,
        name: str,
        incarnation: int,
        holder: Holder,
        envelope: Envelope,
        now_ns: int,
        arrival: Arrival | None = None,
    ) -> None:
        """Handle an envelope of a node, under a key of `holder`. `arrival`: the frame that it came in; None: of no length."""
        kind = envelope.kind
        directory = self._session.directory
        if envelope.route is not None and OF_NODE in envelope.route and directory is not None:
            # A remote client names this node, as addresses do; the routes of this system bear no name.
            envelope.route = envelope.route.removeprefix(f"{directory.home}{OF_NODE}")
        asked = AskedHere(name, incarnation, envelope.id)
        if kind == CALL:
            if asked in self._held:
                self.repeated_count += 1
                return
            try:
                self._begin(asked, holder, envelope, now_ns, arrival or Arrival())
            except BackplaneError as error:
                self._say(name, status(envelope.id, error, is_refused=True), self._is_bulk(envelope))
        elif kind == CAST:
            try:
                self._check(holder, envelope.route or "", now_ns, is_cast=True)
                self._session.cast(self._spec_of(envelope, 0, holder), now_ns)
            except BackplaneError:
                self.refused_casts_count += 1
        elif kind >= FORWARD:
            raise MalformedFrame(_CARRIED)
        elif kind == CANCEL or kind == BOOST or kind == CREDIT or kind == ARGUMENT_ITEMS:
            held = self._held.get(asked)
            if held is None:
                return
            if kind == CANCEL:
                self._session.cancel(held.id)
            elif kind == CREDIT:
                self._session.give_credit(held.id, envelope.body)
            elif kind == ARGUMENT_ITEMS:
                try:
                    self._pass_items(held, envelope, arrival or Arrival())
                except BackplaneError as error:
                    self.ended(Ended(asked, None, error))
                    self._session.cancel(held.id)
            elif envelope.priority is not None and envelope.priority >= 0:  # from there on as on one host (law 10)
                self._session.boost(held.id, envelope.priority)

    def ended(self, ended: Ended) -> None:
        """A call has ended: answer the node that made it."""
        asked: AskedHere = ended.token
        held = self._held.pop(asked, None)
        if held is None:
            return
        self._counts[asked.name] -= 1
        self._release(held)
        error = ended.error
        if error is None:
            said = reply(asked.id, ended.result)
        else:  # set by the callee or by the session itself, never taken from an error that the work has met
            said = status(asked.id, error, is_refused=error.is_refused)
        self._say(asked.name, said, held.is_bulk)

    def streamed(self, streamed: Streamed) -> None:
        """Items of a stream have come: pass them on to the node that reads it."""
        asked: AskedHere = streamed.token
        held = self._held.get(asked)
        if held is not None:
            said = items(asked.id, streamed.items, streamed.number, is_blocked=streamed.is_blocked)
            if not self._say(asked.name, said, held.is_bulk):
                self._session.cancel(held.id)  # a status was sent in their place, or nothing can be

    def credited(self, credited: Credited) -> None:
        """The operation of a call reads its streamed argument: let the node that made the call send more."""
        asked: AskedHere = credited.token
        held = self._held.get(asked)
        if held is None or held.unread is None:
            return
        self._usage[held.holder].unread -= held.unread.credited(credited.credit)
        if not self._say(asked.name, argument_credit(asked.id, credited.credit), held.is_bulk):
            self._session.cancel(held.id)  # as in `streamed`

    def leave(self) -> None:
        """This node leaves: cancel all calls. The nodes that know of it have ended these calls themselves."""
        for held in self._held.values():
            self._session.cancel(held.id)
        self._held.clear()
        self._counts.clear()
        self._usage.clear()

    def down(self, name: str) -> None:
        """A node is gone: cancel its calls, whose answers nobody awaits."""
        for asked, held in [*self._held.items()]:
            if asked.name == name:
                del self._held[asked]
                self._release(held)
                self._session.cancel(held.id)
                # If it is alive after all, because only one of the two gave the other up, it must not wait in vain.
                self._say(
                    name, status(asked.id, PeerDown(f"{name!r} was given up by the node that it asked")), held.is_bulk
                )
        self._counts.pop(name, None)

    def _begin(self, asked: AskedHere, holder: Holder, envelope: Envelope, now_ns: int, arrival: Arrival) -> None:
        route = envelope.route or ""
        self._check(holder, route, now_ns)
        if envelope.awaits is not None:
            raise InvalidArgument(f"{route}: {_CARRIED}")
        usage = self._usage.get(holder.name) or _Usage()
        if usage.calls >= OUTSTANDING_MAX:
            raise Busy(
                f"{route}: {OUTSTANDING_MAX:,} calls of the key of {holder.name!r} are outstanding", retry_after=0.1
            )
        charge = 0 if arrival.outstanding else arrival.bytes
        if usage.bytes + charge > OUTSTANDING_BYTES_MAX:
            raise Busy(
                f"{route}: {OUTSTANDING_BYTES_MAX >> 20} MiB of calls of the key of {holder.name!r} are outstanding",
                retry_after=0.1,
            )
        left_ns = TIMEOUT_DEFAULT_NS if envelope.deadline is None else min(max(0, envelope.deadline), TIMEOUT_MAX_NS)
        id = self._session.call(asked, self._spec_of(envelope, now_ns + left_ns, holder), now_ns)
        unread: UnreadItems | None = None
        if envelope.streamed is not None:
            window = envelope.body.get(envelope.streamed)
            unread = UnreadItems(
                window if type(window) is int else 0
            )  # if it is no number, the callee refuses the call
        self._held[asked] = HeldCall(id, self._is_bulk(envelope), holder.name, arrival, unread)
        self._counts[asked.name] = self._counts.get(asked.name, 0) + 1
        self._usage[holder.name] = usage
        arrival.outstanding += 1
        usage.calls += 1
        usage.bytes += charge

    def _pass_items(self, held: HeldCall, envelope: Envelope, arrival: Arrival) -> None:
        """Pass items on to the callee, in whose memory they wait. Raises `Busy` if its caller does not keep to the bounds, and
        `InvalidArgument` for items that cannot be packed again.
        """
        usage, unread = self._usage[held.holder], held.unread
        if unread is None:
            return
        size = len(self._encoder.pack(envelope.body)) if arrival.is_shared else arrival.bytes
        if unread.bytes + size > UNREAD_BYTES_MAX or usage.unread + size > UNREAD_OF_KEY_MAX:
            raise Busy(f"too many items of the key of {held.holder!r} have not been read", retry_after=0.1)
        unread.passed(envelope, size)
        usage.unread += size
        self._session.pass_items(held.id, envelope)

    def _release(self, held: HeldCall) -> None:
        arrival, usage = held.arrival, self._usage[held.holder]
        arrival.outstanding -= 1
        usage.calls -= 1
        if held.unread is not None:
            usage.unread -= held.unread.bytes
        if not arrival.outstanding:
            usage.bytes -= arrival.bytes
        if not usage.calls:
            del self._usage[held.holder]

    def _is_bulk(self, envelope: Envelope) -> bool:
        return is_bulk_at(envelope.priority, may_wait=envelope.route in self._bulk)

    def _check(self, holder: Holder, route: str, now_ns: int, *, is_cast: bool = False) -> None:
        directory = self._session.directory
        if directory is not self._directory:
            exported = frozenset(() if directory is None else directory.exported)
            self._withdrawn = (self._withdrawn | self._exported) - exported
            self._directory, self._exported = directory, exported
            self._bulk = frozenset(() if directory is None else directory.bulk)
            self._permitted.clear()
        if directory is None:
            raise Unavailable("this node has not received its system's directory yet", retry_after=0.25)
        known = self._permitted.get(holder.name)
        if known is None or known[0] is not holder:
            known = self._permitted[holder.name] = holder, set()
        if route in known[1]:
            return
        # Routes of this system only: a call for a third node is not passed on under this node's key.
        is_here = route in directory.routes or (OF_NODE not in route and route.partition(".")[0] in RESERVED)
        is_exported = route in self._exported or route == NODE_WATCH  # which is offered to nobody, and open to all
        if is_here and holder.routes.permits(route, is_exported=is_exported):
            if len(known[1]) < PERMITTED_MAX:
                known[1].add(route)
        elif route in self._withdrawn and holder.routes.permits(route, is_exported=True):
            raise Unavailable(f"{route!r} is not served by this node any more", retry_after=0.25)
        elif directory.missing and not is_here and OF_NODE not in route:
            raise Unavailable("this node has not received its system's whole directory yet", retry_after=0.25)
        else:
            is_told = EXPORTED in holder.routes.patterns and not is_cast
            raise UnknownRoute(route, self._likeness.nearest(route, self._exported, now_ns) if is_told else None)

    def _spec_of(self, envelope: Envelope, ends_ns: int, holder: Holder) -> CallSpec:
        """The request of another node. Its principal is believed if `[permissions] nodes` names its key; else the node calls
        for itself. A principal that is about the other host, such as its clients, is none here.
        """
        principal = envelope.principal if holder.name in self._believed else None
        return CallSpec(
            envelope.route or "",
            envelope.body,
            key=envelope.key,
            priority=envelope.priority,
            ends_ns=ends_ns,
            trace=traceparent_of(envelope.trace),
            idempotency_key=envelope.idempotency_key,
            source=f"node:{holder.user_id}",
            principal=None if principal is None or is_of_host(principal) else principal,
            window=None if envelope.window is None else min(envelope.window, WINDOW_MAX),
            streamed=envelope.streamed,
        )
