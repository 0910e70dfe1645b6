"""Whatever happens to nodes and links, in any order: once it is quiet again, all views agree, and nothing has been told twice.

Hypothesis draws the story; the network holds at each moment that incarnations do not go back and that each PeerUp has its
PeerDown.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from appbackplane.transport.peers.effects import NodeUnreachable, PeerUp
from appbackplane.transport.peers.policy import MembershipPolicy
from tests.profiles import examples
from tests.transport.peers.network import MS, SECOND, Network, Process, Weather, at

#: Beyond the time in which a partition heals: a process that just died has to be noticed first.
QUIET_S = (MembershipPolicy().heal_ns_max + MembershipPolicy().death_ns_max) / SECOND
NAMES = [f"n{i}" for i in range(5)]

Act = Literal["cut", "cut one way", "part", "heal", "kill", "leave", "start", "stop", "go on"]
steps = st.tuples(
    st.sampled_from(Act.__args__),  # type: ignore[attr-defined]
    st.integers(0, 4), st.integers(1, 4), st.sampled_from([0.05, 0.3, 1.0, 3.0, 6.0]),
)  # fmt: skip
weathers = st.builds(
    Weather,
    delay_ns=st.sampled_from([(MS, 2 * MS), (0, 20 * MS), (0, 100 * MS)]),
    loss=st.sampled_from([0.0, 0.02, 0.05]),
    repeat=st.sampled_from([0.0, 0.05]),
    late=st.sampled_from([0.0, 0.5, 1.0]),
)


def do(network: Network, act: str, which: int, other: int) -> None:
    """One step; what makes no sense now is left out."""
    processes = [network.processes[at(name)] for name in NAMES]
    one, two = processes[which], processes[(which + other) % 5]
    match act:
        case "cut" | "cut one way":
            network.cut(one, two, both=act == "cut")
        case "part":
            network.part(processes[:other], processes[other:])
        case "heal":
            network.heal()
        case "kill" | "leave" if one.is_alive and len(network.living()) > 2:
            network.kill(one) if act == "kill" else network.leave(one)
        case "start" if not one.is_alive:
            network.start(one.name, map(at, NAMES))
        case "stop" if one.is_alive:
            network.stop(one)
        case "go on" if one.is_alive and one.is_stopped:
            network.go_on(one)


def told(one: Process, kind: type[PeerUp] | type[NodeUnreachable], two: Process) -> list[tuple[int, str]]:
    """When one was told so of the other as it is now, and why."""
    incarnation = two.node.membership.me.incarnation
    return [
        (at_ns, str(effect))
        for at_ns, effect in one.log
        if isinstance(effect, kind) and (effect.name, effect.incarnation) == (two.name, incarnation)
    ]


def is_still_taken_for_up(one: Process, two: Process) -> bool:
    """Whether one gave up the other by itself, which had it up, and has not given it up since."""
    for given_up_ns, why in told(one, NodeUnreachable, two):
        before = [up_ns for up_ns, _ in told(two, PeerUp, one) if up_ns <= given_up_ns]
        after = [down_ns for down_ns, _ in told(two, NodeUnreachable, one) if before and down_ns >= before[-1]]
        if before and not after and "given this node up" not in why:
            return True
    return False


#: Not `explain`: it traces each line, for minutes.
PHASES = [Phase.explicit, Phase.generate, Phase.shrink]


@settings(
    max_examples=examples(20),
    phases=PHASES,
)
@given(st.integers(0, 1 << 32), weathers, st.booleans(), st.lists(steps, max_size=12))
def test_views_agree_when_it_is_quiet(
    seed: int, weather: Weather, is_together: bool, story: list[tuple[Act, int, int, float]]
) -> None:
    """And who was given up by the other has given it up as well, so that nothing waits at one end for what the other ended."""
    network = Network(seed, weather)
    network.is_packed = seed % 4 == 0
    # Who has not met the others when all his seeds go for good can meet nobody.
    for name in NAMES:
        network.start(name, map(at, NAMES[:3] if is_together else NAMES))
    if is_together:
        network.run_until(network.agrees, 10)
    for act, which, other, seconds in story:
        do(network, act, which, other)
        network.run(seconds)
    network.heal()
    for process in network.living():
        if process.is_stopped:
            network.go_on(process)
    # All of it, also where they agree at once: one may be about to be given up for what was before.
    network.run(QUIET_S)
    network.run_until(network.agrees, 2)
    for one in network.living():
        for two in network.living():
            assert not is_still_taken_for_up(one, two), f"{one.name} and {two.name}"


def test_a_story_can_be_told_again() -> None:
    """The same seed, the same frames: or a failure could not be looked into."""

    def log() -> Counter[str]:
        network = Network(7, Weather(delay_ns=(0, 100 * MS), loss=0.05, repeat=0.05))
        for name in NAMES:
            network.start(name, map(at, NAMES[:3]))
        for act, which in (("cut", 1), ("kill", 2), ("start", 2), ("part", 3), ("heal", 0)):
            do(network, act, which, 2)
            network.run(2)
        return Counter(f"{at_ns} {effect}" for process in network.processes.values() for at_ns, effect in process.log)

    assert log() == log()
