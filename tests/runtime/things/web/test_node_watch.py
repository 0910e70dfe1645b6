"""What a gateway learns of another node, and of its absence."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from appbackplane.runtime.things.nodes.consumed_node import ConsumedNode
from appbackplane.runtime.things.nodes.news import (
    ExposedListing,
    ExposedThing,
    KnownNews,
    NodeNews,
    PublishedValues,
    property_message,
)
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.mirror import Mirror
from appbackplane.runtime.things.web.node_watch import NodeWatch
from appbackplane.transport.async_client import AsyncClient
from appbackplane.transport.errors import PeerDown, UnknownRoute

LISTING = ExposedListing((ExposedThing("urn:dev:lamp", 0, "p", ()),), ({"title": "Lamp"},))


class Node:
    """Stands for the other node: gives the answers that it is told to, and then none. It is the client and the mirror, too."""

    def __init__(self, *answers: NodeNews | Exception | Any) -> None:
        self.answers = [*answers]
        self.asked: list[dict[str, Any]] = []
        self.did: list[str] = []
        self.values = list[PublishedValues]()
        self.done = asyncio.Event()

    async def call(self, route: str, *, arguments: dict[str, Any], timeout: float, retry: bool) -> Any:
        """The next answer."""
        if route == "b/exposed.values":
            return msgspec.to_builtins(self.values.pop(0) if self.values else PublishedValues(()))
        assert route == "b/exposed.news"
        self.asked.append(arguments["known"])
        if not self.answers:
            self.done.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return msgspec.to_builtins(answer)

    def take_things_of(self, node: ConsumedNode) -> None:
        """It has other things."""
        self.did.append(f"things {len(node.things)}")

    def lose_messages_of(self, node: ConsumedNode) -> None:
        """Some are missing."""
        self.did.append("lost")

    def keep_of(self, node: ConsumedNode, body: dict[str, Any]) -> None:
        """A value."""
        self.did.append(f"kept {body['thing']} {body['data']}")

    def take_of(self, node: ConsumedNode, body: dict[str, Any]) -> None:
        """One has come."""
        self.did.append(f"took {body['thing']}")


def watched(*answers: Any, values: tuple[PublishedValues, ...] = ()) -> tuple[ConsumedNode, Node]:
    """Follow a node through its answers. `values`: the parts of the values that it tells."""

    async def main() -> tuple[ConsumedNode, Node]:
        node, there, stopping = ConsumedNode("b"), Node(*answers), asyncio.Event()
        there.values = [*values]
        watch = NodeWatch(cast(AsyncClient, there), {"b": node}, cast(Mirror, there))
        running = asyncio.create_task(watch.run(stopping))
        await there.done.wait()
        running.cancel()
        return node, there

    return asyncio.run(main())


def news(number: int, *messages: dict[str, Any], **more: Any) -> NodeNews:
    """Of one process of the node."""
    return NodeNews(KnownNews("e", number, 1, 1), messages, **more)


def test_a_node_is_asked_for_what_follows() -> None:
    """Its things first, then what they tell."""
    node, there = watched(news(4, is_gap=True, listing=LISTING), news(5, {"thing": "urn:dev:lamp"}))
    assert there.did == ["things 1", "lost", "took urn:dev:lamp"] and node.problem == ""
    assert [each["number"] for each in there.asked] == [0, 4, 5]


def test_what_was_published_before_is_known() -> None:
    """In parts; and a node that never comes to an end is asked no more."""
    lamp, own = (property_message(id, "p", "level", 7) for id in ("urn:dev:lamp", "urn:appbackplane:hall:x"))
    parts = PublishedValues((lamp,), "urn:dev:lamp"), PublishedValues((own,), "urn:dev:lamp"), PublishedValues((lamp,))
    _, there = watched(news(4, {"thing": "urn:dev:lamp"}, listing=LISTING), values=parts)
    kept = ["kept urn:dev:lamp 7", "kept urn:appbackplane:b/hall:x 7"]
    assert there.did == ["things 1", "lost", *kept, "took urn:dev:lamp"]
    _, there = watched(news(4, listing=LISTING), news(5, is_gap=True), news(6))
    assert there.did == ["things 1", "lost", "lost"]


def test_a_value_that_may_have_changed_unheard_is_not_known() -> None:
    """A node tells the values of its own things alone."""

    async def main() -> list[bytes | None]:
        mirror, b = Mirror(cast(AsyncClient, None), Access(None, lambda: 0.0)), ConsumedNode("b")
        b.take(news(1, listing=ExposedListing(LISTING.things, ({"properties": {"level": {"observable": True}}},))))
        mirror.take_things_of(b)
        lamp, found = mirror.catalogue.things["urn:dev:lamp"], list[bytes | None]()
        for node in (ConsumedNode("c"), b):
            mirror.keep_of(node, property_message(lamp.id, "p", "level", 7))
            found.append(mirror.published(lamp, "level"))
        found.append(mirror.cached(lamp, "level"))
        mirror.lose_messages_of(b)
        return [*found, mirror.published(lamp, "level")]

    assert asyncio.run(main()) == [None, b"7", None, None]


def test_a_gap_is_told_before_what_follows() -> None:
    """Subscribers learn where it was."""
    _, there = watched(news(4, listing=LISTING), news(9, {"thing": "urn:dev:lamp"}, is_gap=True))
    assert there.did == ["things 1", "lost", "lost", "took urn:dev:lamp"]


def test_a_node_that_is_gone_is_told_of_once_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """Its things stay known; messages may be missing behind it."""
    caplog.set_level("INFO")
    gone = PeerDown("node 'b' is down")
    node, there = watched(news(4, listing=LISTING), gone, gone, news(4))
    assert there.did == ["things 1", "lost", "lost"] and len(node.things) == 1
    assert [record.getMessage() for record in caplog.records if "node 'b'" in record.getMessage()] == [
        "node 'b' is reached: it has 1 things",
        "the things of node 'b' cannot be reached: node 'b' is down",
        "node 'b' is reached: it has 1 things",
    ]


def test_a_node_without_the_component_is_told_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    """And one that answers something else ends nothing."""
    node, _ = watched(UnknownRoute("exposed.news"))
    assert "appbackplane.runtime.things.nodes:ExposedThings" in node.problem
    node, there = watched({"known": 7}, news(4, listing=LISTING))
    assert there.did == ["things 1", "lost"] and node.problem == ""


def test_a_node_speaks_of_its_own_things_alone() -> None:
    """Whoever observes a thing of this system, or of a third node, hears nothing that it says."""

    async def main() -> list[int]:
        mirror, b, c = Mirror(cast(AsyncClient, None), Access(None, lambda: 0.0)), ConsumedNode("b"), ConsumedNode("c")
        b.take(news(1, listing=LISTING))
        mirror.take_things_of(b)
        histories = [mirror.history(id, "events", "leak") for id in ("urn:dev:lamp", "urn:dev:own")]
        for node in (b, c):
            for id in ("urn:dev:lamp", "urn:dev:own"):
                said = {
                    "thing": id,
                    "process": "p",
                    "kind": "event",
                    "name": "leak",
                    "data": node.name,
                    "is_known": True,
                }
                mirror.take_of(node, said)
        return [history.last for history in histories]

    assert asyncio.run(main()) == [1, 0]
