"""The ring as text: what a person writes is read as meant or refused, and what was revoked stays so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder, Ring

BERLIN, PARIS, ROME = (PublicKey(bytes([n]) * 32) for n in (1, 2, 3))
RING = Ring().trusting(Holder("berlin", BERLIN)).trusting(Holder("paris", PARIS, Grant(("index.*",)), Grant(("none",))))

NAMES = st.sampled_from(("a", "b", "c"))
STEPS = st.lists(
    st.tuples(st.sampled_from(("trust", "revoke")), NAMES, st.integers(1, 4), st.sampled_from(("name", "key"))),
    max_size=30,
)


@settings(deadline=None)
@given(STEPS)
def test_whatever_is_done_who_comes_in_is_as_a_slow_twin_says(steps: list[tuple[str, str, int, str]]) -> None:
    """Two sets and a dictionary; and the text says the same after each step."""
    ring, trusted, revoked = Ring(), dict[int, str](), dict[int, str]()
    for word, name, number, by in steps:
        key = PublicKey(bytes([number]) * 32)
        if word == "trust":
            is_wrong = (
                number in revoked
                or trusted.get(number, name) != name
                or (number not in trusted and name in trusted.values())
            )
            if is_wrong:
                with pytest.raises(FailedPrecondition):
                    ring.trusting(Holder(name, key))
                continue
            ring = ring.trusting(Holder(name, key))
            trusted[number] = name
        elif by == "key" and (number in trusted or number in revoked):
            ring = ring.revoking(str(key))
            revoked[number] = trusted.pop(number, revoked.get(number, ""))
        elif by == "name" and name in (*trusted.values(), *revoked.values()):
            ring = ring.revoking(name)
            for one in [one for one, who in trusted.items() if who == name]:
                revoked[one] = trusted.pop(one)
        else:
            with pytest.raises(NotFound):
                ring.revoking(name if by == "name" else str(key))
        ring = Ring.parse(ring.text)
        found = {one.key.raw[0]: (one.name, one.is_revoked) for one in ring.holders}
        assert found == {n: (who, False) for n, who in trusted.items()} | {n: (who, True) for n, who in revoked.items()}
        for one in ring.holders:
            assert (ring.of_user_id(one.user_id) is one) is not one.is_revoked


def test_it_is_read_as_it_is_written() -> None:
    """A line a key, comments and blank lines where they were."""
    text = (
        f"# ours\n\ntrust berlin {BERLIN}\n  # away\nrevoke  paris {PARIS} topics=files.* routes=index.*,query.search\n"
    )
    ring = Ring.parse(text)
    assert ring.named("berlin") == Holder("berlin", BERLIN)
    assert ring.of_key(PARIS.raw) == Holder(
        "paris", PARIS, Grant(("index.*", "query.search")), Grant(("files.*",)), is_revoked=True
    )
    assert ring.trusting(Holder("rome", ROME)).text.splitlines() == [
        "# ours",
        "",
        f"trust berlin {BERLIN} routes=exported topics=exported",
        "  # away",
        f"revoke paris {PARIS} routes=index.*,query.search topics=files.*",
        f"trust rome {ROME} routes=exported topics=exported",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("berlin curve:x", "line 2: expected 'trust NAME KEY'"),
        ("trust berlin", "line 2: expected 'trust NAME KEY'"),
        (f"Trust berlin {ROME}", "line 2: expected 'trust NAME KEY' or 'revoke NAME KEY', got 'Trust'"),
        (f"trust ber/lin {ROME}", "line 2: not a name: 'ber/lin'"),
        (f"trust {'x' * 101} {ROME}", "line 2: not a name"),
        ("trust rome curve:x", "line 2: not a public key"),
        (f"trust rome {ROME} routes", "line 2: expected routes="),
        (f"trust rome {ROME} routes=a.b routes=c.d", "line 2: expected routes=.* each at most once"),
        (f"trust rome {ROME} route=a.b", "line 2: expected routes="),
        (f"trust rome {ROME} routes=a b", "line 2: expected routes="),
        (f"trust rome {ROME} routes=", "line 2: not a pattern: ''"),
        (f"trust rome {ROME} offers=exported", "line 2: not an offer: 'exported'"),
        (f"trust rome {ROME} offers=", "line 2: not a pattern: ''"),
        (f"trust rome {BERLIN}", "line 2: the key is in line 1 already"),
        (f"revoke rome {BERLIN}", "line 2: the key is in line 1 already"),
        (f"trust berlin {ROME}", "line 2: the name 'berlin' is in line 1 already"),
    ],
)
def test_one_wrong_line_is_named_and_there_is_no_ring(line: str, said: str) -> None:
    """The others might be right, and the wrong one might be who is to be kept out."""
    with pytest.raises(InvalidArgument, match=said):
        Ring.parse(f"trust berlin {BERLIN}\n{line}\n")


def test_what_a_key_may_offer_is_written_if_it_was_said() -> None:
    """Versions before that word take no ring that has it; and nothing said is not the same as `none`."""
    ring = RING.trusting(Holder("rome", ROME, offers=Grant.of_offers(["index.*", "query.search"])))
    assert ring.text.endswith(f"trust rome {ROME} routes=exported topics=exported offers=index.*,query.search\n")
    assert Ring.parse(ring.text) == ring
    assert ring.named("berlin").offers is None
    with pytest.raises(InvalidArgument, match="not an offer"):
        Grant.of_offers([])


def test_a_name_may_get_another_key_when_its_first_was_revoked() -> None:
    """A host that is set up anew; and whoever is still connected by the first key is not taken for it."""
    old = RING.named("berlin").user_id
    ring = RING.revoking("berlin").trusting(Holder("berlin", ROME))
    assert ring.of_user_id(old) is None
    assert ring.named("berlin").key == ROME
    assert ring.revoking("berlin").revoking("berlin") == ring.revoking("berlin"), "twice is once"
    assert ring.find(BERLIN.fingerprint).is_revoked


def test_what_is_asked_for_in_vain_is_named_with_what_was_meant() -> None:
    """A key that is not revoked because of a mistyped name is a door left open."""
    with pytest.raises(NotFound, match=r"'berln' \(did you mean 'berlin'\?\)"):
        RING.revoking("berln")
    with pytest.raises(NotFound, match=r"\(there is berlin, paris\)"):
        RING.revoking("x")
    with pytest.raises(InvalidArgument, match="not a public key"):
        RING.revoking("curve:half")
    with pytest.raises(FailedPrecondition, match="was revoked: have a new one made there"):
        RING.revoking("berlin").trusting(Holder("berlin", BERLIN))
    with pytest.raises(FailedPrecondition, match=r"is trusted with another key, .*: revoke that first"):
        RING.trusting(Holder("berlin", ROME))
