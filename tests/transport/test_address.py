"""Addresses as text: what is one, what its route is, and where calls with it go."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgpack
import msgspec
import pytest

from appbackplane.transport import Address, InvalidArgument, UnknownRoute
from appbackplane.transport.address import AddressedRoute, is_address_key
from appbackplane.transport.call_checks import check_call
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import Encoder
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.resolver import Resolver

TEXT = "bank/front-2:3f9a2c1d/accounts:17"


def test_an_address_is_its_text() -> None:
    """It can be a key of a dictionary, written to a file, and pasted."""
    address = Address(TEXT)
    assert address == TEXT
    assert {address: 1}[TEXT] == 1  # type: ignore[index]
    assert json.loads(json.dumps([address])) == [TEXT]
    assert Encoder().pack([address]) == Encoder().pack([TEXT])
    assert (address.home, address.backplane, address.incarnation) == ("bank", "front-2", "3f9a2c1d")
    assert (address.component, address.number) == ("accounts", 17)
    with pytest.raises(AttributeError):
        address.number = 18  # type: ignore[misc]


@dataclass
class Ticket:
    """A value of a user's that holds one."""

    seat: int
    account: Address


class Note(msgspec.Struct):
    """The same of msgspec's."""

    account: Address


def test_it_travels_inside_of_other_values() -> None:
    """msgspec encodes text alone, and no subclass of it."""
    address = Address(TEXT)
    packed = Encoder().pack([Ticket(3, address), Note(address), {"accounts": (address,)}])
    assert msgpack.unpackb(packed) == [{"seat": 3, "account": TEXT}, {"account": TEXT}, {"accounts": [TEXT]}]


@pytest.mark.parametrize(
    "text",
    [
        "", "bank", "bank/front/accounts:17", "bank/front:3f9a2c1d/accounts:0", "bank/front:3f9a2c1d/accounts:-1",
        "front:3f9a2c1d/accounts:17", "bank/front:3F9A2C1D/accounts:17", f"{TEXT}\n", f" {TEXT}", f"x/{TEXT}",
        "bank/front:3f9a2c1d/accounts:" + 19 * "9", 17, None,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    """Pasted text has been cut off, or is something else."""
    with pytest.raises(InvalidArgument, match="is no address: expected one such as 'bank/front:3f9a2c1d/accounts:17'"):
        Address(text)


def test_the_route_of_an_operation_becomes_a_route_and_a_key() -> None:
    """Whoever calls gives one thing; on the wire there are two, as for any object with a key."""
    route = Address(TEXT).to("deposit")
    assert isinstance(route, AddressedRoute)
    spec = CallSpec(route, {})
    check_call(spec)
    assert (spec.route, spec.key) == ("bank/accounts.deposit", "@front-2:#3f9a2c1d.17")
    assert type(spec.route) is str
    assert is_address_key(spec.key)
    assert not is_address_key("@front-2:17")
    with pytest.raises(InvalidArgument, match="selects the object: leave key='ada' out"):
        check_call(CallSpec(route, {}, key="ada"))
    for operation in ("", None, 3):
        with pytest.raises(InvalidArgument, match="an operation is a name such as 'deposit'"):
            Address(TEXT).to(operation)  # type: ignore[arg-type]


def directory(*, node_name: str = "", system: str = "bank") -> Directory:
    """Two replicas that serve the route."""
    places = {name: Place(1, f"/nowhere/{name}.sock") for name in ("front-1", "front-2")}
    return Directory(
        system,
        1,
        places,
        {"accounts.deposit": ("front-1", "front-2")},
        idempotent=("accounts.deposit",),
        node_name=node_name,
    )


def resolved(by: Directory) -> str:
    """Where a call to the address goes."""
    spec = CallSpec(Address(TEXT).to("deposit"), {})
    check_call(spec)
    return Resolver(by).resolve(spec.route, spec.routing_key())


def test_a_call_goes_to_the_backplane_that_the_address_names() -> None:
    """Not to the home of its key: that is where the hash of a text points to."""
    assert resolved(directory()) == "front-2"
    assert resolved(directory(system="cash", node_name="bank")) == "front-2"
    assert Resolver(directory()).is_idempotent("bank/accounts.deposit")


def test_an_address_of_another_system_reaches_nobody_here() -> None:
    """Both have a backplane `front-2`, and perhaps an object 17."""
    for by in (directory(system="cash"), directory(node_name="till")):
        with pytest.raises(UnknownRoute, match="of another node, and this system knows none"):
            resolved(by)
