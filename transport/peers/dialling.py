"""Dialling: which addresses are dialled, when, and when an attempt is given up.

One connection per address, one way, from the dialler to the listener: each end keeps up its own. A connection without an echo
within `attempt_ns` (longer once it is established) is dialled afresh: after a partition TCP itself would retry at ever longer
intervals. Waits double from `backoff_ns` to `backoff_ns_max`, less up to a half at random. So nodes that lost a peer together
do not all redial it in one moment. Seeds are dialled for ever, others for as long as membership knows them. If several keys
claim one address, each is dialled in turn until one is proved there. Pure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .effects import Dial, DialFailed, Effect, Hangup, Send
from .messages import PeerMessage
from .policy import MembershipPolicy

#: Handshakes in progress at a time. Where 64 nodes each began 63 at once on two cores, none was done within its second, and
#: all began anew, for ever: it is faster to finish a few first.
BEGUN_MAX = 4
#: A dial that takes longer holds up no other: the address may be dead, as behind a partition (32 in 2 s). Where successful
#: dials take long, as on busy hosts, the limit is `BEGUN_SHARE` times their average, because each late dial makes more work.
#: (Without that 64 nodes on two cores never met.)
BEGUN_NS = 250_000_000
BEGUN_SHARE = 4
#: Weight of the newest in the average duration of dials.
TOOK_WEIGHT = 0.25
#: An established connection is given up after an attempt's time, doubled so often at most.
PATIENCE_MAX = 2
#: Addresses that are dialled only to deliver a refusal; further ones wait for their next attempt.
DISMISSED_MAX = 32
#: Addresses with a remembered key that was last dialled there in vain. As many as a node remembers of others by default: 64
#: members and 128 dead. If an address is forgotten, its key is tried again.
IN_VAIN_MAX = 192


@dataclass(slots=True, eq=False)
class DialTarget:
    """An address, and the state of its connection."""

    address: str
    key: str
    due_ns: int
    is_seed: bool = False
    is_dialled: bool = False
    is_connected: bool = False
    #: An echo has come since it was established.
    is_good: bool = False
    dialled_ns: int = 0
    connected_ns: int = 0
    failures: int = 0
    #: Address of the node that this seed reaches, too; while that line is good, the seed is not dialled.
    alias_of: str = ""
    #: The only message to be sent once it is established; then it is closed.
    last_word: PeerMessage | None = None


class Dialling:
    """All addresses that a node dials."""

    def __init__(self, policy: MembershipPolicy, random: Callable[[], float]) -> None:
        self._policy, self._random = policy, random
        self._lines: dict[str, DialTarget] = {}
        #: By address: the key that was last dialled there without a handshake. Kept when the line is dropped: a node that
        #: claims the address again, as another incarnation, does not get another try.
        self._in_vain: dict[str, str] = {}
        #: Average duration of recent dials that succeeded, ns.
        self._took_ns = 0.0

    def add_seed(self, address: str, key: str, now_ns: int) -> list[Effect]:
        """Dial this address until it is known to be this node's own. A seed with a new key gets a new connection."""
        line = self._lines.get(address)
        if line is not None:
            line.is_seed = False
        effects = self.want(address, key, now_ns)
        self._lines[address].is_seed = True
        return effects

    def want(self, address: str, key: str, now_ns: int) -> list[Effect]:
        """Dial a peer that listens there. A line under another key is given up, except that of a seed: its key stays."""
        line = self._lines.get(address)
        if line is not None and (line.is_seed if line.key != key else line.last_word is None):
            return []
        effects = self._close(line)
        self._lines[address] = DialTarget(address, key, now_ns, line is not None and line.is_seed)
        return effects

    def hasten(self, address: str, now_ns: int) -> None:
        """Cut the wait short: a message of the node there has arrived, so it can be reached, or will be in a moment."""
        line = self._lines.get(address)
        if line is not None and not line.is_dialled and line.due_ns > now_ns:
            line.failures, line.due_ns = 0, now_ns

    def drop(self, address: str, *, is_flushed: bool = False) -> list[Effect]:
        """No peer is wanted at this address any more: hang up. A seed stays, and is dialled with the longest wait."""
        line = self._lines.get(address)
        if line is None:
            return []
        effects = self._close(line, is_flushed=is_flushed)
        if not line.is_seed:
            del self._lines[address]
        return effects

    def forget_seed(self, address: str) -> list[Effect]:
        """Stop dialling a seed that is this node itself."""
        line = self._lines.get(address)
        if line is None or not line.is_seed:
            return []
        line.is_seed = False
        return self.drop(address)

    def is_alias(self, address: str, of: str, key: str) -> list[Effect]:
        """This seed reaches the node that listens at `of`, too: one connection is enough."""
        line = self._lines.get(address)
        if line is None or not line.is_seed or line.key != key or line.alias_of == of:
            return []
        line.alias_of = of
        return self._close(line)

    def pause(self, address: str, wait_ns: int, now_ns: int) -> list[Effect]:
        """Hang up, and dial again after `wait_ns`."""
        line = self._lines.get(address)
        if line is None:
            return []
        effects = self._close(line)
        line.due_ns = now_ns + wait_ns
        return effects

    def dismiss(self, address: str, key: str, word: PeerMessage, now_ns: int) -> list[Effect]:
        """Send one last message to the holder of `key`, if it listens there, and hang up. Another key's line is left alone."""
        line = self._lines.get(address)
        if line is not None and line.key != key and self.has(address):
            return []
        if line is not None and line.is_connected:
            return [Send(address, word), *self.drop(address, is_flushed=True)]
        if sum(each.last_word is not None for each in self._lines.values()) >= DISMISSED_MAX:
            return []
        effects = self._close(line)
        self._lines[address] = DialTarget(address, key, now_ns, line is not None and line.is_seed, last_word=word)
        return effects

    def connected(self, address: str, now_ns: int) -> tuple[bool, list[Effect]]:
        """(whether to send a hello there, further effects)."""
        line = self._lines.get(address)
        if line is None or not line.is_dialled:  # hung up on meanwhile
            return False, []
        line.is_connected, line.connected_ns = True, now_ns
        self._in_vain.pop(address, None)
        self._took_ns += TOOK_WEIGHT * (now_ns - line.dialled_ns - self._took_ns)
        if line.last_word is None:
            return True, []
        effects: list[Effect] = [Send(address, line.last_word), *self._close(line, is_flushed=True)]
        self._after_last_word(line, now_ns)
        return False, effects

    def echoed(self, address: str, echo_ns: int) -> None:
        """A message sent at `echo_ns` was echoed: the line is good if it was sent on the present connection."""
        line = self._lines.get(address)
        if line is not None and not line.is_good and line.is_connected and echo_ns >= line.connected_ns:
            line.is_good, line.failures = True, 0

    def lost(self, address: str, why: str, now_ns: int) -> list[Effect]:
        """The connection was refused, or has broken: dial again after a wait."""
        line = self._lines.get(address)
        if line is None or not line.is_dialled:
            return []
        self._end(line)
        line.due_ns = now_ns
        return self.again(address, why, now_ns)

    def again(self, address: str, why: str, now_ns: int) -> list[Effect]:
        """Hang up, and dial after a wait."""
        line = self._lines.get(address)
        if line is None:
            return []
        if line.last_word is not None:
            effects = self._close(line)
            self._after_last_word(line, now_ns)
            return effects
        if not line.is_dialled and line.due_ns > now_ns:
            return []
        effects = self._close(line)
        wait_ns = self.backoff_ns(line.failures)
        line.failures += 1
        line.due_ns = now_ns + wait_ns
        return [*effects, DialFailed(address, why, line.failures, wait_ns)]

    def backoff_ns(self, failures: int) -> int:
        """The wait after so many failures before this one, ns."""
        most = min(self._policy.backoff_ns_max, self._policy.backoff_ns << min(failures, 32))
        return most - int(self._random() * most / 2)

    def tick(self, now_ns: int) -> list[Effect]:
        """Give up attempts whose time is over, and begin those that are due."""
        effects: list[Effect] = []
        for line in list(self._lines.values()):
            limit_ns = self._limit_ns(line)
            if line.is_dialled and not line.is_good and now_ns >= limit_ns:
                why = "connected, but nobody answers" if line.is_connected else "no connection"
                within_s = (limit_ns - (line.connected_ns if line.is_connected else line.dialled_ns)) / 1e9
                effects += self.again(line.address, f"{why} within {within_s:g} s", now_ns)
        due = [
            line
            for line in self._lines.values()
            if not line.is_dialled and now_ns >= line.due_ns and not self._is_covered(line)
        ]
        for _ in range(min(len(due), BEGUN_MAX - len(self._begun(now_ns)))):
            line = due.pop(int(self._random() * len(due)))  # at random, or all nodes would begin with the same
            line.is_dialled, line.dialled_ns = True, now_ns
            effects.append(Dial(line.address, line.key))
        return effects

    def next_ns(self, now_ns: int) -> int:
        """When `tick` is due next."""
        begun = self._begun(now_ns)
        is_full = len(begun) >= BEGUN_MAX
        due = [min(begun) + self._begun_ns] if is_full else []
        due += [
            self._limit_ns(line) if line.is_dialled else line.due_ns
            for line in self._lines.values()
            if not line.is_good and not self._is_covered(line) and (line.is_dialled or not is_full)
        ]
        return min(due, default=now_ns + self._policy.attempt_ns)

    def close(self) -> list[Effect]:
        """Hang up everywhere, after the last messages have left."""
        effects = [effect for line in self._lines.values() for effect in self._close(line, is_flushed=True)]
        self._lines.clear()
        return effects

    def standing(self) -> Iterator[str]:
        """Addresses whose connection is established."""
        return (line.address for line in self._lines.values() if line.is_connected)

    def stands(self, address: str) -> bool:
        """Whether the connection to this address is established."""
        line = self._lines.get(address)
        return line is not None and line.is_connected

    def reaches(self, address: str, key: str) -> bool:
        """Whether the connection to this address is established, and its other end has proved that it has this key."""
        return self.stands(address) and self.key_at(address) == key

    def may_try(self, address: str, key: str) -> bool:
        """Whether a node that claims this key may be dialled there now, in place of the present one.

        Not at a seed of another key; nor while a connection under another key stands, or that key has not had its turn. So a
        claim ends neither, however often it is repeated.
        """
        line = self._lines.get(address)
        if line is None or line.key == key:
            return True
        if line.is_seed or line.is_connected:
            return False
        return line.last_word is not None or self._in_vain.get(address) == line.key

    def has(self, address: str) -> bool:
        """Whether this address is dialled as a peer's or as a seed, and not only for a last message."""
        line = self._lines.get(address)
        return line is not None and line.last_word is None

    def key_at(self, address: str) -> str | None:
        """The key that is expected at this address; None: it is not dialled."""
        line = self._lines.get(address)
        return None if line is None else line.key

    def is_seed(self, address: str) -> bool:
        """Whether this address is a seed, which stays whichever node listens there."""
        line = self._lines.get(address)
        return line is not None and line.is_seed

    @property
    def _begun_ns(self) -> int:
        return min(self._policy.attempt_ns, max(BEGUN_NS, int(BEGUN_SHARE * self._took_ns)))

    def _begun(self, now_ns: int) -> list[int]:
        """Start times of the dials in progress that hold up others."""
        return [
            line.dialled_ns
            for line in self._lines.values()
            if line.is_dialled and not line.is_connected and now_ns - line.dialled_ns < self._begun_ns
        ]

    def _limit_ns(self, line: DialTarget) -> int:
        """When a line without an echo is given up. Once it is established, only the peer's connection back is missing.

        That is waited for ever longer: where hosts are busy, each new connection keeps them busier.
        """
        if not line.is_connected:
            return line.dialled_ns + self._policy.attempt_ns
        return line.connected_ns + (self._policy.attempt_ns << min(line.failures, PATIENCE_MAX))

    def _is_covered(self, line: DialTarget) -> bool:
        other = self._lines.get(line.alias_of) if line.alias_of else None
        return other is not None and other.is_good

    def _after_last_word(self, line: DialTarget, now_ns: int) -> None:
        line.last_word = None
        if line.is_seed:
            line.due_ns = now_ns + self._policy.refused_ns
        else:
            del self._lines[line.address]

    def _close(self, line: DialTarget | None, *, is_flushed: bool = False) -> list[Effect]:
        if line is None or not line.is_dialled:
            return []
        self._end(line)
        line.due_ns = line.dialled_ns + self._policy.backoff_ns_max
        return [Hangup(line.address, is_flushed)]

    def _end(self, line: DialTarget) -> None:
        if not line.is_connected:
            self._in_vain.pop(line.address, None)
            if len(self._in_vain) >= IN_VAIN_MAX:
                del self._in_vain[next(iter(self._in_vain))]
            self._in_vain[line.address] = line.key
        line.is_dialled = line.is_connected = line.is_good = False
