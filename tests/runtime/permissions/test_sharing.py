"""Sharing: nobody gives what he has not, or for longer; and what was handed on ends with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from appbackplane.runtime import FailedPrecondition, InvalidArgument, NotFound, PermissionDenied
from appbackplane.runtime.permissions.permission_file import GuestLink, Permissions
from appbackplane.runtime.permissions.sharing import GIVEN_MAX, revoked, shared, without_expired
from appbackplane.runtime.permissions.table import Permission

OPERATORS = ("local",)
HALL = "urn:h:hall"


def permission(id: str, who: str, *access: str, by: str = "local", **more: object) -> Permission:
    """One, of the hall's lamp."""
    return Permission(id=id, who=who, access=access, things=(HALL,), by=by, **more)  # type: ignore[arg-type]


def give(contents: Permissions, each: Permission, now: float = 0.0, link: GuestLink | None = None) -> Permissions:
    """The contents afterwards."""
    return shared(contents, each, OPERATORS, {}, now, link)[0]


ADAS = give(Permissions(), permission("1", "ada", "read", "invoke:flash", "share"))


@pytest.mark.parametrize("access", [("read",), ("read:brightness", "invoke:flash"), ("share", "read")])
def test_what_one_has_can_be_handed_on(access: tuple[str, ...]) -> None:
    """The whole of it, or less."""
    assert give(ADAS, permission("2", "ben", *access, by="ada")).permissions[-1].who == "ben"


@pytest.mark.parametrize(
    "wrong",
    [
        permission("2", "ben", "write", by="ada"),
        permission("2", "ben", "invoke", by="ada"),
        permission("2", "ben", "invoke:open", by="ada"),
        permission("2", "ben", "read", by="eve"),
        Permission(id="2", who="ben", access=("read",), things=("*",), by="ada"),
        Permission(id="2", who="ben", access=("read",), types=("saref:Lamp",), by="ada"),
        Permission(id="2", who="ben", access=("read",), things=(HALL, "urn:h:door"), by="ada"),
    ],
)
def test_what_one_has_not_cannot_be_given(wrong: Permission) -> None:
    """Nor may a pattern reach further than the giver's own."""
    with pytest.raises(PermissionDenied):
        give(ADAS, wrong)


def test_a_pattern_is_not_handed_on_even_by_one_who_has_it() -> None:
    """Things that come later would be shared by nobody's will."""
    contents = give(Permissions(), Permission(id="1", who="ada", access=("read", "share"), things=("*",), by="local"))
    for things in (("*",), ("urn:h:*",)):
        with pytest.raises(PermissionDenied, match="by their ids alone"):
            give(contents, Permission(id="2", who="ben", access=("read",), things=things, by="ada"))


def test_without_the_access_share_nothing_is_handed_on() -> None:
    """To use a thing is not to own it."""
    contents = give(Permissions(), permission("1", "ada", "read"))
    with pytest.raises(PermissionDenied, match="ada may not share share of urn:h:hall"):
        give(contents, permission("2", "ben", "read", by="ada"))


def test_it_ends_with_the_givers_own_and_is_no_more_urgent() -> None:
    """A guest of a guest does not outstay him."""
    contents = give(Permissions(), permission("1", "ada", "read", "share", until=100.0, priority=3))
    for until in (None, 500.0):
        _, given = shared(
            contents, permission("2", "ben", "read", by="ada", until=until, priority=0), OPERATORS, {}, 0.0
        )
        assert (given.until, given.priority) == (100.0, 3)
    _, given = shared(contents, permission("2", "ben", "read", by="ada", until=50.0), OPERATORS, {}, 0.0)
    assert given.until == 50.0


def test_a_revoked_permission_takes_along_those_that_were_given_by_it() -> None:
    """Over several hands; others stay."""
    contents = give(ADAS, permission("2", "ben", "read", "share", by="ada"))
    contents = give(contents, permission("3", "cid", "read", by="ben"))
    contents = give(contents, permission("4", "cid", "read"))
    left, ended = revoked(contents, "1", "local", OPERATORS, {}, 0.0)
    assert [each.id for each in left.permissions] == ["4"]
    assert {each.id for each in ended} == {"1", "2", "3"}


def test_two_who_share_with_each_other_do_not_keep_each_other_alive() -> None:
    """Ada's own is gone: Ben's, by Ada, goes; and Ada's second, by Ben, with it."""
    contents = give(ADAS, permission("2", "ben", "read", "share", by="ada"))
    contents = give(contents, permission("3", "ada", "read", "share", by="ben"))
    left, _ = revoked(contents, "1", "local", OPERATORS, {}, 0.0)
    assert left.permissions == ()


def test_only_the_giver_and_operators_revoke() -> None:
    """And others do not learn that it exists."""
    contents = give(ADAS, permission("2", "ben", "read", by="ada"))
    for other in ("ben", "eve"):
        with pytest.raises(NotFound, match="no permission or link '2' of yours"):
            revoked(contents, "2", other, OPERATORS, {}, 0.0)
    assert [each.id for each in revoked(contents, "2", "ada", OPERATORS, {}, 0.0)[0].permissions] == ["1"]


