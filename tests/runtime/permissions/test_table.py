"""Permissions: denied by default, and decided as a slow reading of the rules decides."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.permissions.table import GROUP, Permission, PermissionTable
from tests.models.permission_model import may

WHO = ("ada", "ben", "link:1", f"{GROUP}family", f"{GROUP}staff")
PEOPLE = ("ada", "ben", "link:1", "eve")
IDS = ("urn:h:a", "urn:h:b", "urn:g:a")
PATTERNS = (*IDS, "*", "urn:h:*", "*:a")
TYPES = ("saref:Lamp", "saref:Door")
KINDS = ("read", "write", "invoke", "observe", "share")
NAMES = ("x", "y")
ACCESS = st.sampled_from([*KINDS, *(f"{kind}:{name}" for kind in KINDS for name in NAMES)])


@st.composite
def permissions(draw: st.DrawFn) -> Permission:
    """Any valid permission over the few names above, given by an operator, or handed on."""
    by = draw(st.sampled_from(("", "operator", *PEOPLE)))
    is_handed_on = by in PEOPLE
    things = draw(st.lists(st.sampled_from(IDS if is_handed_on else PATTERNS), min_size=is_handed_on, max_size=2))
    return Permission(
        id="",
        by=by,
        who=draw(st.sampled_from(WHO)),
        access=tuple(draw(st.lists(ACCESS, min_size=1, max_size=3))) + draw(st.sampled_from(((), ("share",)))),
        things=tuple(things),
        types=tuple(draw(st.lists(st.sampled_from(TYPES), min_size=not things, max_size=not is_handed_on))),
        until=draw(st.none() | st.floats(0.0, 10.0)),
        priority=draw(st.none() | st.integers(0, 7)),
    )


@given(
    st.lists(permissions(), max_size=6),
    st.dictionaries(st.sampled_from(["family", "staff"]), st.lists(st.sampled_from(PEOPLE), max_size=3)),
    st.lists(
        st.tuples(
            st.sampled_from(PEOPLE),
            st.sampled_from(IDS),
            st.lists(st.sampled_from(TYPES), max_size=2),
            st.sampled_from(["", *KINDS]),
            st.sampled_from(NAMES),
            st.floats(0.0, 11.0),
        ),
        max_size=30,
    ),
)
def test_decisions_are_those_of_the_rule(
    all: list[Permission],
    groups: dict[str, list[str]],
    asked: list[tuple[str, str, list[str], str, str, float]],
) -> None:
    """In any order, and however often: decisions are remembered, and time goes on."""
    all = [msgspec.structs.replace(each, id=str(number)) for number, each in enumerate(all)]
    table = PermissionTable(all, groups, operators=("operator",))
    for who, id, types, kind, name, now in sorted(asked, key=lambda each: each[-1]):
        found = table.decide(who, id, tuple(types), kind, name, now)
        expected, priority = may(all, groups, who, id, tuple(types), kind, name, now, ("operator",))
        assert (found.until_s > now) == expected
        if expected:
            assert found.priority == priority


def test_a_permission_ends_at_its_time_and_another_may_hold_on() -> None:
    """Also when the decision was remembered before."""
    table = PermissionTable(
        [
            Permission(id="1", who="ada", access=("read",), things=("*",), until=5.0),
            Permission(id="2", who="ada", access=("read",), things=("urn:h:a",), until=7.0),
        ]
    )

    def may_read(id: str, now: float) -> bool:
        return table.decide("ada", id, (), "read", "x", now).until_s > now

    assert [may_read("urn:h:a", now) for now in (4.9, 5.0, 6.9, 7.0)] == [True, True, True, False]
    assert [may_read("urn:h:b", now) for now in (4.9, 5.0)] == [True, False]
    assert (
        not PermissionTable([Permission(id="1", who="ada", access=("read",), things=("*",), until=5.0)])
        .decide("ada", "urn:h:a", (), "read", "x", 6.0)
        .until_s
        > 6.0
    )


def test_the_most_urgent_of_several_caps_holds() -> None:
    """And none, where one permission has none."""
    capped = [Permission(id=str(cap), who="ada", access=("read",), things=("*",), priority=cap) for cap in (5, 3)]
    assert PermissionTable(capped).decide("ada", "urn:h:a", (), "read", "x", 0.0).priority == 3
    free = Permission(id="1", who="ada", access=("read",), things=("*",))
    assert PermissionTable([*capped, free]).decide("ada", "urn:h:a", (), "read", "x", 0.0).priority is None


def test_members_of_a_group_have_its_permissions() -> None:
    """And others have not."""
    table = PermissionTable(
        [Permission(id="1", who="group:staff", access=("read",), things=("*",))], {"staff": ["ada"]}
    )
    assert table.decide("ada", "urn:h:a", (), "read", "x", 0.0).until_s > 0
    assert table.decide("ben", "urn:h:a", (), "read", "x", 0.0).until_s < 0


def test_what_is_handed_on_needs_a_giver_who_may_and_is_no_more_urgent() -> None:
    """Ada may share, Eve may not; a cap of the giver's is one of the guest's."""
    things = ("urn:h:a",)
    table = PermissionTable(
        [
            Permission(id="1", who="ada", access=("read", "share"), things=things, priority=4),
            Permission(id="2", who="eve", access=("read",), things=things),
            Permission(id="3", who="ben", access=("read",), things=things, priority=1, by="ada"),
            Permission(id="4", who="cid", access=("read",), things=things, priority=6, by="ada"),
            Permission(id="5", who="dora", access=("read",), things=things, by="eve"),
        ]
    )
    found = {who: table.decide(who, "urn:h:a", (), "read", "x", 0.0) for who in ("ben", "cid", "dora")}
    assert {who: each.priority for who, each in found.items() if each.until_s > 0} == {"ben": 4, "cid": 6}


@pytest.mark.parametrize(
    ("access", "kind", "name", "is_permitted"),
    [
        ("read:level", "read", "level", True),
        ("read:level", "read", "lev", False),
        ("read:level", "read", "serial", False),
        ("read:level", "write", "level", False),
        ("read:level", "", "", True),
        ("read", "read", "serial", True),
        ("read", "invoke", "read", False),
    ],
)
def test_access_to_one_affordance_is_to_no_other(access: str, kind: str, name: str, is_permitted: bool) -> None:
    """A kind alone is access of that kind to all of a thing's."""
    table = PermissionTable((Permission("1", "ben", (access,), ("lamp",)),))
    assert (table.decide("ben", "lamp", (), kind, name, 0.0).until_s > 0.0) is is_permitted


