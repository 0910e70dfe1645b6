"""Endpoint: the thread of a node that looks after everything between this system and others.

Three things wake it: its lines (transport/peers/lines.py), the session by which it calls into its own system, and what local
processes want of other nodes, which the backplane's workers hand over as it comes (`ask`). Each turn takes in what there
is, lets membership say what follows, and sends what has gathered: one frame a peer, one round of answers to the workers.
A frame between nodes is a batch of envelopes, as everywhere (transport/codec.py); what nodes say of themselves are casts of
the route `peers.say`. No thread but this one, however many peers.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from appbackplane.transport import codec
from appbackplane.transport.envelope import CAST, REPLY, STATUS, Envelope, status
from appbackplane.transport.errors import BackplaneError, MalformedFrame
from appbackplane.transport.events import Ended
from appbackplane.transport.link import Link
from appbackplane.transport.peers import effects as fx
from appbackplane.transport.peers.lines import SWEEP_NS, Came, Connected, Lines
from appbackplane.transport.peers.messages import body_of, message_from
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.session import ClientSession

from ..execution.async_log import last_words
from ..execution.worker import EXIT_BUG
from .inward import AskedHere, Inward
from .outward import Outward
from .roster import Roster

#: What nodes say of themselves.
SAY: Final = "peers.say"
#: A line to the receiver broke: answers to what it has asked may be lost.
BROKEN: Final = "peers.broken"
#: How long the directory of this system may take to come, each time it is asked for.
START_LIMIT_NS: Final = 5_000_000_000
#: What came from others is taken in for so long, before everything else has its turn again.
TURN_MAX_NS: Final = 2_000_000
#: Frames of this system taken in at a time: batches, or an answer of 16 MB each, of which 64 took two seconds of silence.
FRAMES_MAX: Final = 2
#: Stands for the directory of this system.
_DIRECTORY: Final = "directory"
#: Who does not keep up is offered his frames again after this.
STALLED_RETRY_NS: Final = 2_000_000
#: How often the same is said in the log; and how much of that is remembered.
WARN_NS: Final = 60_000_000_000
WARNINGS_MAX: Final = 256

Answers = list[tuple[bytes, bytes]]
log = logging.getLogger("appbackplane.peers")


class Endpoint:
    """Made and closed by the component; everything between belongs to its own thread."""

    def __init__(
        self,
        node: PeerNode,
        lines: Lines,
        link: Link,
        session: ClientSession,
        seeds: Mapping[str, str],
        *,
        now_ns: Callable[[], int],
        deliver: Callable[[Answers], None],
    ) -> None:
        """`seeds`: addresses to begin with, each with the name of the key there. `deliver`: has the backplane send packed
        envelopes to peers of its own link.
        """
        self.node = node
        self._lines, self._link, self._session = lines, link, session
        self._now_ns, self._deliver = now_ns, deliver
        self._outward = Outward(node, random.getrandbits(40), self._say, self._answer, self._stands_to)
        self._inward = Inward(session, self._say)
        #: To be looked at by any thread.
        self.roster = Roster(node, seeds, now_ns())
        self._look_ns = 0
        self._encoder = codec.Encoder()
        self._answers: Answers = []
        self._asked: deque[tuple[bytes, Envelope]] = deque()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_woken = self._is_stopping = False
        self._exports: object = None
        #: When those who do not keep up are offered their frames again.
        self._retry_ns = 0
        #: What was said, and when.
        self._warned: dict[str, int] = {}
        #: Keys as text, by their bytes.
        self._keys: dict[bytes, str] = {}
        #: Addresses to which a line has stood, and whether it does.
        self._standing: dict[str, bool] = {}
        self._runs = threading.Thread(target=self._run, name="peers", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._runs.start()

    def ask(self, peer: bytes, envelope: Envelope, _now_ns: int) -> None:
        """A local process wants something of another node. From a worker."""
        self._asked.append((peer, envelope))
        self._wake()

    def stop(self, timeout_s: float) -> None:
        """Leave in order, and end. From any thread."""
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
            self._carry_out(self.node.leave(self._now_ns()))
        except BaseException:
            log.critical("the node's endpoint failed: this is a bug of the runtime", exc_info=True)
            last_words()
            os._exit(EXIT_BUG)
        finally:
            self._lines.close()
            self._link.close()

    def _turn(self, now_ns: int) -> int:
        """Everything that there is to do now; for how long there is nothing, ns."""
        node, asked = self.node, self._asked
        for event in self._lines.turn(now_ns):
            if isinstance(event, Came):
                self._came(event.holder, event.frame, now_ns)
                if self._now_ns() - now_ns >= TURN_MAX_NS:
                    break  # the rest waits for what the clock, this system and other peers want
            elif isinstance(event, Connected):
                self._stands(event.address)
                self._carry_out(node.connected(event.address, now_ns))
            else:
                self._broke(event.address, event.because)
                self._carry_out(node.lost(event.address, event.because, now_ns))
        for _ in range(len(asked)):
            self._outward.take(*asked.popleft(), now_ns)
        events = self._session.turn(now_ns, FRAMES_MAX)
        for ended in events:
            if isinstance(ended, Ended) and isinstance(ended.token, AskedHere):
                self._inward.ended(ended)
            elif isinstance(ended, Ended) and ended.token is _DIRECTORY and ended.error is not None:
                self._warn(f"the directory of this system did not come: {ended.error}")
                self._session.start(_DIRECTORY, now_ns, START_LIMIT_NS)
        events.clear()
        self._export()
        if now_ns >= node.next_ns():
            self._carry_out(node.tick(now_ns))
        self._outward.expire(now_ns)
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + node.membership.policy.heartbeat_ns
            self.roster.look(self._outward.count_on, self._inward.count_of)
        is_retry = now_ns >= self._retry_ns
        is_stalled = self._lines.flush(self._now_ns(), with_stalled=is_retry)
        if is_stalled and is_retry:
            self._retry_ns = now_ns + STALLED_RETRY_NS
        if self._answers:
            answers, self._answers = self._answers, []
            self._deliver(answers)
        if asked or self._lines.has_more or self._session.has_more or self._link.has_input():
            return 0
        times = [node.next_ns(), now_ns + (STALLED_RETRY_NS if is_stalled else SWEEP_NS)]
        times += [ns for ns in (self._session.next_wake_ns(now_ns), self._outward.next_ns()) if ns is not None]
        return max(0, min(times) - now_ns)

    def _came(self, holder: Holder, frame: bytes, now_ns: int) -> None:
        try:
            envelopes = codec.decode(frame)
        except MalformedFrame as error:
            self._warn(f"what node {holder.name!r} says makes no sense", error.message)
            return
        for envelope in envelopes:
            try:
                self._hear(holder, envelope, now_ns)
            except BackplaneError as error:  # of this one alone: what came with it may be for somebody
                self._warn(f"something that node {holder.name!r} says makes no sense", error.message)

    def _hear(self, holder: Holder, envelope: Envelope, now_ns: int) -> None:
        kind, route = envelope.kind, envelope.route
        if kind == CAST and route == SAY:
            self._carry_out(self.node.received(self._key_of(holder), message_from(envelope.body), now_ns))
            return
        peer = self.node.membership.view.get(holder.name)
        if peer is None or peer.key != self._key_of(holder):
            return  # not met yet, or no more: what it asked ends there, as its peer is down
        if kind == CAST and route == BROKEN:
            self._outward.down(peer.name, "its line to this node broke")
        elif kind == REPLY or kind == STATUS:
            self._outward.answered(peer.name, envelope)
        else:
            self._inward.take(peer.name, peer.incarnation, holder, envelope, now_ns)

    def _key_of(self, holder: Holder) -> str:
        raw = holder.key.raw
        key = self._keys.get(raw)
        if key is None:
            key = self._keys[raw] = str(holder.key)
        return key

    def _stands(self, address: str) -> None:
        """A line stands. If one before it broke, what it carried may be lost: calls are ended there, as they were here."""
        if address in self._standing:
            self._lines.say(address, self._encoder.encode(Envelope(CAST, 0, 0, BROKEN, body={})))
        self._standing[address] = True

    def _broke(self, address: str, because: str) -> None:
        """A line stands no more. Whether what was in it has arrived, nobody knows."""
        if self._standing.get(address):
            self._standing[address] = False
            peer = self.node.membership.view.at(address)
            if peer is not None:
                self._outward.down(peer.name, because)

    def _carry_out(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if self.roster.note(effect, self._now_ns()):
                self._look_ns = 0
            if isinstance(effect, fx.Send):
                said = Envelope(CAST, 0, 0, SAY, body=body_of(effect.message))
                self._lines.say(effect.address, self._encoder.encode(said), is_control=True)
            elif isinstance(effect, fx.Dial):
                self._lines.dial(effect.address, effect.key)
            elif isinstance(effect, fx.Hangup):
                if effect.is_flushed:
                    self._lines.flush()
                self._lines.hang_up(effect.address)
                self._broke(effect.address, "the line to it was given up")
            elif isinstance(effect, fx.PeerUp):
                log.info("node %s at %s is up", effect.name, effect.address)
            elif isinstance(effect, fx.PeerDown):
                log.warning("node %s is down (%s): %s", effect.name, effect.kind, effect.because)
                self._outward.down(effect.name, effect.because)
                self._inward.down(effect.name)
            elif isinstance(effect, fx.DialFailed):
                self._warn(f"{effect.address} cannot be reached: {effect.because} (it is dialled again)")
            elif isinstance(effect, fx.Refused):
                self._warn(f"{effect.name!r} at {effect.address} is no peer of this node", effect.reason)
            elif isinstance(effect, fx.RefusedBy):
                self._warn(f"node {effect.name!r} at {effect.address} refuses this one", effect.reason)
            elif isinstance(effect, fx.NameTaken):
                log.error("%s", effect.reason)
            elif isinstance(effect, fx.NewIncarnation):
                log.warning("this node is known as a later one than it is: %s", effect.because)

    def _warn(self, what: str, because: str = "") -> None:
        """What comes again and again is said once a minute, with the words of others that came with it then."""
        now_ns = self._now_ns()
        if now_ns - self._warned.get(what, -WARN_NS) < WARN_NS:
            return
        if len(self._warned) >= WARNINGS_MAX:
            self._warned.clear()
        self._warned[what] = now_ns
        log.warning("%s%s", what, f": {because!r}" if because else "")

    def _export(self) -> None:
        directory = self._session.directory
        if directory is None or directory is self._exports:
            return
        self._exports = directory
        try:
            self.node.export(directory.exported, directory.exported_topics)
            self.roster.exports(directory.exported)
        except BackplaneError as error:
            log.warning("what this system exports is not told to other nodes: %s", error)

    # -- ways out -----------------------------------------------------------------------------------------------------

    def _say(self, name: str, envelope: Envelope, is_bulk: bool) -> bool:
        peer = self.node.membership.view.get(name)
        return peer is not None and self._lines.say(peer.address, self._packed(envelope), is_bulk=is_bulk)

    def _stands_to(self, name: str) -> bool:
        peer = self.node.membership.view.get(name)
        return peer is not None and self._lines.stands(peer.address)

    def _answer(self, peer: bytes, envelope: Envelope) -> None:
        self._answers.append((peer, self._packed(envelope)))

    def _packed(self, envelope: Envelope) -> bytes:
        """An envelope; of an answer that came but cannot go on (packed again it may be larger) the reason."""
        try:
            return self._encoder.encode(envelope)
        except BackplaneError as error:
            if envelope.kind != REPLY:
                raise
            return self._encoder.encode(status(envelope.id, error))

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)
