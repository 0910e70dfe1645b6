"""Admission: which nodes are let into the mesh when they say hello, and how the others are refused.

The connection proves the key; the message is only the node's claim. Checked in order: this node's own address, the protocol,
the stated address, the key's right to the name, an incarnation in the future, the name, and room. A refused node gets the
reason, once a second at most, and may come again, as the reason may pass. Costs one connection a refusal, 32 at a time.
"""

from msgspec.structs import replace

from .effects import Down, Effect, NameTaken, PeerState, Refused, RefusedBy, Send
from .mesh import Mesh
from .messages import INCARNATION_MAX, Hello, Refusal, incompatible
from .naming import NameClaim, claim, keeps, taken
from .peer import Peer

#: At most this many refusals are remembered, by address and key, so that each is sent once a second, and reported once.
REFUSED_MAX = 128


class MeshAdmission:
    """Decides on the hellos and refusals of other nodes."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        #: By address and key: when the last refusal was sent, and its reason.
        self._refused: dict[tuple[str, str], tuple[int, str]] = {}

    def hello(self, key: str, hello: Hello, now_ns: int) -> tuple[Peer | None, list[Effect]]:
        """(the peer, if it is admitted; effects). The caller records the proof of life that the hello carries."""
        mesh = self._mesh
        me = mesh.me
        if hello.address == me.address:
            return None, self._from_own_address(key, hello)
        reason = incompatible(hello) or self._elsewhere(key, hello)
        if reason is None and not mesh.is_allowed(key, hello.name):
            reason = f"the key of {hello.address} may not bear the node name {hello.name!r}: trust it for that name"
        reason = reason or self._from_the_future(hello)
        if reason is not None:
            return None, self._refuse(key, hello, reason, "", now_ns)
        if hello.name == me.name:
            return None, self._namesake(key, hello, now_ns)
        peer = mesh.view.get(hello.name)
        if peer is None:
            if not mesh.has_room():
                mesh.over_count += 1
                reason = (
                    f"this system has room for {mesh.policy.members_max} nodes (members_max), and as many are there"
                )
                return None, self._refuse(key, hello, reason, "", now_ns)
            peer = _of(key, hello, now_ns)
            return peer, mesh.meet(peer, now_ns)
        return self._known(peer, key, hello, now_ns)

    def refusal(self, peer: Peer | None, key: str, refusal: Refusal, now_ns: int) -> list[Effect]:
        """A peer refuses this node, for itself alone: other peers' acceptance stands, even if this one claims otherwise."""
        mesh = self._mesh
        if mesh.me.incarnation <= refusal.known < INCARNATION_MAX:
            if why_not := self._is_accepted(key) or mesh.why_not_become(refusal.known, now_ns):
                mesh.incredible_count += 1
                effects: list[Effect] = [RefusedBy(refusal.name, refusal.dialled, why_not)]
                return effects + mesh.lines.pause(refusal.dialled, mesh.policy.refused_ns, now_ns)
            return mesh.become(
                refusal.known + 1,
                f"{refusal.name!r} knows a later incarnation of this node: the clock was set back",
                now_ns,
            )
        if refusal.known:
            return []
        if effects := mesh.begin_anew(now_ns):
            return effects
        if refusal.holder and refusal.holder != mesh.name_holder:
            mesh.name_holder = refusal.holder
            effects.append(NameTaken(mesh.me.name, refusal.holder, refusal.reason))
        effects.append(RefusedBy(refusal.name, refusal.dialled, refusal.reason))
        if peer is not None and peer.is_living:
            kind = Down.NAME_TAKEN if refusal.holder else Down.UNREACHABLE
            effects += mesh.move(peer, PeerState.DEAD, f"it refuses this node: {refusal.reason}", now_ns, kind)
        effects += mesh.lines.pause(refusal.dialled, mesh.policy.refused_ns, now_ns)
        return effects

    def _known(self, peer: Peer, key: str, hello: Hello, now_ns: int) -> tuple[Peer | None, list[Effect]]:
        mesh = self._mesh
        match claim(peer, hello.incarnation, hello.address, key):
            case NameClaim.SAME:
                return (None, []) if peer.state is PeerState.LEFT else (peer, [])
            case NameClaim.SUCCESSOR:
                successor = _of(key, hello, now_ns)
                return successor, mesh.succeed(peer, successor, "it has been started again", now_ns)
            case NameClaim.FORMER if self._has_heard_since(peer, hello):
                successor = _of(key, hello, now_ns)
                return successor, mesh.succeed(peer, successor, "another process listens at its address now", now_ns)
            case NameClaim.FORMER:
                reason = f"{peer.name!r} is known by a later incarnation, {peer.incarnation}"
                word = self._word(hello, reason, now_ns, known=peer.incarnation)
                return None, [Send(peer.address, word)] if mesh.lines.stands(peer.address) else []
            case NameClaim.ELDER:
                reason = taken(peer.name, hello.address)
                word = mesh.say(Refusal, peer, now_ns, reason=reason, holder=hello.address, dialled=peer.reached_as)
                effects: list[Effect] = [Refused(peer.name, peer.address, peer.key, reason)]
                effects += mesh.lines.dismiss(peer.address, peer.key, word, now_ns)
                effects += mesh.end(peer, Down.NAME_TAKEN, reason)
                elder = _of(key, hello, now_ns)
                return elder, [*effects, *mesh.meet(elder, now_ns)]
            case NameClaim.YOUNGER:
                return None, self._refuse(key, hello, taken(peer.name, peer.address), peer.address, now_ns)

    def _is_accepted(self, key: str) -> str:
        """Why this node keeps its incarnation when the holder of `key` knows a later one; "": it may take the next one.

        A later one ends all that is outstanding with all peers, and a single peer must not be able to cause that.
        """
        others = [peer.name for peer in self._mesh.view if peer.is_told_up and peer.key != key]
        return (
            f"it knows a later incarnation of this node; other peers, such as {others[0]!r}, do not" if others else ""
        )

    def _has_heard_since(self, peer: Peer, hello: Hello) -> bool:
        """Whether an earlier incarnation lives although a later one is known: it echoes a message that this node sent after
        the later one's last. So a clock that was set back does no harm where this node is not the only peer.
        """
        is_echo = hello.to == self._mesh.me.incarnation and hello.echo_ns > max(peer.heard_ns, peer.ended_ns)
        return not peer.is_told_up and is_echo

    def _namesake(self, key: str, hello: Hello, now_ns: int) -> list[Effect]:
        """Another node bears this node's name: refuse it, or report that it keeps the name."""
        me = self._mesh.me
        if keeps(me.incarnation, me.address, hello.incarnation, hello.address):
            return self._refuse(key, hello, taken(me.name, me.address), me.address, now_ns)
        if self._mesh.name_holder == hello.address:
            return []
        self._mesh.name_holder = hello.address
        return [NameTaken(me.name, hello.address, taken(me.name, hello.address))]

    def _from_own_address(self, key: str, hello: Hello) -> list[Effect]:
        """A hello of this node itself, which has dialled an alias of its address; or a delayed one of its former self."""
        me = self._mesh.me
        if (hello.name, hello.incarnation, key) == (me.name, me.incarnation, me.key):
            is_peer = self._mesh.view.at(hello.dialled) is not None
            return [] if is_peer else self._mesh.lines.forget_seed(hello.dialled)
        self._mesh.stale_count += 1
        return []

    def _refuse(self, key: str, hello: Hello, reason: str, holder: str, now_ns: int) -> list[Effect]:
        mesh = self._mesh
        who = hello.address, key
        before = self._refused.pop(who, None)
        if before is not None and now_ns - before[0] < mesh.policy.attempt_ns:
            self._refused[who] = before
            return []
        if len(self._refused) >= REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[who] = now_ns, reason
        effects: list[Effect] = []
        if before is None or before[1] != reason:
            effects.append(Refused(hello.name, hello.address, key, reason))
        word = self._word(hello, reason, now_ns, holder=holder)
        return [*effects, *mesh.lines.dismiss(hello.address, key, word, now_ns)]

    def _elsewhere(self, key: str, hello: Hello) -> str | None:
        """Why the node cannot be listening at the address that it states; None: it may."""
        mesh, address = self._mesh, hello.address
        if mesh.lines.is_seed(address) and mesh.lines.key_at(address) != key:
            here = f"[peers] of {mesh.me.name!r}"
            return f"{here} expects another key at {address}: correct [node] listen of {hello.name!r}, or {here}"
        neighbour = mesh.view.at(address)
        if neighbour is None or neighbour.key == key or neighbour.name == hello.name:
            return None
        if neighbour.is_told_up:
            return f"{address} is where node {neighbour.name!r} listens: correct [node] listen of {hello.name!r}"
        if mesh.lines.may_try(address, key):
            return None
        return (
            f"node {neighbour.name!r} says that it listens at {address}, too: correct [node] listen of one of the two"
        )

    def _from_the_future(self, hello: Hello) -> str | None:
        """Why its incarnation is too far ahead of this host's clock; None: it is not, or it was admitted as that one before.

        If others accepted it, the node could not come back once its clock is right: its next incarnation would be a lower one.
        """
        mesh = self._mesh
        days, known = mesh.days_ahead(hello.incarnation), mesh.view.get(hello.name)
        if days is None or (known is not None and known.incarnation == hello.incarnation):
            return None
        mesh.incredible_count += 1
        return (
            f"{hello.name!r} was started {days:,} days in the future by the clock of {mesh.me.name!r}: correct whichever "
            "clock is wrong"
        )

    def _word(self, hello: Hello, reason: str, now_ns: int, *, known: int = 0, holder: str = "") -> Refusal:
        word = self._mesh.say(Refusal, None, now_ns, reason=reason, known=known, holder=holder, dialled=hello.dialled)
        return replace(word, to=hello.incarnation)


def _of(key: str, hello: Hello, now_ns: int) -> Peer:
    return Peer(hello.name, hello.incarnation, hello.address, key, now_ns)
