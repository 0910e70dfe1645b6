"""Dialling: when an address is called, for how long, and what is thrown away with a line."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport.peers.dialling import BEGUN_MAX, BEGUN_NS, DISMISSED_MAX, IN_VAIN_MAX, Dialling
from appbackplane.transport.peers.effects import Dial, DialFailed, Hangup, Send
from appbackplane.transport.peers.messages import Refusal
from appbackplane.transport.peers.policy import MembershipPolicy

P = MembershipPolicy()
S = 1_000_000_000
WORD = Refusal(name="a", incarnation=1, to=2, beat=1, sent_ns=1, echo_ns=0, reason="no", dialled="tcp://a")


def lines(draw: float = 0.0) -> Dialling:
    """With one address that is wanted at 0; `draw` stands for chance."""
    found = Dialling(P, lambda: draw)
    assert found.want("tcp://b", "k", 0) == []
    return found


def test_waits_double_to_the_longest_and_differ() -> None:
    """Who lost a peer together must not come back in one moment; nobody waits longer than is stated."""
    drawn = random.Random(1).random
    most = [min(P.backoff_ns << n, P.backoff_ns_max) for n in range(40)]
    for n, longest in enumerate(most):
        waits = {Dialling(P, drawn).backoff_ns(n) for _ in range(50)}
        assert longest / 2 <= min(waits) < max(waits) <= longest
    assert most[-1] == P.backoff_ns_max


def test_a_line_without_an_answer_is_dialled_afresh() -> None:
    """One that stands, too: after a partition TCP would hold what is too old, and try ever more seldom."""
    for is_connected in (False, True):
        found = lines()
        assert found.tick(0) == [Dial("tcp://b", "k")]
        if is_connected:
            found.connected("tcp://b", 1)
        assert found.tick(P.attempt_ns - 1) == []
        over_ns = P.attempt_ns + is_connected  # since it was dialled, or stands
        hangup, failed = found.tick(over_ns)
        assert hangup == Hangup("tcp://b") and isinstance(failed, DialFailed)
        assert ("nobody answers" in failed.because) == is_connected
        assert found.tick(over_ns + P.backoff_ns - 1) == []
        assert found.tick(over_ns + P.backoff_ns) == [Dial("tcp://b", "k")]


def test_an_echo_of_this_line_makes_it_good() -> None:
    """Not one of what was said on the line before."""
    found = lines()
    found.tick(0)
    found.connected("tcp://b", 10)
    found.echoed("tcp://b", 9)
    assert found.tick(P.attempt_ns + 10)[0] == Hangup("tcp://b")
    found.tick(2 * S)
    found.connected("tcp://b", 2 * S)
    found.echoed("tcp://b", 2 * S)
    assert found.tick(100 * S) == []


def test_a_line_that_was_good_begins_with_the_shortest_wait() -> None:
    """And what broke is not hung up on: it is gone."""
    found = lines()
    for _ in range(6):
        found.tick(found.next_ns(0))
        found.lost("tcp://b", "refused", found.next_ns(0) - P.attempt_ns)
    found.tick(60 * S)
    found.connected("tcp://b", 60 * S)
    found.echoed("tcp://b", 60 * S)
    (failed,) = found.lost("tcp://b", "broken", 70 * S)
    assert failed == DialFailed("tcp://b", "broken", 1, P.backoff_ns)


def test_who_speaks_is_called_back_at_once() -> None:
    """It can be reached, so the long wait for a dead one is over."""
    found = lines()
    found.tick(0)
    found.pause("tcp://b", 5 * S, S)
    assert found.tick(2 * S) == []
    found.hasten("tcp://b", 2 * S)
    assert found.tick(2 * S) == [Dial("tcp://b", "k")]


def test_another_key_is_another_line() -> None:
    """What waits in the old one is for somebody else."""
    found = lines()
    found.tick(0)
    assert found.want("tcp://b", "k", 1) == []
    assert found.want("tcp://b", "new", 1) == [Hangup("tcp://b")]
    assert found.tick(1) == [Dial("tcp://b", "new")]


def test_the_key_of_a_seed_is_what_the_configuration_says() -> None:
    """Nobody else is dialled there, not even for a last word; whoever has another key would take the place of the seed."""
    found = Dialling(P, lambda: 0.0)
    assert found.add_seed("tcp://s", "k", 0) == []
    assert found.want("tcp://s", "new", 0) == found.dismiss("tcp://s", "new", WORD, 0) == []
    assert found.tick(0) == [Dial("tcp://s", "k")]
    assert found.want("tcp://s", "new", 1) == found.add_seed("tcp://s", "k", 1) == []
    assert found.add_seed("tcp://s", "new", 1) == [Hangup("tcp://s")]
    assert found.tick(1) == [Dial("tcp://s", "new")] and found.is_seed("tcp://s")


def test_a_last_word_is_not_said_to_somebody_else() -> None:
    """Whoever is refused may say that it listens where another does: that line would be closed for it."""
    found = lines()
    found.tick(0)
    found.connected("tcp://b", 1)
    assert found.dismiss("tcp://b", "another", WORD, 1) == []
    assert list(found.standing()) == ["tcp://b"]
    assert found.reaches("tcp://b", "k") and not found.reaches("tcp://b", "another")


def test_who_claims_an_address_waits_for_its_turn() -> None:
    """Until the present key was dialled in vain; a line that stands is not given up at all, and a seed's never."""
    found = lines()
    found.add_seed("tcp://s", "k", 0)
    assert found.may_try("tcp://b", "k") and found.may_try("tcp://nobody", "new")
    assert not found.may_try("tcp://b", "new"), "it has not been dialled yet"
    found.tick(0)
    found.lost("tcp://b", "wrong key", 1)
    found.lost("tcp://s", "wrong key", 1)
    assert found.may_try("tcp://b", "new") and not found.may_try("tcp://s", "new")
    found.tick(S)
    assert found.may_try("tcp://b", "new"), "it has had its turn"
    found.drop("tcp://b")
    found.want("tcp://b", "k", S)
    assert found.may_try("tcp://b", "new"), "nor has it another one as another incarnation"
    found.want("tcp://b", "new", S)
    assert not found.may_try("tcp://b", "k")
    found.tick(S)
    assert found.drop("tcp://b") == [Hangup("tcp://b")]
    found.want("tcp://b", "new", S)
    assert found.may_try("tcp://b", "k"), "whoever breaks off its own turn has had it"
    found.tick(S)
    found.connected("tcp://b", S)
    assert not found.may_try("tcp://b", "k")
    found.lost("tcp://b", "broken", S)
    assert not found.may_try("tcp://b", "k"), "it has proved its key there, and is dialled again first"


