"""Node: what the keys of others may do here, as the ring and `[peers]` say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.runtime.peers import Node
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder

KEY = PublicKey(b"k" * 32)
ROUTES = ["gamma.stats", "delta.x", "supervisor.stop"]


@pytest.mark.parametrize(
    ("name", "offers", "expected"),
    [
        ("berlin", None, {"gamma.stats", "delta.x"}),
        ("berlin", "gamma.*", {"gamma.stats"}),
        ("berlin", "none", set()),
        ("laptop", None, set()),
        ("laptop", "*", {"gamma.stats", "delta.x"}),
        ("laptop", "delta.x", {"delta.x"}),
    ],
)
def test_what_a_key_may_offer(tmp_path: Path, name: str, offers: str | None, expected: set[str]) -> None:
    """What the ring says; else all if `[peers]` names the key, and nothing if not: a client's key is trusted for calling."""
    grant = None if offers is None else Grant.of_offers([offers])
    Keyring(tmp_path / "keys").change(lambda ring: ring.trusting(Holder(name, KEY, offers=grant)))
    node = Node("paris", "tcp://127.0.0.1:0", {"tcp://127.0.0.2:7400": "berlin"}, keys=str(tmp_path / "keys"))
    node._keyring.refresh()
    assert node._offers(str(KEY), ROUTES) == expected
    node._keyring.change(lambda ring: ring.revoking(name))
    assert node._offers(str(KEY), ROUTES) == set()
    assert node._offers(str(PublicKey(b"x" * 32)), ROUTES) == set()


def test_the_keys_that_are_expected_at_seeds_are_those_of_the_ring(tmp_path: Path) -> None:
    """Of a node that gets a new key the old one is expected no longer, without a restart; one that is revoked is left out."""
    keyring = Keyring(tmp_path / "keys")
    keyring.change(lambda ring: ring.trusting(Holder("berlin", KEY)))
    node = Node("paris", "tcp://127.0.0.1:0", {"tcp://127.0.0.2:7400": "berlin"}, keys=str(tmp_path / "keys"))
    node._keyring.refresh()
    assert node._seeds() == {"tcp://127.0.0.2:7400": str(KEY)}
    node._keyring.change(lambda ring: ring.revoking("berlin"))
    assert node._seeds() == {}
    new = PublicKey(b"n" * 32)
    node._keyring.change(lambda ring: ring.trusting(Holder("berlin", new)))
    assert node._seeds() == {"tcp://127.0.0.2:7400": str(new)}
