"""Peer: what this node knows of another one, and what it thinks of it by now.

A node that is heard and hears us is up. The detector is van Renesse's gossip-style one (Middleware 1998) with SWIM's question
to others (Das, Gupta, Motivala, DSN 2002): each node counts its heartbeats, and a greater count, whoever brings it, is proof of
later life. So a link that is cut is told apart from a death, and what is old news can never raise the dead. Times are this
node's; a proof that was told of is as old as its teller says. Costs 0.5 KB a peer.
"""

from dataclasses import dataclass
from typing import Final

from .effects import State
from .messages import Record
from .policy import MembershipPolicy

#: Never; so far back that no silence is shorter.
NEVER: Final = -(1 << 62)
#: Those that may take part in something.
LIVING: Final = frozenset((State.MET, State.UP, State.SUSPECT, State.UNREACHABLE))


@dataclass(slots=True, eq=False)
class Peer:
    """One name, as borne by one incarnation at one address."""

    name: str
    incarnation: int
    address: str
    key: str
    #: Since when it is known, or known again.
    met_ns: int
    state: State = State.MET
    #: The most heartbeats of its own that anybody told of since it last spoke, and that it told of itself.
    beat: int = 0
    spoken_beat: int = 0
    #: Its last words, our last words that it echoed, and the last proof of its life that another gave; who that was.
    heard_ns: int = NEVER
    echoed_ns: int = NEVER
    vouched_ns: int = NEVER
    voucher: str = ""
    #: Its clock when it last spoke: what we echo.
    clock_ns: int = 0
    #: Digest of its view.
    digest: int = -1
    #: What it dialled to reach us.
    reached_as: str = ""
    #: Whether a `PeerUp` is without its `PeerDown`.
    is_told_up: bool = False
    #: How often it has come up here, and this node there, as it said last. `session_due`: the most that it can say without
    #: having given this node up since it came up here.
    session: int = 0
    their_session: int = 0
    is_up_there: bool = False
    session_due: int = 0
    ended_ns: int = NEVER
    #: Whether this incarnation has spoken to this node under its own key. Until then all that is known of it is hearsay.
    has_spoken: bool = False
    #: The peer that told of its farewell, until it is heard again; and whether it was heard after such a rumour. From then on
    #: rumours of a farewell of this incarnation do not count.
    doubted_by: str = ""
    is_refuted: bool = False

    @property
    def is_living(self) -> bool:
        """Whether it belongs to the view."""
        return self.state in LIVING

    @property
    def proof_ns(self) -> int:
        """When it was last known to live."""
        return max(self.heard_ns, self.vouched_ns)

    def silence_ns(self, now_ns: int, policy: MembershipPolicy) -> int:
        """For how long it has not been heard, or has not heard us."""
        return max(now_ns - self.heard_ns, now_ns - self.echoed_ns - policy.echo_ns)

    def is_in_doubt(self, now_ns: int, policy: MembershipPolicy) -> bool:
        """Whether others are to be asked about it."""
        if self.state is State.MET:
            return now_ns - self.met_ns > policy.suspect_ns
        return self.state in (State.SUSPECT, State.UNREACHABLE)

    def stand_still(self, gap_ns: int, now_ns: int) -> None:
        """This node stood still itself for so long: nobody else is to blame for what it has not heard."""
        self.met_ns = min(now_ns, self.met_ns + gap_ns)
        self.heard_ns = min(now_ns, self.heard_ns + gap_ns)
        self.echoed_ns = min(now_ns, self.echoed_ns + gap_ns)
        self.vouched_ns = min(now_ns, self.vouched_ns + gap_ns)

    def meet_again(self, now_ns: int) -> None:
        """It was taken for dead, or not trusted, and has shown that it lives, or is trusted again."""
        self.state, self.met_ns, self.ended_ns = State.MET, now_ns, NEVER

    def record(self, now_ns: int) -> Record:
        """For others."""
        if self.is_living:
            fate, since_ns = "living", max(self.proof_ns, self.met_ns if self.state is State.MET else NEVER)
        else:
            fate, since_ns = ("left" if self.state is State.LEFT else "dead"), self.ended_ns
        age_ns = max(0, now_ns - since_ns)
        return Record(self.name, self.incarnation, self.address, self.key, fate, self.beat, age_ns)


def judge(peer: Peer, policy: MembershipPolicy, now_ns: int) -> State:
    """What is to be thought of it now. Who is dead, or has left, is brought back by news alone, not by time."""
    if not peer.is_living:
        return peer.state
    silence_ns = peer.silence_ns(now_ns, policy)
    if silence_ns <= policy.suspect_ns:
        return State.SUSPECT if peer.doubted_by and peer.state in (State.UP, State.SUSPECT) else State.UP
    proof_age_ns = now_ns - peer.proof_ns
    match peer.state:
        case State.UNREACHABLE:
            # Longer than below: who is vouched for now and then does not flap.
            return State.UNREACHABLE if proof_age_ns <= policy.dead_ns else State.DEAD
        case State.MET if now_ns - peer.met_ns <= policy.dead_ns:
            return State.MET
        case State.UP | State.SUSPECT if silence_ns <= policy.dead_ns:
            return State.SUSPECT
    # A proof that came after the silence began: a dead peer's last proof is as old as the silence.
    return State.UNREACHABLE if proof_age_ns <= policy.dead_ns - policy.suspect_ns else State.DEAD


def because(peer: Peer, state: State, policy: MembershipPolicy, now_ns: int) -> str:
    """The judgement in words."""
    if state is State.UP:
        return "it is heard, and hears this node"
    is_heard = now_ns - peer.heard_ns <= policy.suspect_ns
    if state is State.UNREACHABLE:
        if is_heard:
            return f"it is heard here, but has not heard this node for {policy.dead_ns / 1e9:g} s"
        by = f" ({peer.voucher!r}, for one)" if peer.voucher else ""
        return f"others{by} hear it, but this node has not for {policy.dead_ns / 1e9:g} s"
    if state is State.SUSPECT and peer.doubted_by and is_heard:
        return f"it has left, says {peer.doubted_by!r}; it has not said so itself"
    if state is State.SUSPECT:
        return "it does not hear this node" if is_heard else f"silent for {policy.suspect_ns / 1e6:g} ms"
    return f"silent for {policy.dead_ns / 1e9:g} s, and nobody else hears it"
