"""Address: names one light object of one process, and no other ever after; text, so that it travels in any message.

`bank/front:3f9a2c1d/accounts:17` is object 17 of the component `accounts` in the backplane `front` of the node (or, without
one, the system) `bank`. The eight digits are the incarnation of the process: another process of the same backplane has others,
so an old address never reaches a new object. `address.to("deposit")` is a route, and is called like any other: a call to an
address has priority, deadline, order and retries as every call has. On the wire it is the plain route with a key (`KEY`),
which the resolver sends to the named backplane (resolver.py), and which the callee looks up (runtime/objects/spawned.py).
"""

from __future__ import annotations

import re
from typing import Any, Final, Self

from .addressing import AT, OF_NODE
from .call_spec import CallSpec
from .errors import InvalidArgument, text_of

_SHAPE: Final = re.compile(r"([^/:\s]+)/([^/:\s]+):([0-9a-f]{8})/([^/:\s]+):([1-9][0-9]{0,17})")
_EXAMPLE: Final = "bank/front:3f9a2c1d/accounts:17"
#: After `@BACKPLANE:` in a key: an address follows. No object may be added under such a key.
KEY: Final = "#"


def address_key(backplane: str, incarnation: str) -> str:
    """The key of the addresses of one process, up to their numbers."""
    return f"{AT}{backplane}:{KEY}{incarnation}."


def is_address_key(key: str) -> bool:
    """Whether a key selects an object by its address."""
    return key.startswith(AT) and f":{KEY}" in key


class Address(str):
    """The address of a light object. Immutable, and equal to its text. As an annotation of a parameter it checks the text."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Raises `InvalidArgument` for a text that is no address."""
        if type(text) is not cls and (not isinstance(text, str) or _SHAPE.fullmatch(text) is None):
            raise InvalidArgument(f"{text_of(repr(text), 80)} is no address: expected one such as {_EXAMPLE!r}")
        return super().__new__(cls, text)

    @property
    def home(self) -> str:
        """The node where the object is; the system, if that is no node."""
        return self._parts()[0]

    @property
    def backplane(self) -> str:
        """The backplane of the object."""
        return self._parts()[1]

    @property
    def incarnation(self) -> str:
        """The process of the backplane: eight hexadecimal digits, different in each."""
        return self._parts()[2]

    @property
    def component(self) -> str:
        """The component of the object."""
        return self._parts()[3]

    @property
    def number(self) -> int:
        """The number of the object in its process, from 1; none is used twice."""
        return int(self.rpartition(":")[2])

    def to(self, operation: str) -> AddressedRoute:
        """The route of one of the object's operations: `self.call(account.to("deposit"), cents=5)`, and so for clients."""
        if not isinstance(operation, str) or not operation:
            raise InvalidArgument(f"{self}: an operation is a name such as 'deposit', got {operation!r}")
        return AddressedRoute(self, operation)

    def _parts(self) -> tuple[str | Any, ...]:
        found = _SHAPE.fullmatch(self)
        assert found is not None, "an address is checked when it is made"
        return found.groups()


def made(text: str) -> Address:
    """An address of parts that are known to be right, unchecked: a fifth of the time."""
    return str.__new__(Address, text)


class AddressedRoute(str):
    """A route with the key of one object. `check_call` splits it into the two, so all callers take it for a route."""

    __slots__ = ("address", "key")

    address: Address
    key: str

    def __new__(cls, address: Address, operation: str) -> Self:
        home, backplane, incarnation, component, number = address._parts()
        self = super().__new__(cls, f"{home}{OF_NODE}{component}.{operation}")
        self.address, self.key = address, f"{address_key(backplane, incarnation)}{number}"
        return self


def split_route(spec: CallSpec) -> None:
    """Give a call of an `AddressedRoute` its plain route and its key. Raises `InvalidArgument` if it names another key."""
    route = spec.route
    if not isinstance(route, AddressedRoute):
        return
    if spec.key is not None:
        raise InvalidArgument(f"{route}: the address {route.address} selects the object: leave key={spec.key!r} out")
    spec.route, spec.key = str.__str__(route), route.key
