"""Identities: how the supervisor recognises the control link of a process that it started.

Each identity ends with a token that only this supervisor can make, and that only this generation is given, at its spawn
(runtime/process_config.py). So no other process, and no other backplane, registers in its place or changes its limit.
Tokens are derived from a secret instead of kept in a table: nothing to clean up. 3 us each.
"""

from __future__ import annotations

import hmac
import re
import secrets

from appbackplane.transport.addressing import CONTROL

_CONTROL_PEER = re.compile(rf"{CONTROL}/(.+)-(\d+)-([0-9a-f]+)", re.ASCII)


class Identities:
    """Makes and verifies the control-link identities of one supervisor."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def token(self, backplane: str, generation: int) -> str:
        """The token in this generation's identity."""
        return hmac.digest(self._secret, f"{backplane}-{generation}".encode(), "sha256")[:16].hex()

    def peer_of(self, backplane: str, generation: int) -> bytes:
        """The peer identity of its control link."""
        return f"{CONTROL}/{backplane}-{generation}-{self.token(backplane, generation)}".encode()

    def generation_of(self, peer: bytes) -> tuple[str, int] | None:
        """(backplane, generation) of this control link; None: a client, or a forged identity."""
        match = _CONTROL_PEER.fullmatch(peer.decode(errors="replace"))
        if match is None:
            return None
        backplane, generation = match[1], int(match[2])
        return (backplane, generation) if hmac.compare_digest(peer, self.peer_of(backplane, generation)) else None