def test_what_was_dialled_in_vain_has_a_bound() -> None:
    """Whoever claims one address after the other costs no memory."""
    found = Dialling(P, lambda: 0.0)
    for n in range(IN_VAIN_MAX + 9):
        found.want(f"tcp://x{n}", "k", 0)
        found.tick(0)
        found.drop(f"tcp://x{n}")
    for n, has_been_tried in ((8, False), (9, True)):
        found.want(f"tcp://x{n}", "k", 0)
        assert found.may_try(f"tcp://x{n}", "new") is has_been_tried


def test_a_seed_stays_and_others_go() -> None:
    """A seed is all that is left to a node that everybody has forgotten."""
    found = lines()
    found.add_seed("tcp://s", "k", 0)
    found.tick(0)
    assert found.drop("tcp://b") == [Hangup("tcp://b")]
    assert found.drop("tcp://s") == [Hangup("tcp://s")]
    assert not found.has("tcp://b") and found.has("tcp://s")
    assert found.tick(P.backoff_ns_max) == [Dial("tcp://s", "k")]
    assert found.forget_seed("tcp://s") == [Hangup("tcp://s")] and not found.has("tcp://s")


def test_a_last_word_is_said_and_no_more() -> None:
    """To who is refused; it is dialled for that if need be, once, and so many at a time."""
    found = Dialling(P, lambda: 0.0)
    assert found.dismiss("tcp://x", "k", WORD, 0) == []
    assert found.tick(0) == [Dial("tcp://x", "k")]
    is_greeted, effects = found.connected("tcp://x", 1)
    assert not is_greeted and effects == [Send("tcp://x", WORD), Hangup("tcp://x", is_flushed=True)]
    assert found.tick(100 * S) == []
    for n in range(DISMISSED_MAX + 5):
        found.dismiss(f"tcp://x{n}", "k", WORD, 0)
    effects = [effect for n in range(20) for effect in found.tick(200 * S + n * BEGUN_NS)]
    assert len({effect.address for effect in effects if isinstance(effect, Dial)}) == DISMISSED_MAX
    effects += found.tick(300 * S)
    assert sum(isinstance(effect, Hangup) for effect in effects) == DISMISSED_MAX
    assert found.tick(400 * S) == []


