"""A node as a gateway of another one sees it: whose permissions hold, and how its things and guests are called."""

from __future__ import annotations

from typing import Any

from appbackplane.runtime.permissions.permission_file import GuestLink, Permissions
from appbackplane.runtime.permissions.table import Permission
from appbackplane.runtime.things.nodes.consumed_node import ConsumedNode
from appbackplane.runtime.things.nodes.news import ExposedListing, ExposedThing, KnownNews, NodeNews, NodePermissions

NOW_S = 1_000.0
HALL, LAMP = "urn:appbackplane:house:hall", "urn:dev:lamp-1"
LISTING = ExposedListing(
    tuple(ExposedThing(id, 0, "p", ("level",)) for id in (HALL, LAMP)),
    ({"@type": ["tm:ThingModel", "saref:LightSwitch"], "properties": {"level": {}}},),
)


def permission(who: str, things: str) -> Permission:
    """To read."""
    return Permission(id="1", who=who, access=("read",), things=(things,))


def node_with(*permissions: Permission, links: tuple[GuestLink, ...] = (), **more: Any) -> ConsumedNode:
    """The node `b`, in which Ada is an operator."""
    node = ConsumedNode("b")
    said = NodePermissions(Permissions(permissions=permissions, links=links), ("local", "ada"))
    node.take(NodeNews(KnownNews("e", 1, 1, 1), listing=LISTING, permissions=said, is_limited=True, **more))
    return node


def seen(node: ConsumedNode, principal: str) -> list[str]:
    """What a user may know of."""
    return [each.id for each in node.things if node.permits(principal, each, "", "", NOW_S)]


def test_an_id_that_other_nodes_may_have_names_its_node() -> None:
    """In listings and in notifications; one that is a URI of its own is the same everywhere."""
    node = ConsumedNode("b")
    assert node.problem
    is_listed, messages = node.take(
        NodeNews(KnownNews("e", 1, 1, 1), ({"thing": HALL}, {"thing": LAMP}), listing=LISTING)
    )
    assert [each.id for each in node.things] == ["urn:appbackplane:b/house:hall", LAMP]
    assert [each.home_id for each in node.things] == [HALL, LAMP] and node.things[0].types == ("saref:LightSwitch",)
    assert (is_listed, [each["thing"] for each in messages], node.problem) == (True, [node.things[0].id, LAMP], "")


def test_its_permissions_decide_by_the_ids_that_it_knows() -> None:
    """Whoever it knows; this node's operators are nobody there."""
    node = node_with(permission("ben", "urn:appbackplane:house:*"))
    assert seen(node, "ben") == ["urn:appbackplane:b/house:hall"] and len(seen(node, "ada")) == 2
    assert seen(node, "eve") == [] and not node.is_operator("ben")
    assert not node.permits("ben", node.things[0], "write", "level", NOW_S)


def test_a_node_without_permissions_permits_everything() -> None:
    """As it does at home. One that has said nothing yet permits nothing."""
    node = ConsumedNode("b")
    assert node.is_limited and not node.is_operator("eve")
    node.take(NodeNews(KnownNews("e", 1, 1, 1), listing=LISTING))
    assert len(seen(node, "eve")) == 2


def test_the_holder_of_its_link_is_nobody_elsewhere() -> None:
    """A link of this node, or of a third, may have the same id."""
    link = GuestLink(id="7", digest="0" * 64)
    node = node_with(permission("link:7", LAMP), links=(link,))
    found = node.link_of("0" * 64, NOW_S)
    assert found is not None and found.principal == "link:7@b" and node.link_of("1" * 64, NOW_S) is None
    assert seen(node, found.principal) == [LAMP] and node.principal_there(found.principal) == "link:7"
    assert node.principal_there("link:7@c") == "link:7@c@" and node.principal_there("link:7") == "link:7@"
    assert (
        not node.permits("link:7", node.things[1], "read", "level", NOW_S) and node.principal_there("ann@b") == "ann@b"
    )
    assert node.has_given("7") and node.has_given("1") and not node.has_given("9")


def test_news_without_permissions_change_none() -> None:
    """A notification is no reason to forget who may."""
    node = node_with(permission("ben", LAMP))
    assert node.permissions_count == 1
    node.take(NodeNews(KnownNews("e", 2, 1, 1), is_limited=True))
    assert seen(node, "ben") == [LAMP] and node.permissions_count == 1