def test_nothing_is_permitted_by_default() -> None:
    """Deny by default."""
    assert PermissionTable().decide("ada", "urn:h:a", (), "", "", 0.0).until_s <= 0.0


def test_a_pattern_is_no_more_than_its_stars() -> None:
    """Ids may have brackets and question marks."""
    table = PermissionTable([Permission(id="1", who="ada", access=("read",), things=("urn:x:[ab]?",))])
    assert table.decide("ada", "urn:x:[ab]?", (), "read", "x", 0.0).until_s > 0
    for other in ("urn:x:a1", "urn:x:b?", "urn:x:[ab]"):
        assert table.decide("ada", other, (), "read", "x", 0.0).until_s < 0
    starred = PermissionTable([Permission(id="1", who="ada", access=("read",), things=("urn:x:[ab]*",))])
    assert starred.decide("ada", "urn:x:[ab]7", (), "read", "x", 0.0).until_s > 0
    assert starred.decide("ada", "urn:x:a7", (), "read", "x", 0.0).until_s < 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"access": ("reed",)}, "access 'reed': expected one of read, write, invoke, observe, share"),
        ({"access": ("read:",)}, "access 'read:'"),
        ({"access": ()}, "it permits no access"),
        ({"things": ()}, "it names no thing"),
    ],
)
def test_a_wrong_permission_has_a_problem(changes: dict[str, tuple[str, ...]], words: str) -> None:
    """One sentence, with the remedy."""
    given = {"access": ("read",), "things": ("*",)} | changes
    problem = Permission(id="1", who="ada", **given).problem()
    assert problem is not None and problem.startswith(words)
