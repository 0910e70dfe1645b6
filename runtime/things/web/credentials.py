"""Credentials: the sessions and the verified tokens of users whom an OpenID provider has signed in. Decides; no I/O.

Only the digest of a session's id or of a token is kept. A session ends after some time without a request, and after a longer
time anyway. The groups of a user are those of the credential that was issued last. All are lost with the gateway's process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from appbackplane.transport.errors import Unavailable

from ...permissions.table import ClaimedGroups
from .id_tokens import OpenIdUser

#: Seconds without a request after which a session ends, and after which it ends in any case: a working day.
IDLE_S: Final = 3_600.0
SESSION_S: Final = 10 * 3_600.0
#: Most credentials, about 1 KB each, and most of one user: the one used longest ago ends, so nobody can use up all of them.
CREDENTIALS_MAX: Final = 20_000
OF_USER_MAX: Final = 20


@dataclass(slots=True, eq=False)
class Credential:
    """A session, or a verified token. Times are Unix times in seconds."""

    digest: str
    user: OpenIdUser
    until_s: float
    idle_s: float
    used_s: float
    is_ended: bool = False

    def is_live(self, now_s: float) -> bool:
        return now_s < min(self.until_s, self.used_s + self.idle_s)


class Credentials:
    """The credentials of all users, by digest. That of a session's id has a prefix, so that no token counts as a session."""

    def __init__(self) -> None:
        self._by_digest: dict[str, Credential] = {}
        self._of_user: dict[str, list[Credential]] = {}

    def find(self, digest: str, now_s: float) -> Credential | None:
        """The live credential with this digest, which has been used now."""
        found = self._by_digest.get(digest)
        if found is None or not found.is_live(now_s):
            return None
        found.used_s = now_s
        return found

    def add_session(self, digest: str, user: OpenIdUser, now_s: float) -> tuple[Credential, list[Credential]]:
        """Begin a session. Returns it, and the credentials that end for it. Raises `Unavailable`: too many are signed in."""
        return self._add(Credential(digest, user, now_s + SESSION_S, IDLE_S, now_s))

    def add_token(self, digest: str, user: OpenIdUser, now_s: float) -> tuple[Credential, list[Credential]]:
        """Remember a verified token until it expires. Returns it, and those that end for it. Raises `Unavailable`."""
        return self._add(Credential(digest, user, user.until_s, float("inf"), now_s))

    def end(self, credential: Credential) -> None:
        """End a credential, if it has not ended."""
        credential.is_ended = True
        if self._by_digest.get(credential.digest) is credential:
            del self._by_digest[credential.digest]
            of_user = self._of_user[credential.user.principal]
            of_user.remove(credential)
            if not of_user:
                del self._of_user[credential.user.principal]

    def end_expired(self, now_s: float) -> list[Credential]:
        """End the credentials whose time is over, and return them."""
        ended = [each for each in self._by_digest.values() if not each.is_live(now_s)]
        for each in ended:
            self.end(each)
        return ended

    def claims_of(self, principal: str, by: str = "") -> ClaimedGroups | None:
        """The groups of a user by the newest credential; None: the user is in none, or not signed in. `by`: the gateway."""
        credentials = self._of_user.get(principal)
        if not credentials:
            return None
        newest = max(credentials, key=lambda each: each.user.issued_s)
        return ClaimedGroups(newest.user.groups, newest.until_s, by) if newest.user.groups else None

    def _add(self, credential: Credential) -> tuple[Credential, list[Credential]]:
        before = self._by_digest.get(credential.digest)
        ended = [] if before is None else [before]
        of_user = self._of_user.get(credential.user.principal, [])
        if before is None and len(of_user) >= OF_USER_MAX:
            ended.append(min(of_user, key=lambda each: each.used_s))
        elif before is None and len(self._by_digest) >= CREDENTIALS_MAX:
            raise Unavailable(f"{CREDENTIALS_MAX:,} users are signed in: try again later", retry_after=60.0)
        for each in ended:
            self.end(each)
        self._by_digest[credential.digest] = credential
        self._of_user.setdefault(credential.user.principal, []).append(credential)
        return credential, ended
