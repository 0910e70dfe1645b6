"""Ring: the keys of others, as a text that a person can read, edit and diff. One key a line:

    trust  berlin curve:… routes=exported topics=exported
    revoke paris  curve:… routes=index.* topics=none

A revoked line stays, so that the key is not trusted again by mistake. Each key is there once, and so is each trusted name; a
revoked key and its successor may share one. One wrong line makes the whole ring invalid: half a list could lack the one line
that keeps somebody out. Immutable; a change gives another ring. Pure.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, replace

from ..errors import FailedPrecondition, InvalidArgument, NotFound
from .grants import DEFAULT, Grant
from .keys import FINGERPRINT, PREFIX, PublicKey, shown

TRUST, REVOKE = "trust", "revoke"
#: Names appear in logs, and in ZeroMQ's User-Id, which has 255 bytes at most.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
#: A cluster is tens of nodes. A larger file is another file, or an accident.
HOLDERS_MAX = 10_000
TEXT_BYTES_MAX = 4 << 20
HEADING = (
    "# Keys of others. `trust NAME KEY routes=... topics=... offers=...` lets it in, `revoke NAME KEY` keeps it out.",
    "# Changed by `appbackplane keys`, or by hand; running processes reload it by themselves.",
)


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a key: its name here, its grants, and which routes it may offer (None: as `[peers]` says).

    Raises `InvalidArgument` for a malformed name.
    """

    name: str
    key: PublicKey
    routes: Grant = DEFAULT
    topics: Grant = DEFAULT
    is_revoked: bool = False
    offers: Grant | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidArgument(f"not a name: {shown(self.name)}; expected letters, digits, - and _")

    @property
    def user_id(self) -> str:
        """ZeroMQ's mark on each of its frames. Name and key, as a name may get a new key while the old is connected."""
        return f"{self.name}/{self.key.fingerprint}"

    def __str__(self) -> str:
        word = REVOKE if self.is_revoked else TRUST
        offers = "" if self.offers is None else f" offers={self.offers}"  # older versions refuse lines that have it
        return f"{word} {self.name} {self.key} routes={self.routes} topics={self.topics}{offers}"


