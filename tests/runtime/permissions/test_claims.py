"""Claimed groups: those of signed-in users, beside the groups of the operator, for as long as they are signed in."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime import FailedPrecondition
from appbackplane.runtime.permissions import permission_file
from appbackplane.runtime.permissions.claims import with_claims, without_claims_by
from appbackplane.runtime.permissions.permission_file import PermissionFile, Permissions, change, read
from appbackplane.runtime.permissions.sharing import revoked, shared
from appbackplane.runtime.permissions.table import GROUP, ClaimedGroups, Permission, PermissionTable

FAMILY = Permission(id="1", who=f"{GROUP}family", access=("read", "share"), things=("urn:h:a",))
GROUPS = st.lists(st.sampled_from(["family", "staff"]), max_size=2, unique=True)


@given(
    members=st.booleans(),
    groups=GROUPS,
    until=st.floats(0.0, 10.0),
    permission_until=st.none() | st.floats(0.0, 10.0),
    times=st.lists(st.floats(0.0, 11.0), min_size=1, max_size=8),
)
def test_a_claimed_group_counts_until_the_claim_ends(
    members: bool, groups: list[str], until: float, permission_until: float | None, times: list[float]
) -> None:
    """However often it was asked before; and the operator's group needs no claim."""
    permission = msgspec.structs.replace(FAMILY, until=permission_until)
    table = PermissionTable(
        [permission], {"family": ["ada"]} if members else {}, {"ada": ClaimedGroups(tuple(groups), until)}
    )
    for now in sorted(times):
        is_member = members or ("family" in groups and now < until)
        is_permitted = is_member and (permission_until is None or now < permission_until)
        assert (table.decide("ada", "urn:h:a", (), "read", "x", now).until_s > now) == is_permitted
        assert ("family" in table.groups_of("ada", now)) == is_member
        assert table.decide("ben", "urn:h:a", (), "read", "x", now).until_s <= now


def test_claims_are_in_the_file_so_every_process_knows_them(tmp_path: Path) -> None:
    """And gone with the sign-out."""
    path = tmp_path / "p.json"
    change(path, lambda _: (Permissions(permissions=(FAMILY,)), None))
    file = PermissionFile(path)

    def may_read(now: float) -> bool:
        return file.table(now).decide("ada", "urn:h:a", (), "read", "x", now).until_s > now

    assert not may_read(1.0)
    claims = ClaimedGroups(("family",), 100.0, "gateway")
    change(path, lambda contents: (with_claims(contents, "ada", claims, 1.0), None))
    assert may_read(2.0) and read(path).claimed == {"ada": claims}
    change(path, lambda contents: (with_claims(contents, "ada", None, 3.0), None))
    assert not may_read(4.0) and read(path).claimed == {}


def test_claims_that_have_ended_or_say_nothing_are_not_kept() -> None:
    """The file is bounded, and so is what each backplane reads."""
    contents = with_claims(Permissions(), "ada", ClaimedGroups(("a",), 5.0, "web"), 1.0)
    assert set(with_claims(contents, "ben", ClaimedGroups(("a",), 9.0), 4.0).claimed) == {"ada", "ben"}
    assert set(with_claims(contents, "ben", ClaimedGroups(("a",), 9.0), 5.0).claimed) == {"ben"}
    assert set(with_claims(contents, "ben", ClaimedGroups((), 9.0), 4.0).claimed) == {"ada"}
    assert without_claims_by(contents, "web").claimed == {} and without_claims_by(contents, "other") == contents


def test_too_many_claims_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason; nothing has changed."""
    monkeypatch.setattr(permission_file, "PERMISSIONS_MAX", 1)
    path = tmp_path / "p.json"
    for user in ("ada", "ada"):
        change(path, lambda contents, user=user: (with_claims(contents, user, ClaimedGroups(("a",), 9.0), 1.0), None))
    with pytest.raises(FailedPrecondition, match="claimed: more than 1 users are signed in"):
        change(path, lambda contents: (with_claims(contents, "ben", ClaimedGroups(("a",), 9.0), 1.0), None))
    assert set(read(path).claimed) == {"ada"}


def test_what_a_claimed_group_may_share_ends_with_the_claim() -> None:
    """Nobody hands on more than he has. And a revocation of the group's permission ends it at once."""
    contents = with_claims(Permissions(permissions=(FAMILY,)), "ada", ClaimedGroups(("family",), 50.0), 1.0)
    handed = Permission(id="2", who="ben", access=("read",), things=("urn:h:a",), until=90.0, by="ada")
    contents, given = shared(contents, handed, ["ops"], {}, 2.0)
    assert given.until == 50.0
    kept, ending = revoked(contents, "1", "ops", ["ops"], {}, 3.0)
    assert {each.id for each in ending} == {"1", "2"} and kept.permissions == ()
