"""Keys as text: one way of writing each, and nothing that hands a secret on."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.security.keys import FINGERPRINT, KeyPair, PublicKey

KEYS = st.binary(min_size=32, max_size=32).filter(any)
SECRET = bytes(range(32))
PAIR = KeyPair(PublicKey(b"\x07" * 32), SECRET)


@settings(deadline=None)
@given(KEYS)
def test_a_key_comes_back_from_its_text(raw: bytes) -> None:
    """And its text is one word in any shell."""
    key = PublicKey(raw)
    assert PublicKey.parse(str(key)) == key
    assert re.fullmatch(r"curve:[\w-]{43}", str(key))
    assert FINGERPRINT.fullmatch(key.fingerprint)


@settings(deadline=None)
@given(KEYS, KEYS)
def test_other_keys_have_other_fingerprints(one: bytes, other: bytes) -> None:
    """It is all that two people compare."""
    assert (PublicKey(one).fingerprint == PublicKey(other).fingerprint) is (one == other)


@settings(deadline=None)
@given(KEYS, st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))
def test_a_key_has_one_text(raw: bytes, last: str) -> None:
    """Base64 has four texts for each 32 bytes: a ring could have a key trusted by one and revoked by another."""
    text = str(PublicKey(raw))
    if last == text[-1]:
        return
    try:
        found = PublicKey.parse(text[:-1] + last)
    except InvalidArgument:
        return
    assert found.raw != raw


@pytest.mark.parametrize(
    "text", ["", "curve:", "berlin", "curve:" + "A" * 43, "curve:" + "B" * 42, "curve:" + "B" * 44, "curve:" + "é" * 43]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    """With what one looks like, and where to get it."""
    with pytest.raises(InvalidArgument, match="expected 'curve:' and 43 more, as `appbackplane keys show` prints it"):
        PublicKey.parse(text)


def test_a_secret_is_nowhere_but_in_its_file() -> None:
    """Not in a log of objects, and not in the error for a secret that somebody pasted where a public key belongs."""
    secret = PAIR.text.split()[-1]
    assert secret.startswith("secret:") and KeyPair.parse(PAIR.text) == PAIR
    assert repr(SECRET) not in repr(PAIR) and secret[7:] not in repr(PAIR)
    with pytest.raises(InvalidArgument) as raised:
        PublicKey.parse(secret)
    assert secret[7:11] not in raised.value.message


@pytest.mark.parametrize("wrong", ["", "public x", PAIR.text + "more x", PAIR.text.replace("secret:", "curve:"), "\0"])
def test_a_file_that_is_no_pair_is_refused(wrong: str) -> None:
    """And nothing of it is quoted: it may be half a secret."""
    with pytest.raises(InvalidArgument, match=r"^(expected a line|malformed secret)") as raised:
        KeyPair.parse(wrong)
    assert PAIR.text.split()[-1][7:11] not in raised.value.message
