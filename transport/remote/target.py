"""Target: the address of a node, and the name of the key that is expected there: `tcp://berlin@10.0.0.1:7400`.

The name is that of the key in this host's ring (`appbackplane keys trust berlin curve:…`): an address alone would accept any
node that answers there. A host's name is looked up once, when a client is made. Errors name the command that puts them right.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from ..errors import FailedPrecondition, InvalidArgument, NotFound
from ..security.addresses import SCHEME, check_address
from ..security.keyring import Keyring, default_folder
from ..security.keys import shown
from ..security.ring import NAME

_EXPECTED = f"expected {SCHEME}NAME@HOST:PORT, with the NAME of its key in this host's ring"


@dataclass(frozen=True, slots=True)
class Target:
    """A node as a client names it: by its key, and its address."""

    node: str
    #: `tcp://HOST:PORT`.
    address: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse `tcp://NAME@HOST:PORT`. Raises `InvalidArgument`."""
        name, at, rest = text.removeprefix(SCHEME).rpartition("@")
        if not text.startswith(SCHEME):
            raise InvalidArgument(f"not the address of a node: {shown(text)}; {_EXPECTED}")
        if not at:
            raise InvalidArgument(f"{shown(text)} does not say whose key is expected there; {_EXPECTED}")
        if not NAME.fullmatch(name):
            raise InvalidArgument(f"{shown(text)}: not a name: {shown(name)}; {_EXPECTED}")
        return cls(name, check_address(f"{SCHEME}{rest}", is_secured=True, is_bound=False))

    def __str__(self) -> str:
        return f"{SCHEME}{self.node}@{self.address.removeprefix(SCHEME)}"

    def looked_up(self) -> Target:
        """This target with a numeric host. Blocks while the resolver does. Raises `NotFound`."""
        host, _, port = self.address.removeprefix(SCHEME).rpartition(":")
        try:
            check_address(self.address, is_secured=True, is_bound=False, is_numeric=True)
        except InvalidArgument:
            try:
                found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][4][0]
            except OSError as error:
                raise NotFound(f"{self}: the host {host!r} is not known: {error.strerror or error}") from error
            return Target(self.node, f"{SCHEME}[{found}]:{port}" if ":" in str(found) else f"{SCHEME}{found}:{port}")
        return self

    def check_keys(self, keyring: Keyring) -> None:
        """Check that this host has a key, and trusts the node's. Raises `FailedPrecondition` with the command to type."""
        option = "" if keyring.folder.path == default_folder() else f" --folder {keyring.folder.path}"
        try:
            keyring.own()
        except FailedPrecondition as error:
            raise FailedPrecondition(f"{self}: {error.message}") from None
        keyring.refresh()
        if keyring.problem is not None:
            raise FailedPrecondition(f"{self}: {keyring.problem}")
        try:
            keyring.ring.named(self.node)
        except NotFound as error:
            raise FailedPrecondition(
                f"{self}: {error.message}: appbackplane keys trust {self.node} KEY{option}, with the KEY that "
                "`appbackplane keys show` prints on that host"
            ) from None
