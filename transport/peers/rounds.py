"""Rounds: the messages that a node sends with each heartbeat, to a peer that comes up, and in answer to questions.

In each round: one heartbeat per peer, or a hello where the peer has not answered yet; one inquiry about all doubted peers, to
a few others drawn at random; one `Sync`, to a peer whose view differs. So a node's frames grow in proportion to its peers,
even if all goes wrong. News is everywhere after a few rounds: each doubles the number of nodes that know it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from .effects import Effect, PeerState, Send
from .mesh import Mesh, session
from .messages import RECORDS_MAX, Heartbeat, Inquiry, Leave, NodeRecord, Sync, Vouch
from .peer import Peer

T = TypeVar("T")
#: States in which the peer knows this node's identity: it gets heartbeats instead of hellos.
_ACQUAINTED = frozenset((PeerState.UP, PeerState.SUSPECT))


def beat(mesh: Mesh, now_ns: int) -> list[Effect]:
    """Messages of the next round."""
    mesh.beat += 1
    effects: list[Effect] = []
    for address in mesh.lines.standing():
        peer = mesh.view.at(address)
        if peer is not None and peer.state in _ACQUAINTED:
            effects.append(Send(address, _heartbeat(mesh, peer, now_ns)))
        else:
            effects.append(mesh.hello(address, now_ns))
    reachable = [peer for peer in mesh.view if peer.state is PeerState.UP and mesh.lines.stands(peer.address)]
    return effects + _inquire(mesh, reachable, now_ns) + _sync(mesh, reachable, now_ns)


def greet(mesh: Mesh, peer: Peer, now_ns: int) -> list[Effect]:
    """Send a heartbeat to a peer that came up, so that this node is up there, too; to the first of all also a `Sync`."""
    if not mesh.lines.stands(peer.address):
        return []
    effects: list[Effect] = [Send(peer.address, _heartbeat(mesh, peer, now_ns))]
    if not any(each.is_told_up for each in mesh.view if each is not peer):
        records = mesh.view.records(now_ns)[:RECORDS_MAX]
        effects.append(Send(peer.address, mesh.say(Sync, peer, now_ns, records=records)))
    return effects


def vouch(mesh: Mesh, asker: Peer, names: Sequence[str], now_ns: int) -> list[Effect]:
    """Answer an inquiry with the records of nodes that were alive within `suspect_ns`, or have left."""
    known = [
        peer.record(now_ns)
        for peer in map(mesh.view.get, names)
        if peer is not None
        and (peer.state is PeerState.LEFT or (peer.is_living and now_ns - peer.proof_ns <= mesh.policy.suspect_ns))
    ]
    if not known or not mesh.lines.stands(asker.address):
        return []
    return [Send(asker.address, mesh.say(Vouch, asker, now_ns, records=tuple(known[:RECORDS_MAX])))]


def answer(mesh: Mesh, asker: Peer, told: Sequence[NodeRecord], now_ns: int) -> list[Effect]:
    """Answer a `Sync` with the records that its sender lacks."""
    lacking = mesh.view.lacking(told, now_ns)
    if not lacking or not mesh.lines.stands(asker.address):
        return []
    return [Send(asker.address, mesh.say(Sync, asker, now_ns, records=lacking[:RECORDS_MAX], is_answer=True))]


def leave(mesh: Mesh, now_ns: int) -> list[Effect]:
    """Announce to all peers that this node leaves, and close the connections behind it."""
    effects: list[Effect] = []
    for address in list(mesh.lines.standing()):
        peer = mesh.view.at(address)
        if peer is not None:
            effects.append(Send(address, mesh.say(Leave, peer, now_ns)))
    return effects + mesh.lines.close()


def _heartbeat(mesh: Mesh, peer: Peer, now_ns: int) -> Heartbeat:
    routes, load = mesh.routes, mesh.load
    return mesh.say(Heartbeat, peer, now_ns, digest=mesh.view.digest(), routes=routes, load=load, **session(peer))


def _inquire(mesh: Mesh, reachable: list[Peer], now_ns: int) -> list[Effect]:
    doubted = [peer for peer in mesh.view if peer.is_in_doubt(now_ns, mesh.policy)]
    if not doubted:
        return []
    helpers = drawn(reachable, mesh.policy.helpers, mesh.random)
    names = tuple(peer.name for peer in doubted[:RECORDS_MAX])
    return [Send(peer.address, mesh.say(Inquiry, peer, now_ns, names=names)) for peer in helpers]


def _sync(mesh: Mesh, reachable: list[Peer], now_ns: int) -> list[Effect]:
    digest = mesh.view.digest()
    differing = [peer for peer in reachable if peer.digest not in (-1, digest)]
    records = mesh.view.records(now_ns)[:RECORDS_MAX] if differing else ()
    return [
        Send(peer.address, mesh.say(Sync, peer, now_ns, records=records)) for peer in drawn(differing, 1, mesh.random)
    ]


def drawn(among: Sequence[T], count: int, random: Callable[[], float]) -> list[T]:
    """Up to `count` of these, drawn at random."""
    left = list(among)
    return [left.pop(int(random() * len(left)) % len(left)) for _ in range(min(count, len(left)))]