acts = st.sampled_from(
    ["want", "drop", "again", "lost", "connected", "echoed", "hasten", "pause", "is_alias", "dismiss", "tick"]
)


@settings(deadline=None)
@given(st.lists(st.tuples(acts, st.sampled_from(["tcp://b", "tcp://c"]), st.integers(0, 2 * S)), max_size=60))
def test_each_line_is_dialled_and_hung_up_on_in_turn(story: list[tuple[str, str, int]]) -> None:
    """Against a twin that knows only which connections there are: never two to one address, nor a hang-up on none."""
    found, now_ns, dialled, standing = Dialling(P, lambda: 0.5), 0, set[str](), set[str]()
    found.add_seed("tcp://c", "k", 0)
    for act, address, passed_ns in story:
        now_ns += passed_ns
        if act == "connected":
            effects = found.connected(address, now_ns)[1] if address in dialled - standing else []
            standing |= {address} & dialled
        elif act == "lost":
            was_dialled = address in dialled
            dialled.discard(address)
            standing.discard(address)
            effects = found.lost(address, "x", now_ns) if was_dialled else []
        elif act == "tick":
            effects = found.tick(now_ns)
        else:
            arguments = {
                "want": ("k", now_ns), "drop": (), "again": ("x", now_ns), "echoed": (now_ns,), "hasten": (now_ns,),
                "pause": (S, now_ns), "is_alias": ("tcp://b", "k"), "dismiss": ("k", WORD, now_ns),
            }[act]  # fmt: skip
            effects = getattr(found, act)(address, *arguments) or []
        for effect in effects:
            if isinstance(effect, Dial):
                assert effect.address not in dialled
                dialled.add(effect.address)
            elif isinstance(effect, Hangup):
                dialled.remove(effect.address)
                standing.discard(effect.address)
            elif isinstance(effect, Send):
                assert effect.address in standing
    assert set(found.standing()) == standing
    assert found.next_ns(now_ns) <= now_ns + 2 * P.refused_ns


def test_few_are_dialled_at_a_time_and_nobody_waits_for_who_is_not_there() -> None:
    """64 nodes that all begin with 63 at once on one machine never end; and the dead must not hold up the living."""
    found = Dialling(P, lambda: 0.5)
    for n in range(20):
        found.add_seed(f"tcp://x{n}", "k", 0)
    first = found.tick(0)
    assert len(first) == BEGUN_MAX and found.tick(1) == []
    assert found.next_ns(1) == BEGUN_NS
    assert isinstance(first[0], Dial)
    found.connected(first[0].address, 2)
    assert found.next_ns(2) == 0, "there is room for one"
    assert len(found.tick(3)) == 1
    dialled = len(first) + 1
    for n in range(1, 5):
        dialled += sum(isinstance(effect, Dial) for effect in found.tick(n * BEGUN_NS + 3))
    assert dialled == 20
