"""Mesh: a node's view and its connections, and the few operations that change both together.

Every change of a peer passes through the methods here. So each `PeerUp` has exactly one `NodeUnreachable`, and the digest is
never stale. A connection is renewed with every incarnation, because messages queued for the former one must not reach the
next. When to change a peer is decided in membership.py, admission.py and rounds.py.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from .dialling import Dialling
from .effects import Down, Effect, NewIncarnation, NodeUnreachable, PeerChanged, PeerState, PeerUp, Send
from .messages import PROTOCOL, PROTOCOL_OLDEST, Hello, PeerMessage
from .peer import NEVER, Peer
from .policy import MembershipPolicy
from .view import Identity, View

AMessage = TypeVar("AMessage", bound=PeerMessage)

#: Kind of the `NodeUnreachable`, by the peer's new state.
_DOWN = {
    PeerState.UNREACHABLE: Down.UNREACHABLE,
    PeerState.DEAD: Down.DIED,
    PeerState.LEFT: Down.LEFT,
    PeerState.REVOKED: Down.REVOKED,
}
DAY_NS: Final = 24 * 3600 * 1_000_000_000
#: States in which a peer is not dialled.
_GONE = frozenset((PeerState.LEFT, PeerState.REVOKED))


class Mesh:
    """State that membership.py, admission.py and rounds.py share."""

    def __init__(
        self,
        me: Identity,
        policy: MembershipPolicy,
        random: Callable[[], float],
        is_allowed: Callable[[str, str], bool],
        unix_ns: Callable[[], int],
    ) -> None:
        self.policy, self.random, self.is_allowed, self._unix_ns = policy, random, is_allowed, unix_ns
        self.view = View(me)
        self.lines = Dialling(policy, random)
        self.beat = 0
        #: Announced in heartbeats: the version of this node's routes, and its load.
        self.routes, self.load = 0, 0.0
        #: Address of the node that bears this node's name, and keeps it.
        self.name_holder = ""
        #: Frames for another incarnation of this node; frames of unknown peers; nodes that there was no room for.
        self.stale_count = self.strange_count = self.over_count = 0
        #: Reported incarnations that are impossible, or come too often.
        self.incredible_count = 0
        #: Times of this node's latest changes of incarnation.
        self._raised_ns: list[int] = []

    @property
    def me(self) -> Identity:
        """This node, with its present incarnation."""
        return self.view.me

    # Messages.

    def say(self, kind: type[AMessage], peer: Peer | None, now_ns: int, **fields: Any) -> AMessage:
        """Make a message from this node to a peer; None: to an address where no peer is known yet."""
        return kind(
            name=self.me.name,
            incarnation=self.me.incarnation,
            to=peer.incarnation if peer else 0,
            beat=self.beat,
            sent_ns=max(0, now_ns),
            echo_ns=peer.clock_ns if peer else 0,
            **fields,
        )

    def hello(self, address: str, now_ns: int) -> Effect:
        """A hello with this node's full identity, for the node that listens at `address`."""
        peer = self.view.at(address)
        fields: dict[str, Any] = {
            "digest": self.view.digest(), **session(peer), "routes": self.routes, "load": self.load,
            "protocol": PROTOCOL, "protocol_oldest": PROTOCOL_OLDEST, "address": self.me.address, "dialled": address,
            "reached_as": peer.reached_as if peer else "",
        }  # fmt: skip
        return Send(address, self.say(Hello, peer, now_ns, **fields))

    # Changes of peers.

    def has_room(self) -> bool:
        """Whether one more live peer fits within `members_max`."""
        return len(self.view.living()) + 1 < self.policy.members_max

    def meet(self, peer: Peer, now_ns: int) -> list[Effect]:
        """Add a new peer and dial it, unless it has left. A former peer at its address ends."""
        effects: list[Effect] = []
        former = self.view.at(peer.address)
        if former is not None:
            effects += self.end(former, Down.RESTARTED, f"{peer.name!r} listens at its address now")
        self.view.add(peer)
        if peer.state is not PeerState.LEFT:
            effects += self.lines.want(peer.address, peer.key, now_ns)
        effects.append(PeerChanged(peer.name, peer.incarnation, peer.state, "it was told of"))
        return effects

    def succeed(self, former: Peer, peer: Peer, why: str, now_ns: int) -> list[Effect]:
        """Replace a peer by the next holder of its name; calls and connection of the former end."""
        effects = self.end(former, Down.RESTARTED, why)
        return [*effects, *self.meet(peer, now_ns)]

    def end(self, peer: Peer, kind: Down, why: str) -> list[Effect]:
        """Forget a peer, close its connection, and report it down if it was up."""
        effects = self.lines.drop(peer.address)
        effects += self._told_down(peer, kind, why)
        self.view.remove(peer)
        return effects

    def move(self, peer: Peer, state: PeerState, why: str, now_ns: int, kind: Down | None = None) -> list[Effect]:
        """Change the state of a peer, with all effects that follow."""
        was_living = peer.is_living
        peer.state = state
        effects: list[Effect] = [PeerChanged(peer.name, peer.incarnation, state, why)]
        if not peer.is_living:
            peer.ended_ns = now_ns
        if was_living != peer.is_living:
            self.view.has_changed()
        if state is PeerState.UP and not peer.is_told_up:
            peer.is_told_up = True
            peer.session += 1
            peer.session_due = peer.their_session + (not peer.is_up_there)
            effects.append(PeerUp(peer.name, peer.incarnation, peer.address, peer.key))
        elif state in _DOWN:
            effects += self._told_down(peer, kind or _DOWN[state], why)
        if state in _GONE:
            effects += self.lines.drop(peer.address)
        elif state in _DOWN:
            effects += self.lines.again(peer.address, why, now_ns)
        return effects

    def meet_again(self, peer: Peer, why: str, now_ns: int) -> list[Effect]:
        """Bring back a peer that was taken for dead, or not trusted. Does nothing but count if there is no room."""
        if not self.has_room():
            self.over_count += 1
            return []
        effects = self.lines.want(peer.address, peer.key, now_ns)  # it has none after it left or was revoked
        peer.meet_again(now_ns)
        self.view.has_changed()
        self.lines.hasten(peer.address, now_ns)
        return [*effects, PeerChanged(peer.name, peer.incarnation, peer.state, why)]

    def was_given_up(self, peer: Peer) -> list[Effect]:
        """The peer had given this node up, and taken it back. Calls that have ended there end here, too."""
        peer.session_due = peer.their_session
        effects = self._told_down(peer, Down.UNREACHABLE, "it had given this node up meanwhile")
        if effects:
            peer.is_told_up = True
            effects.append(PeerUp(peer.name, peer.incarnation, peer.address, peer.key))
        return effects

    def days_ahead(self, incarnation: int) -> int | None:
        """How many days an incarnation is ahead of this host's clock; None: not further than `ahead_ns_max` allows.

        The clock is read anew each time: it may have been wrong when this node was started, and set right since.
        """
        ahead_ns = incarnation - self._unix_ns()
        return ahead_ns // DAY_NS if ahead_ns > self.policy.ahead_ns_max else None

    def why_not_become(self, incarnation: int, now_ns: int) -> str:
        """Why this node does not take a higher incarnation; "": it may."""
        days = self.days_ahead(incarnation)
        if days is not None:
            return (
                f"it knows an incarnation of this node {days:,} days in the future: correct the clock of this host or of that "
                "one"
            )
        if self._has_become_often(now_ns):
            return f"it again knows a later incarnation of this node, which has changed {len(self._raised_ns)} times recently"
        return ""

    def begin_anew(self, now_ns: int) -> list[Effect]:
        """Take the incarnation of a node started now, if the present one is too far ahead of this host's clock, which was
        wrong at the start. Otherwise do nothing.
        """
        days = self.days_ahead(self.me.incarnation)
        if days is None or self._has_become_often(now_ns):
            return []
        why = f"its start is {days:,} days in the future by this host's clock, which was set back since"
        return self.become(self._unix_ns(), why, now_ns)

    def become(self, incarnation: int, why: str, now_ns: int) -> list[Effect]:
        """Give this node another incarnation. Its peers treat it as a new node, so it treats them as new, too."""
        self._raised_ns.append(now_ns)
        me = self.me
        self.view.me = Identity(me.name, incarnation, me.address, me.key)
        self.view.has_changed()
        effects: list[Effect] = [NewIncarnation(incarnation, why)]
        for peer in self.view.living():
            effects += self._told_down(peer, Down.RESTARTED, why)
            peer.meet_again(now_ns)
            peer.heard_ns = peer.echoed_ns = NEVER
        return effects

    def _has_become_often(self, now_ns: int) -> bool:
        self._raised_ns = [ns for ns in self._raised_ns if now_ns - ns < self.policy.raises_ns]
        return len(self._raised_ns) >= self.policy.raises_max

    def _told_down(self, peer: Peer, kind: Down, why: str) -> list[Effect]:
        if not peer.is_told_up:
            return []
        peer.is_told_up = False
        return [NodeUnreachable(peer.name, peer.incarnation, kind, why)]


def session(peer: Peer | None) -> dict[str, Any]:
    """Fields of a heartbeat: how often the receiver has come up here, and whether it is up."""
    return {"session": peer.session if peer else 0, "is_up": peer is not None and peer.is_told_up}