def test_a_link_is_gone_with_its_permission() -> None:
    """By its own id, too."""
    link = GuestLink(id="77", digest="a" * 64, by="ada")
    contents = give(ADAS, permission("2", "link:77", "read", by="ada"), link=link)
    assert contents.link_of("a" * 64, 0.0) is not None
    for id in ("2", "77", "1"):
        assert revoked(contents, id, "local", OPERATORS, {}, 0.0)[0].links == ()


def test_what_has_ended_is_not_given_and_is_swept() -> None:
    """A link that has expired is no link."""
    with pytest.raises(InvalidArgument, match="would have ended already"):
        give(ADAS, permission("2", "ben", "read", until=5.0), now=5.0)
    link = GuestLink(id="77", digest="a" * 64)
    contents = give(ADAS, permission("2", "link:77", "read", until=5.0), link=link)
    assert contents.link_of("a" * 64, 4.9) is not None and contents.link_of("a" * 64, 5.0) is None
    assert without_expired(contents, 5.0) == ADAS


def may_read(contents: Permissions, who: str, now: float = 0.0) -> bool:
    """Whether somebody may read the hall's lamp."""
    return contents.table(OPERATORS).decide(who, HALL, (), "read", "brightness", now).until_s > now


FAMILY = Permissions(groups={"family": ("cid",)})


def test_what_was_handed_on_through_a_group_ends_with_the_first_giver() -> None:
    """Ada's friend Ben shares with the family; Cid, of the family, with Dora."""
    contents = give(FAMILY, permission("1", "ada", "read", "share"))
    contents = give(contents, permission("2", "ben", "read", "share", by="ada"))
    contents = give(contents, permission("3", "group:family", "read", "share", by="ben"))
    contents = give(contents, permission("4", "dora", "read", by="cid"))
    assert all(may_read(contents, who) for who in ("ben", "cid", "dora"))
    left, ended = revoked(contents, "2", "ada", OPERATORS, {}, 0.0)
    assert not any(may_read(left, who) for who in ("ben", "cid", "dora"))
    assert {each.id for each in ended} == {"2", "3", "4"} and [each.id for each in left.permissions] == ["1"]


def test_nobody_keeps_what_a_group_gave_by_sharing_it_with_himself() -> None:
    """Nor after an edit of the file by hand, which takes nothing else along."""
    contents = give(FAMILY, permission("1", "group:family", "read", "share"))
    contents = give(contents, permission("2", "cid", "read", "share", by="cid"))
    assert may_read(contents, "cid")
    assert not may_read(msgspec.structs.replace(contents, groups={}), "cid")
    assert not may_read(msgspec.structs.replace(contents, permissions=contents.permissions[1:]), "cid")


def test_what_was_handed_on_ends_when_its_last_giver_has_it_no_more() -> None:
    """Ben has it from an operator without an end, and from Ada for ten seconds; the first is revoked."""
    contents = give(ADAS, permission("2", "ben", "read", "share"))
    contents = give(contents, permission("3", "dora", "read", by="ben"))
    contents = give(contents, permission("4", "ben", "read", "share", by="ada", until=10.0))
    left, _ = revoked(contents, "2", "local", OPERATORS, {}, 0.0)
    assert may_read(left, "dora", 9.0) and not may_read(left, "dora", 10.0)


def test_a_link_that_is_revoked_is_gone_whoever_else_shares_with_it() -> None:
    """Its token must not live on by a permission of somebody else; and nobody shares with a link but by making it."""
    link = GuestLink(id="77", digest="a" * 64)
    contents = give(ADAS, permission("2", "link:77", "read", by="ada"), link=link)
    with pytest.raises(InvalidArgument, match="make another link"):
        give(contents, permission("3", "link:77", "read"))
    foreign = permission("3", "link:77", "read")
    contents = msgspec.structs.replace(contents, permissions=(*contents.permissions, foreign))
    assert revoked(contents, "2", "ada", OPERATORS, {}, 0.0)[0].links == ()


def test_one_user_cannot_fill_the_file() -> None:
    """Others would find it full."""
    contents = ADAS
    for number in range(GIVEN_MAX):
        contents = msgspec.structs.replace(
            contents, permissions=(*contents.permissions, permission(f"n{number}", "ben", "read", by="ada"))
        )
    with pytest.raises(FailedPrecondition, match="ada has given 200 permissions: revoke some first"):
        give(contents, permission("x", "ben", "read", by="ada"))
    give(contents, permission("x", "ben", "read"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"who": ""}, {"who": "x" * 201}, {"who": "a\nb"}, {"who": "group:"}, {"who": "\u202eada"},
        {"things": ("a",) * 65}, {"things": ("a" * 201,)}, {"access": ("read",) * 33}, {"access": ("read:" + "a" * 250,)},
    ],
)  # fmt: skip
def test_what_a_reader_of_the_file_would_refuse_is_refused_first(wrong: dict[str, Any]) -> None:
    """Else one request would take the permissions of all away."""
    given: dict[str, Any] = {"who": "ben", "things": (HALL,), "access": ("read",)} | wrong
    with pytest.raises(InvalidArgument):
        give(ADAS, Permission(id="2", by="ada", **given))
