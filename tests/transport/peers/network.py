"""A network of nodes in one thread, under a virtual clock: the real deciders, links that lose, delay, repeat, reorder and cut.

Each node is a `PeerNode` with a process: it can be killed, stopped, started again. A connection goes one way, from who dials
to who listens, as the real ones do. It breaks when the process at its other end dies; when the link is cut it stalls: what is
said is lost, or comes late when the cut ends, and it carries on only after as long again, as TCP does. All randomness is of
one seed. What each node was told is kept, and what is promised for every moment is checked at every moment: one PeerDown a
PeerUp, incarnations that never go back.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass, field
from functools import partial

from appbackplane.transport.peers import effects as told
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.messages import PeerMessage, body_of, message_from
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.route_table import RouteTable, everything
from appbackplane.transport.peers.view import Identity

MS = 1_000_000
SECOND = 1_000_000_000
#: A connection is refused, or a break is noticed, after one way; it stands after there and back.
EPOCH = 1_700_000_000 * SECOND


def exports_of(table: RouteTable) -> dict[str, tuple[int, frozenset[str], frozenset[str]]]:
    """What is known of the peers that are up: version, operations, topics."""
    return {
        name: (offered.version, frozenset(offered.granted), frozenset(offered.topics))
        for name, offered in table._peers.items()
    }


@dataclass
class Weather:
    """What the links do."""

    delay_ns: tuple[int, int] = (100_000, 2 * MS)
    loss: float = 0.0
    repeat: float = 0.0
    #: Of what is said over a cut link, so much comes when the cut ends, if nobody has hung up (TCP's own retries).
    late: float = 0.5


@dataclass
class Process:
    """One incarnation of a node, and what it has done."""

    node: PeerNode
    key: str
    is_alive: bool = True
    is_stopped: bool = False
    #: Address to the number of the connection that was dialled there.
    dialled: dict[str, int] = field(default_factory=dict)
    connected: set[str] = field(default_factory=set)
    inbox: list[Callable[[], None]] = field(default_factory=list)
    log: list[tuple[int, told.Effect]] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    up: dict[str, int] = field(default_factory=dict)
    tick_at: int = -1
    #: By so much the clock of its host is wrong.
    ahead_ns: int = 0
    #: What it exports beside what all do.
    extra: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return self.node.membership.me.address

    @property
    def name(self) -> str:
        return self.node.membership.me.name


class Network:
    """All nodes, and the time."""

    def __init__(self, seed: int, weather: Weather | None = None, *, policy: MembershipPolicy | None = None) -> None:
        self.random = random.Random(seed)
        self.weather = weather or Weather()
        self.policy = policy or MembershipPolicy()
        self.now_ns = SECOND
        self.processes: dict[str, Process] = {}
        self.is_packed = False
        #: Other names of addresses, as of a host.
        self.aliases: dict[str, str] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._cut: set[tuple[str, str]] = set()
        self._held: list[Callable[[], None]] = []
        #: Connections that have met a cut: since when; and when they will have carried on, as TCP tries ever more seldom.
        self._stalled: dict[int, int] = {}
        self._resumes: dict[int, int] = {}
        #: (observer's incarnation and address, name, address) to the highest incarnation that it saw there.
        self._highest: dict[tuple[str, str, str], int] = {}

    # Processes.

    def start(
        self, name: str, seeds: Iterable[str] = (), *, address: str = "", key: str = "", incarnation: int = 0,
        ahead_ns: int = 0, is_allowed: Callable[[str, str], bool] = lambda _key, _name: True,
        may_offer: Callable[[str, Collection[str]], Set[str]] = everything,
    ) -> Process:  # fmt: skip
        """A new incarnation of a node; `seeds` are addresses, each of which belongs to who has the key of that name.

        `ahead_ns`: by so much the clock of its host is wrong; `Process.ahead_ns` sets it.
        """
        address, key = address or at(name), key or f"key of {name}"
        me = Identity(name, incarnation or EPOCH + self.now_ns + ahead_ns, address, key)
        # Each machine's clock starts somewhere else: nobody may compare two.
        membership = Membership(
            me, partial(self._keys_at, tuple(seeds)), self.now_ns,
            random=random.Random(self.random.random()).random, policy=self.policy, is_allowed=is_allowed,
            unix_ns=lambda: EPOCH + self.now_ns + process.ahead_ns,
        )  # fmt: skip
        node = PeerNode(membership, self.now_ns, may_offer)
        process = self.processes[address] = Process(node, key, ahead_ns=ahead_ns)
        self._wake(process)
        return process

    def kill(self, process: Process) -> None:
        """SIGKILL: those who had dialled it see their connections break, if the links carry that."""
        process.is_alive = False
        for other in list(self.processes.values()):
            for address in [each for each in other.connected if self.aliases.get(each, each) == process.address]:
                self._break(other, address, other.dialled[address])

    def leave(self, process: Process) -> None:
        """It goes in order."""
        self._carry_out(process, process.node.leave(self.now_ns))
        self.kill(process)

    def stop(self, process: Process) -> None:
        """SIGSTOP: connections stay, nobody reads."""
        process.is_stopped = True

    def go_on(self, process: Process) -> None:
        """SIGCONT: its timer fires and all that waited in its sockets is there, in any order."""
        process.is_stopped = False
        waiting, process.inbox = process.inbox, []
        steps = [*waiting, lambda: self._tick(process)]
        if self.random.random() < 0.5:
            steps.reverse()
        for step in steps:
            self._later(self.now_ns, step)

    def living(self) -> list[Process]:
        return [process for process in self.processes.values() if process.is_alive]

    # Links.

    def cut(self, source: Process | str, target: Process | str, *, both: bool = True) -> None:
        """Nothing gets from one to the other."""
        one, other = _address(source), _address(target)
        self._cut |= {(one, other), (other, one)} if both else {(one, other)}

    def part(self, *islands: Iterable[Process]) -> None:
        """No island hears another."""
        groups = [list(island) for island in islands]
        for group in groups:
            for other in groups:
                if group is not other:
                    for one in group:
                        for two in other:
                            self.cut(one, two)

    def heal(self) -> None:
        """All links carry again. A connection that met the cut does so only after as long again."""
        self._cut.clear()
        held, self._held = self._held, []
        for deliver in held:
            self._later(self.now_ns + self._delay(), deliver)
        self._resumes |= {number: 2 * self.now_ns - since_ns for number, since_ns in self._stalled.items()}
        self._stalled.clear()

    # Time.

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        end_ns = self.now_ns + int(seconds * SECOND)
        while self._events and self._events[0][0] <= end_ns:
            self.now_ns, _, step = heapq.heappop(self._events)
            step()
        self.now_ns = end_ns

    def run_until(self, is_so: Callable[[], bool], limit_s: float) -> float:
        """Until it is so, looked at every 50 ms; how long that took. Fails when it takes too long."""
        begun_ns = self.now_ns
        while not is_so():
            assert self.now_ns - begun_ns < limit_s * SECOND, f"not within {limit_s} s: {self.differences()}"
            self.run(0.05)
        return (self.now_ns - begun_ns) / SECOND

    # What is seen.

    def views(self) -> set[frozenset[tuple[str, int, str]]]:
        """Of all that live."""
        return {process.node.membership.view.members() for process in self.living()}

    def agrees(self, *, is_full_mesh: bool = True) -> bool:
        """Whether all living nodes have the one view that is right; and each can reach each."""
        living = self.living()
        right = frozenset((p.name, p.node.membership.me.incarnation, p.address) for p in living)
        if self.views() != {right}:
            return False
        return not is_full_mesh or all(len(process.up) == len(living) - 1 for process in living)

    def differences(self) -> str:
        """For a message."""
        return "\n".join(
            f"{process.name}: "
            + ", ".join(f"{p.name} {p.incarnation - EPOCH} {p.state}" for p in process.node.membership.view)
            for process in self.living()
        )

    def seen(
        self, kind: type[told.Effect], process: Process | None = None, since_ns: int = 0
    ) -> list[tuple[int, told.Effect]]:
        """Effects of one kind, in order of time."""
        of = [process] if process else list(self.processes.values())
        return sorted(
            ((at, e) for p in of for at, e in p.log if isinstance(e, kind) and at >= since_ns), key=lambda each: each[0]
        )

    # Below: how it is done.

    def _keys_at(self, seeds: Iterable[str]) -> dict[str, str]:
        return {seed: self._key_at(seed) for seed in seeds}

    def _key_at(self, address: str) -> str:
        process = self.processes.get(self.aliases.get(address, address))
        return process.key if process else f"key of {address.removeprefix('tcp://')}"

    def _delay(self) -> int:
        return self.random.randint(*self.weather.delay_ns)

    def _later(self, at_ns: int, step: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (at_ns, self._number, step))

    def _wake(self, process: Process) -> None:
        due_ns = max(self.now_ns, process.node.next_ns())
        if process.tick_at < 0 or due_ns < process.tick_at:
            process.tick_at = due_ns
            self._later(due_ns, lambda: self._tick(process, due_ns))

    def _tick(self, process: Process, due_ns: int = -1) -> None:
        if process.is_alive and not process.is_stopped and due_ns in (-1, process.tick_at):
            process.tick_at = -1
            self._carry_out(process, process.node.tick(self.now_ns))

    def _carry_out(self, process: Process, effects: list[told.Effect]) -> None:
        for effect in effects:
            process.log.append((self.now_ns, effect))
            match effect:
                case told.Dial():
                    self._dial(process, effect)
                case told.Hangup():
                    assert effect.address in process.dialled, f"hung up on what was not dialled: {effect}"
                    del process.dialled[effect.address]
                    process.connected.discard(effect.address)
                case told.Send():
                    assert effect.address in process.connected, f"said on a line that does not stand: {effect}"
                    self._send(process, effect.address, effect.message)
                case told.PeerUp():
                    self._peer_up(process, effect)
                case told.NodeUnreachable():
                    assert process.up.pop(effect.name, None) == effect.incarnation, (
                        f"a PeerDown without its PeerUp: {effect}"
                    )
        self._wake(process)

    def _peer_up(self, process: Process, effect: told.PeerUp) -> None:
        assert effect.name not in process.up, f"two PeerUp without a PeerDown between: {effect}"
        process.up[effect.name] = effect.incarnation
        place = (process.address, effect.name, effect.address)
        assert effect.incarnation >= self._highest.get(place, 0), f"an incarnation that went back: {effect}"
        if process.is_alive:
            self._highest[place] = effect.incarnation

    def _dial(self, process: Process, dial: told.Dial) -> None:
        assert dial.address not in process.dialled, f"dialled twice: {dial}"
        self._number += 1
        number = process.dialled[dial.address] = self._number
        target = self.processes.get(self.aliases.get(dial.address, dial.address))
        if self._is_cut(process.address, dial.address):
            return
        if target is None or not target.is_alive:
            self._later(self.now_ns + 2 * self._delay(), lambda: self._break(process, dial.address, number, "refused"))
        elif target.key != dial.key:
            self._later(
                self.now_ns + 2 * self._delay(), lambda: self._break(process, dial.address, number, "wrong key")
            )
        else:
            self._later(self.now_ns + 2 * self._delay(), lambda: self._connect(process, target, dial.address, number))

    def _connect(self, process: Process, target: Process, address: str, number: int) -> None:
        if process.dialled.get(address) != number or not process.is_alive or not target.is_alive:
            return
        if process.is_stopped:
            process.inbox.append(lambda: self._connect(process, target, address, number))
            return
        process.connected.add(address)
        self._carry_out(process, process.node.connected(address, self.now_ns))

    def _break(self, process: Process, address: str, number: int, why: str = "broken") -> None:
        def lose() -> None:
            if process.is_stopped:
                process.inbox.append(lose)
            elif process.is_alive and process.dialled.get(address) == number:
                del process.dialled[address]
                process.connected.discard(address)
                self._carry_out(process, process.node.lost(address, why, self.now_ns))

        if not self._is_cut(address, process.address):
            self._later(self.now_ns + self._delay(), lose)

    def _send(self, process: Process, address: str, message: PeerMessage) -> None:
        process.sent[type(message).__name__] += 1
        target = self.processes[self.aliases.get(address, address)]
        number = process.dialled[address]
        packed = message_from(body_of(message)) if self.is_packed else message
        assert packed == message

        def deliver() -> None:
            if not target.is_alive:
                return
            if target.is_stopped:
                target.inbox.append(deliver)
                return
            self._carry_out(target, target.node.received(process.key, packed, self.now_ns))

        if self._is_cut(process.address, address):
            self._stalled.setdefault(number, self.now_ns)
            if self.random.random() < self.weather.late:
                self._held.append(deliver)
            return
        if self.now_ns < self._resumes.get(number, 0):
            return
        if self.random.random() < self.weather.loss:
            return
        copies = 2 if self.random.random() < self.weather.repeat else 1
        for _ in range(copies):
            self._later(self.now_ns + self._delay(), deliver)

    def _is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut


def at(name: str) -> str:
    """Where a node listens, unless it is said otherwise."""
    return f"tcp://{name}"


def _address(process: Process | str) -> str:
    return process if isinstance(process, str) else process.address
