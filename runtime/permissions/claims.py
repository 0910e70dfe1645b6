"""Claims: the groups of signed-in users, in the file of permissions, so that admission in every backplane knows them. Pure.

They stand beside the groups of the operator. Each has an end, in case the gateway that wrote it dies.
"""

from __future__ import annotations

import msgspec

from .permission_file import Permissions
from .table import ClaimedGroups


def with_claims(contents: Permissions, user: str, claims: ClaimedGroups | None, now_s: float) -> Permissions:
    """The contents with these claimed groups of a user in place of the former ones; None: without any.

    Claims of all users that have ended are removed. `now_s`: Unix time.
    """
    claimed = {name: each for name, each in contents.claimed.items() if each.until > now_s and name != user}
    if claims is not None and claims.groups and claims.until > now_s:
        claimed[user] = claims
    return msgspec.structs.replace(contents, claimed=claimed)


def without_claims_by(contents: Permissions, by: str) -> Permissions:
    """The contents without the claims that a gateway has written: it has started again, and nobody is signed in."""
    claimed = {name: each for name, each in contents.claimed.items() if each.by != by}
    return msgspec.structs.replace(contents, claimed=claimed)
