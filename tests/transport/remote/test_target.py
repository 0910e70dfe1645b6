"""Target: `tcp://NAME@HOST:PORT`, and what is missing where it cannot be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.transport import connect
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound
from appbackplane.transport.remote.target import Target
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://b@10.0.0.1:7400", "tcp://10.0.0.1:7400"),
        ("tcp://b@localhost:7400", "tcp://127.0.0.1:7400"),
        ("tcp://b@[::1]:7400", "tcp://[::1]:7400"),
        ("tcp://b@db.example.org:7400", "tcp://db.example.org:7400"),
    ],
)
def test_a_target_is_a_name_and_an_address(text: str, address: str) -> None:
    """And is written as it is read."""
    target = Target.parse(text)
    assert (target.node, target.address) == ("b", address)
    assert Target.parse(str(target)) == target


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("tcp://10.0.0.1:7400", "does not say whose key is expected there"),
        ("tcp://@10.0.0.1:7400", "not a name: ''"),
        ("tcp://b c@10.0.0.1:7400", "not a name: 'b c'"),
        ("tcp://b@10.0.0.1", "expected tcp://HOST:PORT"),
        ("tcp://b@10.0.0.1:0", "port 0 is for who listens"),
        ("tcp://b@*:7400", "expected tcp:// and a host"),
        ("ipc://b@10.0.0.1:1", "not the address of a node"),
    ],
)
def test_what_is_no_target_says_what_was_expected(text: str, because: str) -> None:
    """The word itself is in it."""
    with pytest.raises(InvalidArgument) as told:
        Target.parse(text)
    assert because in told.value.message


def test_a_name_of_a_host_is_looked_up() -> None:
    """Once; one that nobody knows is named."""
    assert Target.parse("tcp://b@10.0.0.1:7400").looked_up().address == "tcp://10.0.0.1:7400"
    with pytest.raises(NotFound, match=r"the host 'nowhere\.invalid' is not known"):
        Target.parse("tcp://b@nowhere.invalid:7400").looked_up()


def test_what_is_missing_is_said_with_what_to_type(tmp_path: Path) -> None:
    """No key, no trust, a ring that cannot be read."""
    target = Target.parse("tcp://b@127.0.0.1:7400")
    keyring = Keyring(tmp_path / "keys")
    with pytest.raises(FailedPrecondition, match=r"tcp://b@127\.0\.0\.1:7400: no key pair .*appbackplane keys new"):
        target.check_keys(keyring)
    own = keyring.make_own()
    with pytest.raises(FailedPrecondition, match=r"appbackplane keys trust b KEY --folder .*, with the KEY that"):
        target.check_keys(keyring)
    keyring.change(lambda ring: ring.trusting(Holder("bb", own)))
    with pytest.raises(FailedPrecondition, match="did you mean 'bb'"):
        target.check_keys(keyring)
    keyring.change(lambda ring: ring.revoking("bb"))
    (tmp_path / "keys" / "ring").write_text("trust b\n")
    with pytest.raises(FailedPrecondition, match="line 1"):
        target.check_keys(keyring)
    (tmp_path / "keys" / "ring").chmod(0o644)
    with pytest.raises(FailedPrecondition, match="chmod 600"):
        connect("tcp://b@127.0.0.1:7400", keys=keyring.folder.path)
