"""Endpoint: the thread of a node that carries everything between this system and others.

Three things wake it: its sockets (transport/peers/lines.py), the session by which it calls into its own system, and messages
of local processes for other nodes. The backplane's workers hand these over (`ask`). Each iteration takes in the input, lets
membership decide on effects, and sends the gathered output: one frame a peer, one batch of replies to the workers. A frame
between nodes is a batch of envelopes, as everywhere (transport/codec.py); membership messages are casts of the route
`peers.say`. One thread, however many peers.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from appbackplane.transport import codec
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.envelope import (
    ARGUMENT_CREDIT,
    CALL,
    CAST,
    ITEMS,
    PUBLISH,
    REPLY,
    STATUS,
    Envelope,
    cast,
    status,
)
from appbackplane.transport.errors import BackplaneError, Busy, MalformedFrame, Unavailable
from appbackplane.transport.events import Credited, Ended, Streamed
from appbackplane.transport.foreign_frames import decode
from appbackplane.transport.local_links import LocalLink
from appbackplane.transport.peers import effects as fx
from appbackplane.transport.peers.lines import SWEEP_NS, Came, Lines, PeerConnected
from appbackplane.transport.peers.messages import body_of, message_from
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.peer import Peer
from appbackplane.transport.salvage import salvage
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.session import ClientSession

from ..execution.intake.caller_liveness import PROBE_NS
from ..execution.logs.async_log import last_words
from ..execution.loop.worker_loop import EXIT_BUG
from .allowance import Allowance
from .answers import Answers, Packed
from .breaks import BROKEN, Breaks
from .clients import Clients
from .hearers import Hearers
from .inward import Arrival, AskedHere, Inward
from .outward import Outward
from .paced_log import PacedLog, log_effect
from .roster import Roster
from .topics import Topics

#: Route of membership messages.
SAY: Final = "peers.say"
#: How long this system's routing table may take to come, each time it is requested.
START_LIMIT_NS: Final = 5_000_000_000
#: Input of other nodes is processed for so long, before everything else has its turn again.
TURN_MAX_NS: Final = 2_000_000
#: Frames of this system received at a time: each a batch, or a reply of 16 MB, of which 64 took two seconds of silence.
FRAMES_MAX: Final = 2
#: Reason for ending the calls on a peer that has sent `BROKEN`.
HOW_BROKEN: Final = "its line to this node broke"
#: Messages queued for the endpoint: the outstanding calls of two processes, and 80 ms of its work. Cancellations have as much
#: room again.
ASKED_MAX: Final = 8_192
#: When callers of a node that leaves may retry: it is restarted in less.
LEFT_RETRY_S: Final = 0.25
#: Cores of this process: how much a node can do at a time.
CORES: Final = len(os.sched_getaffinity(0))
#: Making rows for observers takes one part in so many of the thread's time at most: 1.5 ms for 63 peers, with each change.
ROWS_SHARE: Final = 50
#: Token of the request for this system's routing table.
_DIRECTORY: Final = "directory"
#: A peer or client whose queue was full is offered its frames again after this.
STALLED_RETRY_NS: Final = 2_000_000

log = logging.getLogger("appbackplane.peers")


class NodeEndpoint:
    """All traffic of one node. The component makes and closes it; the rest belongs to its own thread."""

    def __init__(
        self,
        node: PeerNode,
        lines: Lines,
        link: LocalLink,
        session: ClientSession,
        seeds: Mapping[str, str],
        *,
        now_ns: Callable[[], int],
        deliver: Callable[[Packed], None],
        look_for: Callable[[Iterable[bytes]], None],
        patterns: Callable[[], frozenset[str]],
        believed: Collection[str] = (),
    ) -> None:
        """`seeds`: the first addresses, each with the name of the key there. `deliver`: has the backplane send packed replies
        to peers of its own link. `look_for`: has it check whether they still exist; it reports the others by `gone`.
        `patterns`: the topics to which clients have subscribed at that backplane. `believed`: as in inward.py.
        """
        self.node = node
        self._lines, self._link, self._session = lines, link, session
        self._now_ns, self._look_for = now_ns, look_for
        self._breaks = Breaks()
        visitors = lines.visitors
        self._answers = Answers(self._address_of, lines, self._breaks, deliver=deliver, say_to_client=visitors.say)
        self._outward = Outward(node, random.getrandbits(40), self._say, self._answers.to_process, self._stands_to)
        self._inward = Inward(session, self._answers.to_node, believed)
        self._topics = Topics(
            node, session, hearers=Hearers(visitors.holder, visitors.tell), patterns=patterns, holder_of=lines.holder,
            say=lambda address, packed, is_bulk: lines.say(address, packed, is_bulk=is_bulk),
        )  # fmt: skip
        self._clients = Clients(session, self._inward, self._topics, self._answers.to_client)
        #: Any thread may read its rows.
        self.roster = Roster(node, seeds, now_ns())
        self._look_ns = self._clients_ns = self._probe_ns = 0
        #: When membership's `tick` is due, updated after each event: a query costs 0.2 us a connection.
        self._tick_ns = node.next_ns()
        #: When full queues are offered their frames again.
        self._retry_ns = 0
        #: Whether observers are owed new rows, and the earliest time for these.
        self._is_noted, self._rows_ns = False, 0
        #: The key ring by which names were checked last.
        self._ring = lines.ring
        self._encoder = codec.Encoder()
        self._asked: deque[tuple[bytes, Envelope]] = deque()
        #: Processes of this system that have died.
        self._gone: deque[bytes] = deque()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_woken = self._is_stopping = False
        self._exports: object = None
        self._log = PacedLog(log, now_ns)
        self._allowance = Allowance()
        #: Keys as text, by their bytes.
        self._keys: dict[bytes, str] = {}
        self._runs = threading.Thread(target=self._run, name="peers", daemon=True)

    def start(self) -> None:
        """Start the thread, and return at once."""
        self._runs.start()

    def ask(self, peer: bytes, envelope: Envelope, _now_ns: int) -> None:
        """Queue a local process's message for another node. Called by workers. Raises `Busy` if too many are queued."""
        asked = self._asked
        if len(asked) >= ASKED_MAX:
            if envelope.kind == CALL or envelope.kind == CAST:
                raise Busy(f"{envelope.route}: {ASKED_MAX:,} messages wait for this node's endpoint", retry_after=0.05)
            if len(asked) >= 2 * ASKED_MAX:
                if envelope.kind == PUBLISH:
                    self._topics.drop(envelope.route or "")
                return  # further cancellations are dropped: those calls end by their deadlines
        asked.append((peer, envelope))
        self._wake()

    def gone(self, peer: bytes) -> None:
        """A local process cannot be reached any more. Called by workers."""
        self._gone.append(peer)
        self._wake()

    def stop(self, timeout_s: float) -> None:
        """Leave gracefully, and wait up to `timeout_s` for the thread to end. From any thread."""
        self._is_stopping = True
        self._wake()
        self._runs.join(timeout_s)
        if not self._runs.is_alive():
            os.close(self._wake_fd)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        poll = select.poll()
        for fd in (self._wake_fd, self._lines.fileno(), self._link.fileno()):
            poll.register(fd, select.POLLIN)
        self._session.start(_DIRECTORY, self._now_ns(), START_LIMIT_NS)
        try:
            while not self._is_stopping:
                pause_ns = self._turn(self._now_ns())
                for fd, _ in poll.poll(-(-pause_ns // 1_000_000)):
                    if fd == self._wake_fd:
                        os.eventfd_read(fd)
                        self._is_woken = False
            self._leave(self._now_ns())
        except BaseException:
            log.critical("the node's endpoint failed: this is a bug of the runtime", exc_info=True)
            last_words()
            os._exit(EXIT_BUG)
        finally:
            self._lines.close()
            self._link.close()

    def _turn(self, now_ns: int) -> int:
        """One iteration of the event loop. Returns for how long there is nothing to do, ns."""
        node, asked = self.node, self._asked
        for event in self._lines.turn(now_ns):
            if isinstance(event, Came):
                self._came(event, now_ns)
                if self._now_ns() - now_ns >= TURN_MAX_NS:
                    break  # the clock, this system and other peers come first
            elif isinstance(event, PeerConnected):
                self._stands(event.address)
                self._carry_out(node.connected(event.address, now_ns))
            else:
                self._broke(event.address, event.because)
                self._carry_out(node.lost(event.address, event.because, now_ns))
        end_ns = self._now_ns() + TURN_MAX_NS
        while asked and self._now_ns() < end_ns:
            peer, envelope = asked.popleft()
            if envelope.kind == PUBLISH:
                self._topics.published(envelope)
            else:
                self._outward.take(peer, envelope, now_ns)
        while self._gone:
            self._outward.gone(self._gone.popleft())
        if now_ns >= self._probe_ns and self._outward:
            self._probe_ns = now_ns + PROBE_NS
            self._look_for(self._outward.callers())
        events = self._session.turn(now_ns, FRAMES_MAX)
        for ended in events:
            if isinstance(ended, Streamed):
                self._inward.streamed(ended)
            elif isinstance(ended, Credited):
                self._inward.credited(ended)
            elif isinstance(ended, Ended) and isinstance(ended.token, AskedHere):
                self._inward.ended(ended)
            elif isinstance(ended, Ended) and ended.token is _DIRECTORY and ended.error is not None:
                self._log.warn(f"the directory of this system was not received: {ended.error}")
                self._session.start(_DIRECTORY, now_ns, START_LIMIT_NS)
        events.clear()
        is_look = now_ns >= self._look_ns
        if is_look or self._session.directory is not self._exports:
            self._export()
        if now_ns >= self._tick_ns:
            self._carry_out(node.tick(now_ns))
        self._outward.expire(now_ns)
        if now_ns >= self._clients_ns:
            self._clients_ns = now_ns + SWEEP_NS
            self._clients.gone(self._lines.visitors.gone())
            self._clients.look(self._lines.visitors.holder)
        for name in self._breaks.due(now_ns):
            self._outward.down(name, HOW_BROKEN)
        if is_look:
            self._look_ns = now_ns + node.membership.policy.heartbeat_ns
            node.load(self._load())
            if self._lines.ring is not self._ring:
                self._ring = self._lines.ring
                self._carry_out(node.recheck(now_ns))
        if (is_look or self._is_noted) and now_ns >= self._rows_ns:
            self._is_noted, began_ns = False, self._now_ns()
            self.roster.look(
                self._outward.count_on, self._inward.count_of, self._clients.connected(self._lines.visitors)
            )
            self._rows_ns = now_ns + ROWS_SHARE * (self._now_ns() - began_ns)
        is_retry = now_ns >= self._retry_ns
        is_stalled = self._lines.flush(self._now_ns(), with_stalled=is_retry)
        if is_stalled and is_retry:
            self._retry_ns = now_ns + STALLED_RETRY_NS
        self._answers.deliver()
        if asked or self._lines.has_more or self._session.has_more or self._link.has_input():
            return 0
        wake_ns = min(self._tick_ns, now_ns + (STALLED_RETRY_NS if is_stalled else SWEEP_NS))
        for ns in (
            self._rows_ns if self._is_noted else None,
            self._session.next_wake_ns(now_ns),
            self._outward.next_ns(),
        ):
            wake_ns = wake_ns if ns is None else min(ns, wake_ns)
        return max(0, wake_ns - self._now_ns())  # not from before this turn, which may have taken long

    def _leave(self, now_ns: int) -> None:
        """End all calls: local callers get errors, other nodes learn it by the farewell."""
        while self._asked:
            peer, envelope = self._asked.popleft()
            if envelope.kind == CALL:
                error = Unavailable(f"{envelope.route}: this node is leaving", retry_after=LEFT_RETRY_S)
                self._answers.to_process(peer, status(envelope.id, error, is_refused=True))
        self._outward.leave()
        self._answers.deliver()
        self._carry_out(self.node.leave(now_ns))
        self._inward.leave()
        self._session.turn(now_ns)

    def _came(self, came: Came, now_ns: int) -> None:
        holder = came.holder
        who = f"a client of {holder.name!r}" if came.client else f"node {holder.name!r}"
        try:
            envelopes = decode(came.frame)
        except MalformedFrame as error:
            self._log.warn(f"malformed frame from {who}", error.message)
            if not (came.client or self._met(holder)):
                return
            envelopes, refusals = salvage(came.frame, decode)
            for refusal in refusals:
                self._answers.to_node(came.client or holder.name, refusal, False)
        arrival = Arrival(len(came.frame), len(envelopes))
        for envelope in envelopes:
            try:
                if came.client:
                    self._clients.take(came.client, holder, envelope, now_ns, arrival)
                else:
                    self._hear(came, envelope, now_ns, arrival)
            except BackplaneError as error:  # for this one alone: the rest of the frame may be in order
                self._log.warn(f"malformed message from {who}", error.message)

    def _hear(self, came: Came, envelope: Envelope, now_ns: int, arrival: Arrival) -> None:
        holder, kind, route = came.holder, envelope.kind, envelope.route
        if kind == CAST and route == SAY:
            if self._allowance.takes(holder.key.raw, envelope.body, len(came.frame), now_ns):
                self._carry_out(self.node.received(self._key_of(holder), message_from(envelope.body), now_ns))
            else:
                self._log.warn(
                    f"node {holder.name!r} exceeds its allowance of membership messages: the rest is dropped"
                )
            return
        peer = self._met(holder)
        if peer is None:
            return  # not met yet, or no more: its calls end there, as its peer is down
        if kind == CAST and route == BROKEN:
            if self._breaks.heard(peer.name, now_ns):
                self._outward.down(peer.name, HOW_BROKEN)
        elif kind == REPLY or kind == STATUS:
            self._outward.answered(peer.name, envelope)
        elif kind == ITEMS or kind == ARGUMENT_CREDIT:
            self._outward.came(peer.name, envelope)
        elif kind == PUBLISH:
            self._topics.came(peer.name, peer.incarnation, holder, envelope)
        else:
            self._inward.take(peer.name, peer.incarnation, holder, envelope, now_ns, arrival)

    def _met(self, holder: Holder) -> Peer | None:
        peer = self.node.view.get(holder.name)
        return peer if peer is not None and peer.key == self._key_of(holder) else None

    def _key_of(self, holder: Holder) -> str:
        raw = holder.key.raw
        key = self._keys.get(raw)
        if key is None:
            key = self._keys[raw] = str(holder.key)
        return key

    def _stands(self, address: str) -> None:
        """A connection is established. If the one before broke, replies may be lost: have the peer end its calls, too."""
        if self._breaks.stands(address):
            if (peer := self.node.view.at(address)) is not None:
                self._inward.down(peer.name)  # nobody waits for these any more
            self._lines.say(address, self._encoder.encode(cast(CallSpec(BROKEN, {}, priority=0))))

    def _broke(self, address: str, because: str) -> None:
        """A connection has ended. Nobody knows whether its last messages have arrived, so calls on that node end."""
        if self._breaks.broke(address):
            peer = self.node.view.at(address)
            if peer is not None:
                self._outward.down(peer.name, because)

    def _carry_out(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if self.roster.note(effect, self._now_ns()):
                self._is_noted = True
            if isinstance(effect, fx.Send):
                said = cast(CallSpec(SAY, body_of(effect.message), priority=0))
                self._lines.say(effect.address, self._encoder.encode(said), is_control=True)
            elif isinstance(effect, fx.Dial):
                self._lines.dial(effect.address, effect.key)
            elif isinstance(effect, fx.Hangup):
                if effect.is_flushed:
                    self._lines.flush()
                self._lines.hang_up(effect.address)
                self._broke(effect.address, "the line to it was given up")
            elif isinstance(effect, fx.NodeUnreachable):
                self._outward.down(effect.name, effect.because)
                self._inward.down(effect.name)
            log_effect(effect, self._log)
        self._tick_ns = self.node.next_ns()

    def _export(self) -> None:
        """Announce the exports and subscriptions of this system to other nodes, if they have changed."""
        directory = self._session.directory
        if directory is None:
            return
        if directory is not self._exports:
            self._exports = directory
            self._topics.update(directory)
            self._outward.missing = directory.missing
            self.roster.exports(directory.exported)
        try:
            self.node.export(directory.exported, self._topics.wanted(), directory.bulk)
        except BackplaneError as error:
            self._log.warn("the exports of this system are not announced to other nodes", error.message)

    # -- output -------------------------------------------------------------------------------------------------------

    def _address_of(self, name: str) -> str | None:
        peer = self.node.view.get(name)
        return None if peer is None else peer.address

    def _say(self, name: str, envelope: Envelope, is_bulk: bool) -> bool:
        address = self._address_of(name)
        return address is not None and self._lines.say(address, self._encoder.encode(envelope), is_bulk=is_bulk)

    def _load(self) -> float:
        """How busy this node is, 1: as much as it has cores. Counts calls of other nodes, and the load average of its host."""
        return (len(self._inward) + os.getloadavg()[0]) / CORES

    def _stands_to(self, name: str) -> bool:
        address = self._address_of(name)
        return address is not None and self._lines.stands(address)

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)
