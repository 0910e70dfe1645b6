"""Keyring: the key pair of this node and the ring of trusted keys, as files that are read again when they change.

`own.key` has the pair, `ring` the keys of others (ring.py): 0600 in a 0700 folder (folder.py). A change of trust holds from
the next `refresh` on, without a restart: one `stat`, 2 to 8 us. A ring that cannot be read any more lets no new connection in;
present ones keep the last ring that could be read, because a mistyped line must not take a cluster down. A missing ring is an
empty one: no key is trusted, and present connections end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import zmq
from zmq.utils import z85

from ..addressing import config_home
from ..errors import BackplaneError, FailedPrecondition, InvalidArgument
from .folder import Folder, Mark
from .keys import KeyPair, PublicKey
from .ring import TEXT_BYTES_MAX, Ring

OWN, RING = "own.key", "ring"
_OWN_BYTES_MAX = 4_096


def default_folder() -> Path:
    """`$XDG_CONFIG_HOME/appbackplane/keys`, else below `~/.config` (XDG Base Directory Specification)."""
    return config_home() / "appbackplane" / "keys"


class Keyring:
    """The keys of one folder. Reading makes nothing; changing makes the folder."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: another folder than the user's."""
        self.folder = Folder(default_folder() if path is None else path)
        #: The last ring that could be read.
        self.ring = Ring()
        #: Why the file cannot be read now; None: it can.
        self.problem: str | None = None
        self._mark: Mark | None = None
        #: The pair, with the mark of its file: it is requested for each connection that is dialled.
        self._own: tuple[Mark, KeyPair] | None = None

    def own(self) -> KeyPair:
        """The pair of this node. Raises `FailedPrecondition` if there is none, or others can have read it."""
        try:
            mark = self.folder.mark(OWN)
        except FailedPrecondition:  # reading it gives a better error
            mark = None
        if self._own is not None and mark is not None and mark == self._own[0]:
            return self._own[1]
        path = self.folder.path / OWN
        text = self.folder.read(OWN, _OWN_BYTES_MAX)
        if text is None:
            raise FailedPrecondition(f"no key pair in {self.folder.path}: make one (appbackplane keys new)")
        try:
            pair = KeyPair.parse(text)
        except InvalidArgument as error:
            raise FailedPrecondition(
                f"{path}: {error.message}; make another (appbackplane keys new --replace)"
            ) from None
        if z85.decode(zmq.curve_public(z85.encode(pair.secret))) != pair.public.raw:
            raise FailedPrecondition(
                f"{path}: its two keys do not belong together; make another pair (appbackplane keys new --replace)"
            )
        if mark is not None:
            self._own = mark, pair
        return pair

    def make_own(self, *, is_replacing: bool = False) -> PublicKey:
        """Make a pair. Raises `FailedPrecondition` if there is one already: hosts that trust it would not trust another."""
        with self.folder.locked():
            if not is_replacing and self.folder.mark(OWN) is not None:
                raise FailedPrecondition(
                    f"there is a key pair in {self.folder.path} already (appbackplane keys show); --replace makes another, "
                    "which nobody trusts yet"
                )
            public, secret = (z85.decode(key) for key in zmq.curve_keypair())
            pair = KeyPair(PublicKey(public), secret)
            self.folder.write(OWN, pair.text)
        return pair.public

    def refresh(self) -> bool:
        """Reload the key ring if its file has changed; returns whether the keys or `problem` changed. Raises nothing."""
        try:
            mark = self.folder.mark(RING)
            if self.problem is None and mark == self._mark:
                return False
            ring, problem = self._read(), None
        except BackplaneError as error:
            mark, ring, problem = None, self.ring, error.message
        has_changed = (ring, problem) != (self.ring, self.problem)
        self._mark, self.ring, self.problem = mark, ring, problem
        return has_changed

    def change(self, change: Callable[[Ring], Ring]) -> Ring:
        """Change the ring under the folder's lock. Raises the errors of `change`, and `FailedPrecondition`."""
        with self.folder.locked():
            before = self._read()
            ring = change(before)
            if ring != before:
                self.folder.write(RING, ring.text)
        self.refresh()
        return ring

    def _read(self) -> Ring:
        text = self.folder.read(RING, TEXT_BYTES_MAX)
        if text is None:
            return Ring()
        try:
            return Ring.parse(text)
        except InvalidArgument as error:
            raise FailedPrecondition(f"{self.folder.path / RING}, {error.message}") from None
