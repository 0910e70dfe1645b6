"""Who may come in: everything but a trusted key by CURVE in our domain is refused; and who was refused cannot fill a disk."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport.security.admission import BROKEN, OK, REFUSED, RefusedConnection, answer, plain
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.refusals import INTERVAL_NS, LINES_MAX, Refusals, source_of
from appbackplane.transport.security.ring import Holder, Ring

KEY, GONE = PublicKey(b"\1" * 32), PublicKey(b"\2" * 32)
RING = Ring().trusting(Holder("berlin", KEY)).trusting(Holder("paris", GONE)).revoking("paris")
QUESTION = [b"1.0", b"7", b"ours", b"10.0.0.9", b"", b"CURVE", KEY.raw]


def changed(place: int, to: bytes) -> list[bytes]:
    """The question, but for one frame."""
    return [*QUESTION[:place], to, *QUESTION[place + 1 :]]


def test_a_trusted_key_comes_in_under_its_name() -> None:
    """The name of the ring, and the key's own mark: a name may get another key."""
    told = answer(QUESTION, "ours", RING)
    assert told.frames() == [b"1.0", b"7", OK, b"", f"berlin/{KEY.fingerprint}".encode(), b""]
    assert told.refusal is None


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (changed(6, b"\3" * 32), "the key is unknown here"),
        (changed(6, GONE.raw), "the key of 'paris' was revoked"),
        (changed(6, b"short"), "its key is not 32 bytes"),
        ([*QUESTION, KEY.raw], "its key is not 32 bytes"),
        (QUESTION[:6], "its key is not 32 bytes"),
        (changed(5, b"NULL"), "NULL instead of CURVE"),
        ([*QUESTION[:5], b"PLAIN", b"berlin", b"secret"], "PLAIN instead of CURVE"),
        ([*QUESTION[:5], b"GSSAPI", KEY.raw], "GSSAPI instead of CURVE"),
        (changed(2, b""), "the request came from a socket of another ZAP domain"),
        (changed(2, b"theirs"), "the request came from a socket of another ZAP domain"),
        (changed(0, b"2.0"), "not a ZAP 1.0 request"),
        (QUESTION[:5], "not a ZAP 1.0 request"),
        ([], "not a ZAP 1.0 request"),
    ],
)
def test_all_else_is_refused_and_not_told_why(question: list[bytes], reason: str) -> None:
    """The reason is for the log."""
    told = answer(question, "ours", RING)
    assert told.refusal is not None and told.refusal.reason == reason
    assert told.frames()[2:] == [REFUSED, b"", b"", b""]


def test_a_ring_that_cannot_be_read_lets_nobody_in() -> None:
    """What is missing in it may be who was revoked."""
    told = answer(QUESTION, "ours", None)
    assert told.status == BROKEN and told.refusal is not None
    assert told.refusal.sentence() == f"refused 10.0.0.9 (key {KEY.fingerprint}): the ring cannot be read"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=9))
def test_no_frames_at_all_are_let_in_by_accident(frames: list[bytes]) -> None:
    """Nor do they raise."""
    assert answer(frames, "ours", RING).status == REFUSED


def test_each_address_has_its_line_and_then_a_number() -> None:
    """Who knocks a million times is two lines."""
    refusals = Refusals()
    lines = [line for n in range(1_000) for line in refusals.note(RefusedConnection("10.0.0.9", "abcd", "unknown"), n)]
    assert lines == ["refused 10.0.0.9 (key abcd): unknown"]
    assert refusals.due(INTERVAL_NS - 1) == []
    assert refusals.due(INTERVAL_NS) == ["refused besides, within a minute: 999 more from 10.0.0.9"]
    assert refusals.due(INTERVAL_NS) == []
    assert refusals.note(RefusedConnection("10.0.0.9", None, "x"), INTERVAL_NS) == ["refused 10.0.0.9 (no key): x"]
    assert refusals.count == 1_001


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, INTERVAL_NS // 50)), max_size=400))
def test_all_lines_of_all_addresses_have_a_bound(knocks: list[tuple[int, int]]) -> None:
    """Who has many addresses fills no disk either; and each refusal is in a line, or in a number of one."""
    refusals, now_ns, lines = Refusals(), 0, list[str]()
    for address, wait_ns in knocks:
        now_ns += wait_ns
        lines += refusals.note(RefusedConnection(f"10.0.0.{address}", None, "x"), now_ns)
    lines += refusals.due(now_ns + INTERVAL_NS)
    assert len(lines) <= (now_ns // INTERVAL_NS + 1) * (LINES_MAX + 1)
    summed = sum(
        int(word.replace(",", "")) for line in lines if line.startswith("refused besides") for word in line.split()
        if word.replace(",", "").isdigit()
    )  # fmt: skip
    assert sum(line.startswith("refused 10") for line in lines) + summed == len(knocks) == refusals.count


def test_who_has_one_address_of_ipv6_has_all_beside_it() -> None:
    """2**64 of them."""
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff:1") != source_of("2001:db8:0:1::1")
    assert source_of("10.0.0.9") == "10.0.0.9" and source_of("unknown") == "unknown"


def test_an_address_of_ipv4_is_named_as_people_name_it() -> None:
    """Also where the socket is for both; and each is then a source of its own."""
    told = answer(changed(3, b"::ffff:10.0.0.9"), "ours", None)
    assert told.refusal is not None and told.refusal.address == "10.0.0.9"
    assert plain("2001:db8::1") == "2001:db8::1"
