"""Keys: a public key as people hand it on and compare it, and the pair of a node.

A key is 32 bytes (Curve25519, as CurveZMQ has it). As text it is `curve:` and 43 characters of URL-safe base64: one word for
every shell, where ZeroMQ's own Z85 is full of `$`, `&`, `<` and `!`. The prefix tells a key from a name, and keeps it from
beginning with `-`. A fingerprint is 100 bits of its SHA-256, five groups of four letters: short enough to compare on the
telephone, and too long to search for a second key that has it. Pure; pairs are made in keyring.py.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache

from ..errors import InvalidArgument

KEY_BYTES = 32
PREFIX, SECRET_PREFIX = "curve:", "secret:"
HEADING = (
    "# The key pair of this host. Anyone who has this file can act as this host: keep it here, readable by you alone."
)
_LETTERS = re.compile(r"[A-Za-z0-9_-]{43}")
FINGERPRINT = re.compile(r"[a-z2-7]{4}(-[a-z2-7]{4}){4}")
#: Characters of a word that are quoted in an error.
_SHOWN_MAX = 60


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key; may be shown to anybody."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES or not any(self.raw):
            raise InvalidArgument(f"a key has {KEY_BYTES} bytes that are not all zero")

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Parse `curve:…`. Raises `InvalidArgument`; the word is not quoted whole, as it may be a secret pasted by mistake."""
        raw = decoded(text, PREFIX)
        if raw is None or not any(raw):
            raise InvalidArgument(
                f"not a public key: {text[: len(PREFIX)]!r}... ({len(text)} characters); expected {PREFIX!r} and 43 more, "
                "as `appbackplane keys show` prints it on the other host"
            )
        return cls(raw)

    def __str__(self) -> str:
        return encoded(self.raw, PREFIX)

    @property
    def fingerprint(self) -> str:
        """Short form for people to compare: `k3fh-2jda-…`."""
        return fingerprint(self.raw)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The keys of a node. The holder of the secret is this node, so it is in no message, no log and no representation."""

    public: PublicKey
    secret: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the pair's file."""
        return f"{HEADING}\npublic {self.public}\nsecret {encoded(self.secret, SECRET_PREFIX)}\n"

    @classmethod
    def parse(cls, text: str) -> KeyPair:
        """Parse that file. Does not check that the two belong together. Raises `InvalidArgument`, and quotes nothing."""
        lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if [line[0] for line in lines] != ["public", "secret"] or any(len(line) != 2 for line in lines):
            raise InvalidArgument("expected a line `public KEY` and a line `secret KEY`")
        secret = decoded(lines[1][1], SECRET_PREFIX)
        if secret is None:
            raise InvalidArgument(f"malformed secret: expected {SECRET_PREFIX!r} and 43 characters")
        return cls(PublicKey.parse(lines[0][1]), secret)


def encoded(raw: bytes, prefix: str) -> str:
    """32 bytes as text, after the prefix."""
    return prefix + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decoded(text: str, prefix: str) -> bytes | None:
    """The 32 bytes of a text; None: it is not the one canonical form."""
    letters = text.removeprefix(prefix)
    if not text.startswith(prefix) or not _LETTERS.fullmatch(letters):
        return None
    raw = base64.b64decode(letters + "=", altchars=b"-_", validate=True)
    return (
        raw if encoded(raw, prefix) == text else None
    )  # four texts have the same bytes: their last two bits do not count


@lru_cache(maxsize=4_096)  # needed with each connection, and for each frame's User-Id
def fingerprint(raw: bytes) -> str:
    """Fingerprint of the bytes of a key, valid or not."""
    letters = base64.b32encode(hashlib.sha256(raw).digest()).decode().lower()[:20]
    return "-".join(letters[n : n + 4] for n in range(0, 20, 4))


def shown(word: str) -> str:
    """A word as it is quoted in an error, shortened."""
    return repr(word if len(word) <= _SHOWN_MAX else f"{word[:_SHOWN_MAX]}...")