@dataclass(frozen=True)
class Ring:
    """Holders by key and by User-Id; and the lines of the file, comments too."""

    lines: tuple[str | Holder, ...] = HEADING
    _by_key: dict[bytes, Holder] = field(init=False, repr=False, compare=False)
    _by_user_id: dict[str, Holder] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        holders = self.holders
        object.__setattr__(self, "_by_key", {one.key.raw: one for one in holders})
        object.__setattr__(self, "_by_user_id", {one.user_id: one for one in holders if not one.is_revoked})

    @classmethod
    def parse(cls, text: str) -> Ring:
        """Parse the text of the file. Raises `InvalidArgument` that names the first wrong line."""
        lines: list[str | Holder] = []
        keys: dict[bytes, int] = {}
        names: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                lines.append(line)
                continue
            try:
                holder = _holder(line)
                _once(keys, holder.key.raw, number, "the key")
                if not holder.is_revoked:
                    _once(names, holder.name, number, f"the name {holder.name!r}")
            except InvalidArgument as error:
                raise InvalidArgument(f"line {number}: {error.message}") from None
            lines.append(holder)
            if len(keys) > HOLDERS_MAX:
                raise InvalidArgument(f"line {number}: expected at most {HOLDERS_MAX:,} keys")
        return cls(tuple(lines))

    @property
    def holders(self) -> tuple[Holder, ...]:
        """All holders, the revoked too, in the order of the lines."""
        return tuple(line for line in self.lines if isinstance(line, Holder))

    @property
    def text(self) -> str:
        """The text of the ring's file."""
        return "".join(f"{line}\n" for line in self.lines)

    def of_key(self, raw: bytes) -> Holder | None:
        """The holder of this key, revoked or not; None: unknown."""
        return self._by_key.get(raw)

    def of_user_id(self, user_id: str) -> Holder | None:
        """The holder with this User-Id, if trusted now; else None."""
        return self._by_user_id.get(user_id)

    def named(self, name: str) -> Holder:
        """The trusted holder of that name. Raises `NotFound`."""
        trusted = {one.name: one for one in self.holders if not one.is_revoked}
        if name not in trusted:
            raise NotFound(f"no trusted key is named {shown(name)}{_near(name, tuple(trusted))}")
        return trusted[name]

    def trusting(self, holder: Holder) -> Ring:
        """A ring that trusts this holder; a known key gets its grants. Raises `FailedPrecondition`."""
        there = self.of_key(holder.key.raw)
        if there is not None and there.is_revoked:
            raise FailedPrecondition(
                f"the key {holder.key.fingerprint} of {there.name!r} was revoked: have a new one made there "
                "(appbackplane keys new --replace)"
            )
        if there is not None and there.name != holder.name:
            raise FailedPrecondition(f"the key {holder.key.fingerprint} is trusted already, as {there.name!r}")
        if there is not None:
            return Ring(tuple(holder if line is there else line for line in self.lines))
        if any(one.name == holder.name and not one.is_revoked for one in self.holders):
            other = self.named(holder.name).key.fingerprint
            raise FailedPrecondition(
                f"{holder.name!r} is trusted with another key, {other}: revoke that first (appbackplane keys revoke "
                f"{holder.name})"
            )
        if len(self.holders) >= HOLDERS_MAX:
            raise FailedPrecondition(f"the ring has {HOLDERS_MAX:,} keys: no more fit")
        return Ring((*self.lines, holder))

    def revoking(self, which: str) -> Ring:
        """A ring without trust in this name, key or fingerprint; twice is no error. Raises `NotFound`."""
        found = self.find(which)
        return Ring(tuple(replace(found, is_revoked=True) if line is found else line for line in self.lines))

    def find(self, which: str) -> Holder:
        """By name (a trusted holder first), key or fingerprint. Raises `NotFound`, and `InvalidArgument` for half a key."""
        holders = sorted(self.holders, key=lambda one: one.is_revoked)
        if which.startswith(PREFIX):
            key = PublicKey.parse(which)
            holders = [one for one in holders if one.key == key]
        elif FINGERPRINT.fullmatch(which):
            holders = [one for one in holders if which in (one.key.fingerprint, one.name)]
        else:
            holders = [one for one in holders if one.name == which]
        if not holders:
            raise NotFound(f"no key of that name here: {shown(which)}{_near(which, [h.name for h in self.holders])}")
        return holders[0]


def _holder(line: str) -> Holder:
    """Parse one line of the file. Raises `InvalidArgument`."""
    words = line.split()
    if words[0] not in (TRUST, REVOKE) or len(words) < 3:
        raise InvalidArgument(f"expected '{TRUST} NAME KEY' or '{REVOKE} NAME KEY', got {shown(words[0])}")
    word, name, key, *options = words
    grants: dict[str, Grant] = {}
    for option in options:
        kind, equals, patterns = option.partition("=")
        if kind not in ("routes", "topics", "offers") or not equals or kind in grants:
            raise InvalidArgument(
                f"expected routes=..., topics=... and offers=..., each at most once, got {shown(option)}"
            )
        grants[kind] = (Grant.of_offers if kind == "offers" else Grant.of)(patterns.split(","))
    return Holder(name, PublicKey.parse(key), **grants, is_revoked=word == REVOKE)


def _once(seen: dict[bytes, int] | dict[str, int], what: bytes | str, number: int, said: str) -> None:
    first = seen.setdefault(what, number)  # type: ignore[arg-type]
    if first != number:
        raise InvalidArgument(f"{said} is in line {first} already")


def _near(word: str, known: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (there is {', '.join(known[:10])})" if known else ""
