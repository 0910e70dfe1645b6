"""Admission: ZeroMQ's question whether a key may come in (ZAP, RFC 27) as frames, and the answer.

It is granted for this domain, CURVE, and a key that the ring trusts now. All else is refused, also malformed and unexpected
questions; the peer gets a number and no reason. `User-Id` is the holder's name and fingerprint: every frame of the connection
bears it, and nothing that the peer claims. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .keys import KEY_BYTES, fingerprint
from .ring import Ring

VERSION, MECHANISM = b"1.0", b"CURVE"
#: Version, request, domain, address, routing id, mechanism; then the frames of the mechanism.
_HEAD = 6
#: ZAP's status codes: granted, refused, and no answer because of an error of ours.
OK, REFUSED, BROKEN = b"200", b"400", b"500"
#: Characters kept of an address that came in a frame.
_ADDRESS_MAX = 60


@dataclass(frozen=True, slots=True)
class RefusedConnection:
    """A connection that was not let in, and why; for the log."""

    address: str
    #: Of the key that was shown; None: none was.
    fingerprint: str | None
    reason: str

    def sentence(self) -> str:
        """The refusal as one line."""
        key = "no key" if self.fingerprint is None else f"key {self.fingerprint}"
        return f"refused {self.address} ({key}): {self.reason}"


@dataclass(frozen=True, slots=True)
class ZapReply:
    """The answer to a question of ZeroMQ."""

    request: bytes
    status: bytes
    user_id: bytes = b""
    refusal: RefusedConnection | None = None

    def frames(self) -> list[bytes]:
        """ZAP's frames, without a reason: the text would be for the peer, which is owed none."""
        return [VERSION, self.request, self.status, b"", self.user_id, b""]


def answer(question: Sequence[bytes], domain: str, ring: Ring | None) -> ZapReply:
    """Decide on a question. `ring`: None if it cannot be read now; nobody comes in until it can."""
    request = question[1] if len(question) > 1 else b""
    if len(question) < _HEAD or question[0] != VERSION:
        return _refused(request, "unknown", None, "not a ZAP 1.0 request")
    address = plain(question[3].decode(errors="backslashreplace")[:_ADDRESS_MAX]) or "unknown"
    if question[2] != domain.encode():
        return _refused(request, address, None, "the request came from a socket of another ZAP domain")
    if question[5] != MECHANISM:
        mechanism = question[5][:10].decode(errors="backslashreplace")
        return _refused(request, address, None, f"{mechanism} instead of CURVE")
    key = question[_HEAD] if len(question) == _HEAD + 1 else b""
    if len(key) != KEY_BYTES:
        return _refused(request, address, None, "its key is not 32 bytes")
    if ring is None:
        return _refused(request, address, key, "the ring cannot be read", BROKEN)
    holder = ring.of_key(key)
    if holder is None:
        return _refused(request, address, key, "the key is unknown here")
    if holder.is_revoked:
        return _refused(request, address, key, f"the key of {holder.name!r} was revoked")
    return ZapReply(request, OK, holder.user_id.encode())


def plain(address: str) -> str:
    """An IPv4 address without the IPv6 prefix that it has on a dual-stack socket."""
    return address.removeprefix("::ffff:") if "." in address else address


def _refused(request: bytes, address: str, key: bytes | None, reason: str, status: bytes = REFUSED) -> ZapReply:
    return ZapReply(
        request, status, refusal=RefusedConnection(address, None if key is None else fingerprint(key), reason)
    )
