"""Publishing: one message to all who hear the topic, numbered, and never a silent loss."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, operation, subscribe
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import PUBLISH, Envelope


class Ear(AppObject):
    """Hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @subscribe("news.sport")
    def on_sport(self, score: list[int]) -> None:
        score.append(0)
        self.heard.append(score)

    @subscribe("news.*", priority=6)
    def on_news(self, score: list[int]) -> None:
        self.heard.append("news")

    @operation()
    def shout(self, topic: str) -> None:
        self.publish(topic, score=[1])


class Broom(AppObject):
    """Sweeps up."""

    @operation(priority=5)
    def clean(self) -> None: ...


class Town(Component):
    """With two ears."""

    def setup(self) -> None:
        self.add(Ear())
        self.add(Ear())


@pytest.fixture
def town() -> VirtualBackplane:
    return VirtualBackplane(Town(), topics=("news.sport", "weather.*"))


def _heard(town: VirtualBackplane) -> list[Any]:
    return [ear.heard for ear in town.backplane.engine.registry.components["town"].objects if isinstance(ear, Ear)]


def test_every_subscriber_hears_its_own_copy(town: VirtualBackplane) -> None:
    """Two objects must not share a list; both patterns match, the more urgent first."""
    town.publish("news.sport", score=[3, 1])
    town.run_until_idle()
    assert _heard(town) == [[[3, 1, 0], "news"], [[3, 1, 0], "news"]]


@pytest.mark.parametrize(
    ("asked", "order"),
    [(None, ["on_sport", "clean", "on_news"]), (7, ["clean", "on_sport", "on_news"]), (8, ["clean"])],
)
def test_a_publisher_may_ask_for_a_priority(asked: int | None, order: list[str]) -> None:
    """`client.publish(priority=0)` promises it; one that does not exist is refused, counted and said, as for a call."""
    backplane = VirtualBackplane()
    backplane.add(Ear())
    backplane.add(Broom())
    backplane.hear(Envelope(PUBLISH, 1, asked, "news.sport", None, None, None, {"score": []}))
    backplane.cast("bench.clean")
    assert backplane.run_until_idle() == order
    operations = backplane.backplane.statistics()["operations"]
    assert operations["bench.on_sport"]["refused"] == (asked == 8)


def test_objects_publish_to_other_backplanes(town: VirtualBackplane) -> None:
    """Those whose registration names the topic, by pattern or exactly, and nobody else."""
    for topic in ("news.sport", "weather.rain", "gossip"):
        town.call("town.shout", topic=topic).result()
    town.run_until_idle()
    assert [topic for topic, _ in town.published] == ["news.sport", "weather.rain"]


def test_a_client_subscribes_while_running(town: VirtualBackplane) -> None:
    """The command line's `listen`. It hears what is published here, until it has heard enough."""
    town.call("backplane.virtual.subscribe", topic="gossip").result()
    town.call("town.shout", topic="gossip").result()
    town.run_until_idle()
    assert town.published == [("gossip", {"score": [1]})]
    town.call("backplane.virtual.unsubscribe", topic="gossip").result()
    town.call("town.shout", topic="gossip").result()
    town.run_until_idle()
    assert len(town.published) == 1


def test_to_hear_no_more_may_be_said_without_waiting(town: VirtualBackplane) -> None:
    """As a client does that closes a subscription: else what is published would go to it until it is gone."""
    town.call("backplane.virtual.subscribe", topic="gossip").result()
    town.call("town.shout", topic="gossip").result()
    town.cast("backplane.virtual.unsubscribe", topic="gossip")
    town.call("town.shout", topic="gossip").result()
    town.run_until_idle()
    assert len(town.published) == 1
    assert town.backplane.engine.publishing._lines == {}, "nothing is kept of one that may never come back"


def test_a_subscriber_that_is_down_is_counted_as_not_reached(town: VirtualBackplane) -> None:
    """What is not sent is not silently forgotten."""
    town.backplane.engine.update(
        Directory("virtual", 1_000, {"away": Place(1, "/nowhere", is_up=False)}, {}, {"gossip": ("away",)}), 0
    )
    town.call("town.shout", topic="gossip").result()
    assert town.backplane.statistics()["links"]["topics_lost_here"] == 1


def test_a_subscriber_that_does_not_read_does_not_hold_up_the_publisher(town: VirtualBackplane) -> None:
    """Its messages wait up to the bound; beyond it they are lost to it alone, and counted."""
    town.call("backplane.virtual.subscribe", topic="bulk").result()
    town.link.full.add(b"test")
    host = town.backplane.engine.registry.components["town"]
    for _ in range(5):
        host.publish("bulk", block=bytes(8 << 20))
    assert town.backplane.statistics()["links"]["topics_lost_here"] >= 1


def test_a_client_that_has_gone_is_forgotten(town: VirtualBackplane) -> None:
    """Or its subscriptions would be served for ever."""
    town.call("backplane.virtual.subscribe", topic="gossip").result()
    town.link.gone.add(b"test")
    town.cast("town.shout", topic="gossip")
    town.run_until_idle()
    assert town.backplane.engine.publishing._clients.matching("gossip") == []
