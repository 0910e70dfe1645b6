"""Addresses: without keys nothing is reached from, or reaches, another host."""

from __future__ import annotations

import pytest

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.security.addresses import check_address, is_for_all


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("tcp://127.0.0.1:7000", "tcp://127.0.0.1:7000"),
        ("tcp://127.8.8.8:0", "tcp://127.8.8.8:0"),
        ("tcp://localhost:7000", "tcp://127.0.0.1:7000"),
        ("tcp://[::1]:7000", "tcp://[::1]:7000"),
    ],
)
@pytest.mark.parametrize("is_secured", [True, False])
def test_loopback_is_always_in_order(address: str, taken: str, is_secured: bool) -> None:
    """Nobody else is there."""
    assert check_address(address, is_secured=is_secured) == taken


@pytest.mark.parametrize(
    "address",
    [
        "tcp://0.0.0.0:7000", "tcp://[::]:7000", "tcp://*:7000", "tcp://10.0.0.1:7000", "tcp://[fe80::1]:7000",
        "tcp://[::ffff:10.0.0.1]:7000", "tcp://[::ffff:127.0.0.1]:7000",
    ],
)  # fmt: skip
def test_what_others_reach_is_secured_or_refused(address: str) -> None:
    """An open port believes whoever finds it."""
    assert check_address(address, is_secured=True)
    with pytest.raises(InvalidArgument, match=r"without keys others could .*: expected a loopback address"):
        check_address(address, is_secured=False)


@pytest.mark.parametrize(
    "address",
    [
        "", "127.0.0.1:7000", "ipc:///tmp/x", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:x", "tcp://:7000",
        "tcp://127.0.0.1:65536", "tcp://127.0.0.1:-1", "tcp://eth0:7000", "tcp://berlin.example:7000", "tcp://::1:7000",
        "tcp://[127.0.0.1]:7000", "tcp://[fe80::1%eth0]:7000", "tcp://127.1:7000", "tcp://2130706433:7000",
        "tcp://127.0.0.1:7000;10.0.0.1:7000", "tcp://127.0.0.1:٧",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_secured", [True, False])
def test_what_is_no_address_to_bind_is_refused(address: str, is_secured: bool) -> None:
    """What a resolver would make of it is not known here, and an interface is more than one address."""
    with pytest.raises(InvalidArgument, match="expected"):
        check_address(address, is_secured=is_secured)


def test_a_name_may_be_connected_to_with_keys() -> None:
    """Who answers there has the secret, or is hung up on."""
    assert check_address("tcp://berlin.example:7000", is_secured=True, is_bound=False) == "tcp://berlin.example:7000"
    for wrong in ("tcp://*:7000", "tcp://127.1:7000", "tcp://berlin.example:0", "tcp://-x:7000", "tcp://a_b:7000"):
        with pytest.raises(InvalidArgument, match="expected"):
            check_address(wrong, is_secured=True, is_bound=False)
    with pytest.raises(InvalidArgument, match="without keys"):
        check_address("tcp://berlin.example:7000", is_secured=False, is_bound=False)


def test_an_address_for_all_is_nobodys() -> None:
    """Nobody can be told to connect there."""
    assert all(is_for_all(f"tcp://{host}:7000") for host in ("*", "0.0.0.0", "[::]"))
    assert not any(is_for_all(f"tcp://{host}:7000") for host in ("127.0.0.1", "10.0.0.1", "[::1]", "berlin.example"))
