"""Membership: which nodes there are, and which of them can be reached, as one node sees it.

Every node beats at every other, both ways, each over the line that it dialled itself; who is silent is asked about among
others before it is given up (peer.py says by what rules, policy.py by what times). Who is met is told of by those who know,
so one seed is enough to join. Facts and `now_ns` come in, effects go out: the owner of the sockets calls `tick` when
`next_ns` has come, and the others when something happens. It costs each node, for each peer, five small frames a second out
and in, and a line.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import rounds
from .admission import Admission
from .effects import Down, Effect, State
from .mesh import AMessage, Mesh
from .messages import Heartbeat, Hello, Inquiry, Leave, Message, Record, Refusal, Sync, Vouch
from .news import News, weigh
from .peer import Peer, because, judge
from .policy import MembershipPolicy
from .view import Identity, View, state_of

#: Whose words do not count.
_UNHEARD: Final = frozenset((State.LEFT, State.REVOKED))


def anybody(_key: str, _name: str) -> bool:
    """Every key that the connection lets in may bear every name."""
    return True


class Membership:
    """The mesh as one node knows it.

    `seeds`: the addresses to begin with, each with the key that is expected there now; called again by `recheck`.
    `random`: 0 up to 1, seeded in tests. `is_allowed`: whether who holds a key may bear a name. `unix_ns`: this host's clock.
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
        self._admission = Admission(self._mesh)
        self._beats_ns = self._passed_ns = self._judged_ns = now_ns
        self._has_left = False
        self._seeds = seeds
        self._expect_seeds(now_ns)

    @property
    def me(self) -> Identity:
        """This node, with the incarnation that it has now."""
        return self._mesh.me

    @property
    def view(self) -> View:
        """Who there is. To be read only."""
        return self._mesh.view

    @property
    def policy(self) -> MembershipPolicy:
        """By what times it goes."""
        return self._mesh.policy

    @property
    def counts(self) -> dict[str, int]:
        """Frames that were dropped (for another incarnation; of strangers), nodes that there was no room for, and news of
        incarnations that cannot be.
        """
        mesh = self._mesh
        return {
            "stale": mesh.stale_count, "strange": mesh.strange_count, "over": mesh.over_count,
            "incredible": mesh.incredible_count,
        }  # fmt: skip

    def is_up(self, name: str) -> bool:
        """Whether calls may go there."""
        peer = self.view.get(name)
        return peer is not None and peer.is_told_up

    def announce(self, routes: int, load: float) -> None:
        """What heartbeats say from now on: the version of this node's routes, and how busy it is."""
        self._mesh.routes, self._mesh.load = routes, load

    def next_ns(self) -> int:
        """When `tick` is to be called at the latest."""
        return min(self._beats_ns, self._mesh.lines.next_ns(self._passed_ns))

    def tick(self, now_ns: int) -> list[Effect]:
        """Time has passed."""
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
        """What was dialled stands."""
        self._pass(now_ns)
        is_to_be_greeted, effects = self._mesh.lines.connected(address, now_ns)
        return [*effects, self._mesh.hello(address, now_ns)] if is_to_be_greeted else effects

    def lost(self, address: str, why: str, now_ns: int) -> list[Effect]:
        """What was dialled has been refused, or has broken. Not to be told of a connection that was hung up on."""
        self._pass(now_ns)
        return [] if self._has_left else self._mesh.lines.lost(address, why, now_ns)

    def say(self, kind: type[AMessage], peer: Peer, now_ns: int, **fields: Any) -> AMessage:
        """A message to a peer, with what each message bears."""
        return self._mesh.say(kind, peer, now_ns, **fields)

    def sender(self, key: str, message: Message) -> Peer | None:
        """The peer that says this, by its key; None: a stranger, a former self, or it speaks to a former self of ours."""
        mesh = self._mesh
        peer = mesh.view.get(message.name)
        if message.to != mesh.me.incarnation:
            mesh.stale_count += 1
        elif peer is None or peer.incarnation != message.incarnation or peer.key != key or peer.state in _UNHEARD:
            mesh.strange_count += 1
        else:
            return peer
        return None

    def received(self, key: str, message: Message, now_ns: int) -> list[Effect]:
        """A peer has spoken, on a connection whose key is `key`."""
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
                effects += self._mesh.move(peer, State.LEFT, "it has left", now_ns)
            case Inquiry():
                effects += rounds.vouch(self._mesh, peer, message.names, now_ns)
            case Vouch() | Sync():
                for record in message.records:
                    effects += self._told(record, peer.name, now_ns)
                if isinstance(message, Sync) and not message.is_answer:
                    effects += rounds.answer(self._mesh, peer, message.records, now_ns)
        return effects

    def recheck(self, now_ns: int) -> list[Effect]:
        """Which keys may bear which names, and which are expected at the seeds, may have changed.

        A peer that may not bear its name any more is down.
        """
        effects: list[Effect] = []
        for peer in self.view:
            if peer.state is State.LEFT or self._mesh.is_allowed(peer.key, peer.name) is (
                peer.state is not State.REVOKED
            ):
                continue
            if peer.state is State.REVOKED:
                effects += self._mesh.meet_again(peer, "its key is trusted again", now_ns)
            else:
                because = "its key is not trusted here any more, or not under this name"
                effects += self._mesh.move(peer, State.REVOKED, because, now_ns)
        return effects + self._expect_seeds(now_ns)

    def leave(self, now_ns: int) -> list[Effect]:
        """This node goes, in order. Nothing is done or told afterwards."""
        self._has_left = True
        return rounds.leave(self._mesh, now_ns)

    def _expect_seeds(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for address, key in self._seeds().items():
            if address != self.me.address:
                effects += self._mesh.lines.add_seed(address, key, now_ns)
        return effects

    def _pass(self, now_ns: int) -> None:
        """Time has passed: more than between any two ticks, if this node was stopped, swapped out or starved.

        What it has not heard meanwhile waits in its sockets, and says nothing of its peers (Lifeguard, DSN 2018).
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

    def _heard(self, peer: Peer, message: Message, now_ns: int) -> list[Effect]:
        mesh = self._mesh
        # An echo may be forged: it counts only if what it echoes could get there. So nobody is up at an address that it cannot
        # prove to be its own.
        if message.to == mesh.me.incarnation and mesh.lines.reaches(peer.address, peer.key):
            echo_ns = min(message.echo_ns, now_ns)
            if echo_ns > 0:
                peer.echoed_ns = max(peer.echoed_ns, echo_ns)
                mesh.lines.echoed(peer.address, echo_ns)
        # What was overtaken on its way says nothing new. A dead peer has to say what nobody had heard when it was alive, or
        # to echo what this node has said since: the count of its heartbeats may be another's lie.
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
        return effects + rounds.greet(self._mesh, peer, now_ns) if state is State.UP else effects

    def _told(self, record: Record, teller: str, now_ns: int) -> list[Effect]:
        """A peer has told of another."""
        mesh = self._mesh
        me = mesh.me
        if me.name == record.name or me.address == record.address:
            return []  # whoever knows a later incarnation of this node refuses it, for itself (admission.py)
        if mesh.days_ahead(record.incarnation) is not None:
            mesh.incredible_count += 1
            return []
        peer = mesh.view.get(record.name)
        news = weigh(peer, record, mesh.policy)
        if news is News.COMER:
            return self._introduced(peer, record, teller, now_ns)
        if peer is None or news is News.NONE or peer.state is State.REVOKED:
            return []
        if news is News.RUMOUR:
            peer.doubted_by = teller
            return self._judged(peer, now_ns)
        effects = [] if peer.is_living else mesh.meet_again(peer, f"it lives, says {teller!r}", now_ns)
        peer.beat, peer.voucher = record.beat, teller
        peer.vouched_ns = max(peer.vouched_ns, now_ns - record.age_ns)
        return effects

    def _introduced(self, former: Peer | None, record: Record, teller: str, now_ns: int) -> list[Effect]:
        """Somebody who was not known, or a later incarnation of who was."""
        mesh = self._mesh
        if not mesh.is_allowed(record.key, record.name):
            return []
        state = state_of(record)
        is_more = state is State.MET and (former is None or not former.is_living)
        neighbour = mesh.view.at(record.address)
        if neighbour is not None and neighbour is not former and neighbour.is_living:
            return []  # two names at one address: whoever listens there will say his own
        if not mesh.lines.may_try(record.address, record.key):
            return []  # the configuration, or a line that stands, says whose key is there
        if is_more and not mesh.has_room():
            mesh.over_count += 1
            return []
        peer = Peer(record.name, record.incarnation, record.address, record.key, now_ns, state, record.beat)
        if state is State.MET:
            peer.vouched_ns, peer.voucher = now_ns - record.age_ns, teller
        else:
            peer.ended_ns = now_ns - record.age_ns
        if former is None:
            return mesh.meet(peer, now_ns)
        return mesh.succeed(former, peer, f"it has been started again, says {teller!r}", now_ns)
