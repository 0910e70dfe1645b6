"""Peer: this node's knowledge of another node, and the rules that judge its state.

A node is up if messages arrive in both directions. The detector is van Renesse's gossip-style one (Middleware 1998) with
SWIM's question to others (Das, Gupta, Motivala, DSN 2002). Each node counts its heartbeats, and a greater count proves later
life, whichever node reports it. So a cut link is told apart from a death, and old news can never raise the dead. Times are on
this node's clock; a proof by hearsay has the age that its reporter states. Costs 0.5 KB a peer.
"""

from dataclasses import dataclass
from typing import Final

from .effects import PeerState
from .messages import NodeRecord
from .policy import MembershipPolicy

#: Never: so far back that every silence since then is too long.
NEVER: Final = -(1 << 62)
#: States of the members of a view.
LIVING: Final = frozenset((PeerState.MET, PeerState.UP, PeerState.SUSPECT, PeerState.UNREACHABLE))


@dataclass(slots=True, eq=False)
class Peer:
    """One name, as borne by one incarnation at one address."""

    name: str
    incarnation: int
    address: str
    key: str
    #: Since when it is known, or known again.
    met_ns: int
    state: PeerState = PeerState.MET
    #: Its heartbeat count: the highest that any node reported since its last message, and that of its last message.
    beat: int = 0
    spoken_beat: int = 0
    #: Times of its last message, of our last message that it echoed, and of another node's last proof of its life; that node.
    heard_ns: int = NEVER
    echoed_ns: int = NEVER
    vouched_ns: int = NEVER
    voucher: str = ""
    #: Its clock in its last message, which we echo.
    clock_ns: int = 0
    #: Digest of its view; -1: not known.
    digest: int = -1
    #: Address that it dialled to reach us.
    reached_as: str = ""
    #: Whether a `PeerUp` was reported without its `PeerDown`.
    is_told_up: bool = False
    #: How often it has come up here, and this node there, by its last heartbeat. `session_due`: the highest count that it can
    #: report without having given this node up since it came up here.
    session: int = 0
    their_session: int = 0
    is_up_there: bool = False
    session_due: int = 0
    ended_ns: int = NEVER
    #: Whether this incarnation has sent a message under its own key. Until then all knowledge of it is hearsay.
    has_spoken: bool = False
    #: `doubted_by`: another node that reported this one's farewell; "" once this one is heard. `is_refuted`: it was heard after
    #: such a rumour; from then on, rumours that this incarnation left do not count.
    doubted_by: str = ""
    is_refuted: bool = False

    @property
    def is_living(self) -> bool:
        """Whether it counts as a member: not dead, not gone, not revoked."""
        return self.state in LIVING

    @property
    def proof_ns(self) -> int:
        """Time of the last proof that it lives."""
        return max(self.heard_ns, self.vouched_ns)

    def silence_ns(self, now_ns: int, policy: MembershipPolicy) -> int:
        """How long nothing has come from it, or no fresh echo of this node's messages: the longer of both, ns."""
        return max(now_ns - self.heard_ns, now_ns - self.echoed_ns - policy.echo_ns)

    def is_in_doubt(self, now_ns: int, policy: MembershipPolicy) -> bool:
        """Whether other peers are to be asked about it."""
        if self.state is PeerState.MET:
            return now_ns - self.met_ns > policy.suspect_ns
        return self.state in (PeerState.SUSPECT, PeerState.UNREACHABLE)

    def stand_still(self, gap_ns: int, now_ns: int) -> None:
        """Take a gap in which this node itself stood still out of all silences: no peer is to blame for it."""
        self.met_ns = min(now_ns, self.met_ns + gap_ns)
        self.heard_ns = min(now_ns, self.heard_ns + gap_ns)
        self.echoed_ns = min(now_ns, self.echoed_ns + gap_ns)
        self.vouched_ns = min(now_ns, self.vouched_ns + gap_ns)

    def meet_again(self, now_ns: int) -> None:
        """Reset to `MET`: it was dead, and has shown that it lives; or it is trusted again."""
        self.state, self.met_ns, self.ended_ns = PeerState.MET, now_ns, NEVER

    def record(self, now_ns: int) -> NodeRecord:
        """The record of this peer for other nodes."""
        if self.is_living:
            fate, since_ns = "living", max(self.proof_ns, self.met_ns if self.state is PeerState.MET else NEVER)
        else:
            fate, since_ns = ("left" if self.state is PeerState.LEFT else "dead"), self.ended_ns
        age_ns = max(0, now_ns - since_ns)
        return NodeRecord(self.name, self.incarnation, self.address, self.key, fate, self.beat, age_ns)


def judge(peer: Peer, policy: MembershipPolicy, now_ns: int) -> PeerState:
    """The state that follows from times and rumours now. Only news brings back a dead or departed peer, not time."""
    if not peer.is_living:
        return peer.state
    silence_ns = peer.silence_ns(now_ns, policy)
    if silence_ns <= policy.suspect_ns:
        return (
            PeerState.SUSPECT if peer.doubted_by and peer.state in (PeerState.UP, PeerState.SUSPECT) else PeerState.UP
        )
    proof_age_ns = now_ns - peer.proof_ns
    match peer.state:
        case PeerState.UNREACHABLE:
            # Longer than below, so that a peer that is vouched for now and then does not flap.
            return PeerState.UNREACHABLE if proof_age_ns <= policy.dead_ns else PeerState.DEAD
        case PeerState.MET if now_ns - peer.met_ns <= policy.dead_ns:
            return PeerState.MET
        case PeerState.UP | PeerState.SUSPECT if silence_ns <= policy.dead_ns:
            return PeerState.SUSPECT
    # The proof must be later than the silence's beginning: a dead peer's last proof is as old as the silence.
    return PeerState.UNREACHABLE if proof_age_ns <= policy.dead_ns - policy.suspect_ns else PeerState.DEAD


def because(peer: Peer, state: PeerState, policy: MembershipPolicy, now_ns: int) -> str:
    """The reason for a state, as a sentence."""
    if state is PeerState.UP:
        return "it is heard, and hears this node"
    is_heard = now_ns - peer.heard_ns <= policy.suspect_ns
    if state is PeerState.UNREACHABLE:
        if is_heard:
            return f"it is heard here, but has not heard this node for {policy.dead_ns / 1e9:g} s"
        by = f" ({peer.voucher!r}, for one)" if peer.voucher else ""
        return f"others{by} hear it, but this node has not for {policy.dead_ns / 1e9:g} s"
    if state is PeerState.SUSPECT and peer.doubted_by and is_heard:
        return f"it has left, according to {peer.doubted_by!r}; it has not said so itself"
    if state is PeerState.SUSPECT:
        return "it does not hear this node" if is_heard else f"silent for {policy.suspect_ns / 1e6:g} ms"
    return f"silent for {policy.dead_ns / 1e9:g} s, and nobody else hears it"
