"""Judgement: what follows from who was heard when. Each case of the tables, and the promises between them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport.peers.effects import PeerState
from appbackplane.transport.peers.messages import NodeRecord
from appbackplane.transport.peers.news import News, weigh
from appbackplane.transport.peers.peer import LIVING, NEVER, Peer, because, judge
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.view import Identity, View

P = MembershipPolicy()
S = 1_000_000_000
NOW = 1_000 * S
#: Silence that is none, suspicious, and deadly.
SOME, MUCH, ALL = P.suspect_ns, P.suspect_ns + 1, P.dead_ns + 1


def peer(
    state: PeerState, heard: int, echoed: int | None = None, vouched: int | None = None, met: int = 100 * S
) -> Peer:
    """So long ago each; echoes may be older by what they travel."""
    echoed_ns = NOW - P.echo_ns - (heard if echoed is None else echoed)
    vouched_ns = NEVER if vouched is None else NOW - vouched
    return Peer("b", 5, "tcp://b", "k", NOW - met, state, 9, 9, NOW - heard, echoed_ns, vouched_ns, has_spoken=True)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (peer(PeerState.UP, 0), PeerState.UP),
        (peer(PeerState.UP, SOME), PeerState.UP),
        (peer(PeerState.UP, MUCH), PeerState.SUSPECT),
        (peer(PeerState.UP, 0, echoed=MUCH), PeerState.SUSPECT),
        (peer(PeerState.SUSPECT, SOME), PeerState.UP),
        (peer(PeerState.SUSPECT, P.dead_ns, vouched=0), PeerState.SUSPECT),
        (peer(PeerState.SUSPECT, ALL), PeerState.DEAD),
        (peer(PeerState.SUSPECT, ALL, vouched=P.dead_ns - P.suspect_ns), PeerState.UNREACHABLE),
        (peer(PeerState.SUSPECT, ALL, vouched=P.dead_ns - P.suspect_ns + 1), PeerState.DEAD),
        (peer(PeerState.SUSPECT, 0, echoed=ALL), PeerState.UNREACHABLE),
        (peer(PeerState.UNREACHABLE, ALL, vouched=P.dead_ns), PeerState.UNREACHABLE),
        (peer(PeerState.UNREACHABLE, ALL, vouched=P.dead_ns + 1), PeerState.DEAD),
        (peer(PeerState.UNREACHABLE, SOME), PeerState.UP),
        (peer(PeerState.MET, ALL, met=P.dead_ns), PeerState.MET),
        (peer(PeerState.MET, ALL, met=ALL), PeerState.DEAD),
        (peer(PeerState.MET, ALL, met=ALL, vouched=S), PeerState.UNREACHABLE),
        (peer(PeerState.MET, 0, met=0), PeerState.UP),
        (peer(PeerState.MET, 0, echoed=MUCH, met=0), PeerState.MET),
        (peer(PeerState.DEAD, 0), PeerState.DEAD),
        (peer(PeerState.LEFT, 0), PeerState.LEFT),
    ],
)
def test_every_judgement(of: Peer, expected: PeerState) -> None:
    """On the edge of each time, and one nanosecond beyond."""
    assert judge(of, P, NOW) is expected


times = st.one_of(st.none(), st.integers(0, 6 * S))


@settings(deadline=None)
@given(st.sampled_from(PeerState), times, times, times, st.integers(0, 6 * S))
def test_what_every_judgement_keeps(
    state: PeerState, heard: int | None, echoed: int | None, vouched: int | None, met: int
) -> None:
    """Nobody who is heard is dead; nobody is up who does not hear us; a second look at the same moment says the same."""
    of = Peer("b", 5, "tcp://b", "k", NOW - met, state)
    of.heard_ns = NEVER if heard is None else NOW - heard
    of.echoed_ns = NEVER if echoed is None else NOW - echoed
    of.vouched_ns = NEVER if vouched is None else NOW - vouched
    found = judge(of, P, NOW)
    if state in LIVING:
        proof = min(each for each in (heard, vouched, 6 * S) if each is not None)
        assert found is not PeerState.DEAD or proof > P.dead_ns - P.suspect_ns
        assert (found is PeerState.UP) == (
            heard is not None and heard <= P.suspect_ns and echoed is not None and echoed <= P.suspect_ns + P.echo_ns
        )
        assert found in LIVING or of.silence_ns(NOW, P) > P.dead_ns or state is PeerState.MET
    else:
        assert found is state
    of.state = found
    if found not in (PeerState.DEAD, PeerState.LEFT):
        again = judge(of, P, NOW)
        assert again is found or {found, again} == {PeerState.SUSPECT, PeerState.UNREACHABLE}
    assert because(of, found, P, NOW)


def record(
    fate: str = "living", beat: int = 10, age: int = 0, incarnation: int = 5, address: str = "tcp://b"
) -> NodeRecord:
    """What somebody tells of b."""
    return NodeRecord("b", incarnation, address, "k", fate, beat, age)


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [
        (None, record(), News.COMER),
        (None, record(age=P.dead_ns + 1), News.NONE),
        (None, record("dead"), News.COMER),
        (None, record("dead", age=P.forget_ns + 1), News.NONE),
        (PeerState.UP, record(), News.PROOF),
        (PeerState.DEAD, record(), News.PROOF),
        (PeerState.UP, record(beat=9), News.NONE),
        (PeerState.DEAD, record(beat=9), News.NONE),
        (PeerState.DEAD, record(age=P.suspect_ns + 1), News.NONE),
        (PeerState.UP, record("dead", beat=99), News.NONE),
        (None, record("left"), News.NONE),
        (PeerState.UP, record("left"), News.RUMOUR),
        (PeerState.UP, record("left", incarnation=6), News.NONE),
        (PeerState.UP, record("left", address="tcp://c"), News.NONE),
        (PeerState.DEAD, record("left"), News.NONE),
        (PeerState.LEFT, record("left"), News.NONE),
        (PeerState.LEFT, record(beat=99), News.NONE),
        (PeerState.UP, record(incarnation=6), News.NONE),
        (PeerState.UP, record("dead", incarnation=6), News.NONE),
        (PeerState.DEAD, record(incarnation=6), News.COMER),
        (PeerState.DEAD, record("dead", incarnation=6), News.COMER),
        (PeerState.UP, record(incarnation=4, beat=99), News.NONE),
        (PeerState.UP, record(incarnation=6, address="tcp://c"), News.NONE),
        (PeerState.DEAD, record(incarnation=6, address="tcp://c"), News.COMER),
        (PeerState.LEFT, record(incarnation=6, address="tcp://c"), News.COMER),
        (PeerState.DEAD, record(incarnation=4, address="tcp://c"), News.NONE),
        (PeerState.DEAD, record("dead", incarnation=6, address="tcp://c"), News.NONE),
        (PeerState.DEAD, record(incarnation=6, address="tcp://c", age=P.suspect_ns + 1), News.NONE),
    ],
)
def test_what_hearsay_is_worth(known: PeerState | None, told: NodeRecord, expected: News) -> None:
    """The table of news.py: it introduces and proves, and overrules nobody's own ears."""
    assert weigh(peer(known, 0) if known else None, told, P) is expected


