"""Sign-in attempts: the state of a sign-in between the gateway and the provider, kept by the browser that began it.

The state is in a cookie, sealed with a key that only this process has. So a flood of sign-ins takes no memory of the gateway
and ends nobody else's, and a callback counts only in the browser that began it (RFC 6749, section 10.12). Decides; no I/O.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from itertools import islice
from typing import Final

import msgspec

#: Seconds that a user has to sign in at the provider.
ATTEMPT_S: Final = 600.0
#: Most states that have been used and have not expired yet. Beyond it sign-ins are refused until some have.
USED_MAX: Final = 100_000
#: A path of this gateway, in visible ASCII without a backslash, which browsers read as a slash.
_PATH: Final = re.compile(r"/[!-\[\]-~]{0,1999}")


class SignInAttempt(msgspec.Struct, frozen=True):
    """One sign-in. state, nonce, verifier: random texts; the verifier is that of PKCE (RFC 7636). next: the path to go to after
    it. redirect: the address of the callback. until_s: Unix time.
    """

    state: str
    nonce: str
    verifier: str
    next: str
    redirect: str
    until_s: float

    @property
    def challenge(self) -> str:
        """The code challenge of the verifier, by the method S256."""
        return urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


def is_own_path(path: str) -> bool:
    """Whether a redirect to a path stays at this gateway."""
    return _PATH.fullmatch(path) is not None and "//" not in path and "/." not in path


def sealed(attempt: SignInAttempt, key: bytes) -> str:
    """The attempt as a cookie's value."""
    body = urlsafe_b64encode(msgspec.json.encode(attempt))
    return f"{body.decode()}.{_tag(body, key)}"


class SignInAttempts:
    """Opens each attempt at most once."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        #: By state that was used: when its attempt expires. In the order of use.
        self._used: dict[str, float] = {}

    @property
    def is_full(self) -> bool:
        return len(self._used) >= USED_MAX

    def open(self, cookie: str, state: str, now_s: float) -> SignInAttempt | None:
        """The attempt of a browser's cookie, that began with this `state`; it cannot be opened again.

        None: there is none, it has expired, was used, or is of another browser.
        """
        body, _, tag = cookie.partition(".")
        if not cookie.isascii() or not hmac.compare_digest(tag, _tag(body.encode(), self._key)):
            return None
        attempt = msgspec.json.decode(urlsafe_b64decode(body), type=SignInAttempt)
        if not hmac.compare_digest(attempt.state.encode(), state.encode("utf-8", "surrogateescape")):
            return None
        self._forget(now_s)
        if attempt.until_s <= now_s or attempt.state in self._used or self.is_full:
            return None
        self._used[attempt.state] = attempt.until_s
        return attempt

    def _forget(self, now_s: float) -> None:
        """Forget the oldest used states that have expired: at most two at a time, so that no request takes long."""
        for state in [*islice(self._used, 2)]:
            if self._used[state] <= now_s:
                del self._used[state]


def _tag(body: bytes, key: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()
