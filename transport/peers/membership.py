"""Membership: which nodes there are, and which of them can be reached, as one node sees it.

Every node sends heartbeats to every other, each over the connection that it dialled itself. Others are asked about a silent
node before it is given up (rules in peer.py, times in policy.py). Nodes report the peers that they know, so one seed is enough
to join. Events and `now_ns` come in, effects go out: the owner of the sockets calls `tick` when `next_ns` has come, and the
other methods when something happens. Costs each node, for each peer, five small frames a second out and in, and a connection.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import rounds
from .admission import MeshAdmission
from .effects import Down, Effect, PeerState
from .mesh import AMessage, Mesh
from .messages import Heartbeat, Hello, Inquiry, Leave, NodeRecord, PeerMessage, Refusal, Sync, Vouch
from .news import News, weigh
from .peer import Peer, because, judge
from .policy import MembershipPolicy
from .view import Identity, state_of

#: States in which the messages of a peer are ignored.
_UNHEARD: Final = frozenset((PeerState.LEFT, PeerState.REVOKED))


def anybody(_key: str, _name: str) -> bool:
    """Every key that the connection lets in may bear every name."""
    return True


class Membership:
    """The mesh as one node knows it.

    `seeds`: the first addresses, each with the key that is expected there now; called again by `recheck`. `random`: 0 up to 1,
    seeded in tests. `is_allowed`: whether the holder of a key may bear a name. `unix_ns`: this host's clock.
    """

    def __init__(
        self,
        me: Identity,
        seeds: Callable[[], Mapping[str, str]],
        now_ns: int,
        *,
        random: Callable[[], float],
        unix_ns: Callable[[], int],
        policy: MembershipPolicy | None = None,
        is_allowed: Callable[[str, str], bool] = anybody,
    ) -> None:
        self._mesh = Mesh(me, policy or MembershipPolicy(), random, is_allowed, unix_ns)
        #: The times and bounds of this mesh; and all nodes that this one knows, read-only.
        self.policy, self.view = self._mesh.policy, self._mesh.view
        self._admission = MeshAdmission(self._mesh)
        self._beats_ns = self._passed_ns = self._judged_ns = now_ns
        self._has_left = False
        self._seeds = seeds
        self._expect_seeds(now_ns)

    @property
    def me(self) -> Identity:
        """This node, with its present incarnation."""
        return self._mesh.me

    @property
    def counts(self) -> dict[str, int]:
        """Dropped frames (for another incarnation; of strangers), nodes that there was no room for, and reports of impossible
        incarnations.
        """
        mesh = self._mesh
        return {
            "stale": mesh.stale_count, "strange": mesh.strange_count, "over": mesh.over_count,
            "incredible": mesh.incredible_count,
        }  # fmt: skip

    def is_up(self, name: str) -> bool:
        """Whether calls may go to this node."""
        peer = self.view.get(name)
        return peer is not None and peer.is_told_up

    def announce(self, routes: int, load: float) -> None:
        """Set the contents of further heartbeats: the version of this node's routes, and its load."""
        self._mesh.routes, self._mesh.load = routes, load

    def next_ns(self) -> int:
        """When `tick` is to be called at the latest."""
        return min(self._beats_ns, self._mesh.lines.next_ns(self._passed_ns))

    def tick(self, now_ns: int) -> list[Effect]:
        """Do all that is due by now: judge peers, send heartbeats, dial."""
        if self._has_left:
            return []
        mesh = self._mesh
        self._pass(now_ns)
        effects: list[Effect] = []
        if now_ns >= min(self._beats_ns, self._judged_ns + mesh.policy.heartbeat_ns // 4):
            self._judged_ns = now_ns
            for peer in mesh.view:
                effects += self._judged(peer, now_ns)
            for peer in mesh.view.outlived(mesh.policy.forget_ns, mesh.policy.dead_count_max, now_ns):
                effects += mesh.end(peer, Down.DIED, "it is forgotten")
        if now_ns >= self._beats_ns:
            self._beats_ns = max(self._beats_ns + mesh.policy.heartbeat_ns, now_ns + mesh.policy.heartbeat_ns // 2)
            effects += rounds.beat(mesh, now_ns)
        return effects + mesh.lines.tick(now_ns)

    def connected(self, address: str, now_ns: int) -> list[Effect]:
        """A dialled connection is established."""
        self._pass(now_ns)
        is_to_be_greeted, effects = self._mesh.lines.connected(address, now_ns)
        return [*effects, self._mesh.hello(address, now_ns)] if is_to_be_greeted else effects

    def lost(self, address: str, why: str, now_ns: int) -> list[Effect]:
        """A dial was refused, or a connection has broken. Not to be called for a connection that was hung up on."""
        self._pass(now_ns)
        return [] if self._has_left else self._mesh.lines.lost(address, why, now_ns)

    def say(self, kind: type[AMessage], peer: Peer, now_ns: int, **fields: Any) -> AMessage:
        """A message to a peer, with the fields that every message carries."""
        return self._mesh.say(kind, peer, now_ns, **fields)

    def sender(self, key: str, message: PeerMessage) -> Peer | None:
        """The peer that sent this, by its key; None: a stranger, a former peer, or it is meant for a former self of ours."""
        mesh = self._mesh
        peer = mesh.view.get(message.name)
        if message.to != mesh.me.incarnation:
            mesh.stale_count += 1
        elif peer is None or peer.incarnation != message.incarnation or peer.key != key or peer.state in _UNHEARD:
            mesh.strange_count += 1
        else:
            return peer
        return None

    def received(self, key: str, message: PeerMessage, now_ns: int) -> list[Effect]:
        """A message of a peer has arrived, on a connection whose key is `key`."""
        if self._has_left:
            return []
        self._pass(now_ns)
        if isinstance(message, Hello):
            peer, effects = self._admission.hello(key, message, now_ns)
            if peer is not None:
                peer.reached_as = message.dialled
                alias = message.reached_as
                if alias and alias != peer.address and self.view.at(alias) is None:
                    effects += self._mesh.lines.is_alias(alias, peer.address, key)
        elif isinstance(message, Refusal):
            return self._refused(key, message, now_ns)
        else:
            peer, effects = self.sender(key, message), []
        if peer is None:
            return effects
        effects += self._heard(peer, message, now_ns)
        match message:
            case Leave():
                effects += self._mesh.move(peer, PeerState.LEFT, "it has left", now_ns)
            case Inquiry():
                effects += rounds.vouch(self._mesh, peer, message.names, now_ns)
            case Vouch() | Sync():
                for record in message.records:
                    effects += self._told(record, peer.name, now_ns)
                if isinstance(message, Sync) and not message.is_answer:
                    effects += rounds.answer(self._mesh, peer, message.records, now_ns)
        return effects

    def recheck(self, now_ns: int) -> list[Effect]:
        """Check anew which keys may bear which names, and which are expected at the seeds.

        A peer that may not bear its name any more is down.
        """
        effects: list[Effect] = []
        for peer in self.view:
            if peer.state is PeerState.LEFT or self._mesh.is_allowed(peer.key, peer.name) is (
                peer.state is not PeerState.REVOKED
            ):
                continue
            if peer.state is PeerState.REVOKED:
                effects += self._mesh.meet_again(peer, "its key is trusted again", now_ns)
            else:
                because = "its key is not trusted here any more, or not under this name"
                effects += self._mesh.move(peer, PeerState.REVOKED, because, now_ns)
        return effects + self._expect_seeds(now_ns)

    def leave(self, now_ns: int) -> list[Effect]:
        """Leave gracefully. Later events have no effect."""
        self._has_left = True
        return rounds.leave(self._mesh, now_ns)

    def _expect_seeds(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for address, key in self._seeds().items():
            if address != self.me.address:
                effects += self._mesh.lines.add_seed(address, key, now_ns)
        return effects

    def _pass(self, now_ns: int) -> None:
        """Note the time. A long gap between two calls means that this node was stopped, swapped out or starved.

        Messages of that time wait in its sockets, so the silence says nothing of its peers (Lifeguard, DSN 2018).
        """
        gap_ns = now_ns - self._passed_ns
        self._passed_ns = now_ns
        if gap_ns > self._mesh.policy.suspect_ns // 2:
            for peer in self._mesh.view:
                peer.stand_still(gap_ns - self._mesh.policy.heartbeat_ns, now_ns)

    def _refused(self, key: str, refusal: Refusal, now_ns: int) -> list[Effect]:
        mesh = self._mesh
        peer = mesh.view.get(refusal.name)
        if refusal.to != mesh.me.incarnation:
            mesh.stale_count += 1
            return []
        # A peer refuses for itself alone: under its own name, and at an address where its own key is expected.
        is_named = peer.key == key if peer is not None else mesh.is_allowed(key, refusal.name)
        if not is_named or mesh.lines.key_at(refusal.dialled) not in (None, key):
            mesh.strange_count += 1
            return []
        return self._admission.refusal(peer, key, refusal, now_ns)

    def _heard(self, peer: Peer, message: PeerMessage, now_ns: int) -> list[Effect]:
        mesh = self._mesh
        # An echo may be forged: it counts only if this node's messages could get there. So no node is up at an address that it
        # cannot prove to be its own.
        if message.to == mesh.me.incarnation and mesh.lines.reaches(peer.address, peer.key):
            echo_ns = min(message.echo_ns, now_ns)
            if echo_ns > 0:
                peer.echoed_ns = max(peer.echoed_ns, echo_ns)
                mesh.lines.echoed(peer.address, echo_ns)
        # A message that was overtaken says nothing new. A dead peer has to show a heartbeat count that no node reported while
        # it was alive, or to echo a message that this node has sent since: the known count may be a false report.
        is_proof = message.beat > peer.beat or (message.to == mesh.me.incarnation and message.echo_ns > peer.ended_ns)
        if message.beat < peer.spoken_beat or not (peer.is_living or is_proof):
            return []
        effects = [] if peer.is_living else mesh.meet_again(peer, "it is heard again", now_ns)
        peer.beat = peer.spoken_beat = message.beat
        peer.heard_ns, peer.has_spoken = now_ns, True
        if peer.doubted_by:
            peer.doubted_by, peer.is_refuted = "", True
        peer.clock_ns = max(peer.clock_ns, message.sent_ns)
        mesh.lines.hasten(peer.address, now_ns)
        if isinstance(message, Heartbeat):
            peer.digest = message.digest
            if message.to == mesh.me.incarnation:
                peer.their_session, peer.is_up_there = message.session, message.is_up
        effects += self._judged(peer, now_ns)
        if peer.is_told_up and peer.their_session > peer.session_due:
            effects += mesh.was_given_up(peer)
        return effects

    def _judged(self, peer: Peer, now_ns: int) -> list[Effect]:
        policy = self._mesh.policy
        state = judge(peer, policy, now_ns)
        if state is peer.state:
            return []
        effects = self._mesh.move(peer, state, because(peer, state, policy, now_ns), now_ns)
        return effects + rounds.greet(self._mesh, peer, now_ns) if state is PeerState.UP else effects

    def _told(self, record: NodeRecord, teller: str, now_ns: int) -> list[Effect]:
        """Take in a peer's report on another node."""
        mesh = self._mesh
        me = mesh.me
        if me.name == record.name or me.address == record.address:
            return []  # a peer that knows a later incarnation of this node refuses it itself (admission.py)
        if mesh.days_ahead(record.incarnation) is not None:
            mesh.incredible_count += 1
            return []
        peer = mesh.view.get(record.name)
        news = weigh(peer, record, mesh.policy)
        if news is News.COMER:
            return self._introduced(peer, record, teller, now_ns)
        if peer is None or news is News.NONE or peer.state is PeerState.REVOKED:
            return []
        if news is News.RUMOUR:
            peer.doubted_by = teller
            return self._judged(peer, now_ns)
        effects = [] if peer.is_living else mesh.meet_again(peer, f"it is alive, according to {teller!r}", now_ns)
        peer.beat, peer.voucher = record.beat, teller
        peer.vouched_ns = max(peer.vouched_ns, now_ns - record.age_ns)
        return effects

    def _introduced(self, former: Peer | None, record: NodeRecord, teller: str, now_ns: int) -> list[Effect]:
        """Add a node that was not known, or a later incarnation of a known one."""
        mesh = self._mesh
        if not mesh.is_allowed(record.key, record.name):
            return []
        state = state_of(record)
        is_more = state is PeerState.MET and (former is None or not former.is_living)
        neighbour = mesh.view.at(record.address)
        if neighbour is not None and neighbour is not former and neighbour.is_living:
            return []  # two names at one address: the node there will say its own
        if not mesh.lines.may_try(record.address, record.key):
            return []  # the configuration, or an established connection, says whose key is there
        if is_more and not mesh.has_room():
            mesh.over_count += 1
            return []
        peer = Peer(record.name, record.incarnation, record.address, record.key, now_ns, state, record.beat)
        if state is PeerState.MET:
            peer.vouched_ns, peer.voucher = now_ns - record.age_ns, teller
        else:
            peer.ended_ns = now_ns - record.age_ns
        if former is None:
            return mesh.meet(peer, now_ns)
        return mesh.succeed(former, peer, f"it has been restarted, according to {teller!r}", now_ns)