def test_views_that_agree_have_one_digest_and_others_have_not() -> None:
    """Whatever the order in which they came, and whoever looks."""
    me, b, c = (Identity(name, 5, f"tcp://{name}", "k") for name in "abc")
    views = []
    for own, others in ((me, (b, c)), (b, (c, me)), (c, (me, b))):
        view = View(own)
        for other in others:
            view.add(Peer(other.name, other.incarnation, other.address, other.key, 0))
        views.append(view)
    assert len({view.digest() for view in views}) == 1
    there = views[0].get("c")
    assert there is not None
    there.state = PeerState.DEAD
    views[0].has_changed()
    assert views[0].digest() != views[1].digest()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"heartbeat_ns": 0}, "whole number above 0"),
        ({"helpers": 1.5}, "whole number above 0"),
        ({"heartbeat_ns": 1_000_000}, "10 ms"),
        ({"suspect_ns": 399_000_000}, "two heartbeats"),
        ({"dead_ns": 900_000_000}, "for others to be asked"),
        ({"attempt_ns": 300_000_000}, "nobody can answer in time"),
        ({"backoff_ns": 3 * S}, "backoff_ns"),
        ({"forget_ns": S}, "dead_ns"),
        ({"members_max": 1}, "2"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, int], said: str) -> None:
    """With the figure, and why it cannot."""
    with pytest.raises(ValueError, match=said) as refusal:
        MembershipPolicy(**wrong)
    assert "MembershipPolicy(" in str(refusal.value)
