"""A thing that lives elsewhere, on a virtual backplane; the requests are answered by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import msgspec
import pytest

from appbackplane.runtime import BackplaneError, Busy, Component, Unavailable
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things.catalogue import Catalogue
from appbackplane.runtime.things.listing import listing_of
from appbackplane.runtime.things.proxies.consumed_description import Form, description_from
from appbackplane.runtime.things.proxies.consumed_thing import ConsumedThing, ProxyLimits, class_of
from appbackplane.runtime.things.proxies.consumer_thread import MISSED, ConsumerThread
from appbackplane.transport.directory import Directory, Place

TD = {
    "@context": ["https://www.w3.org/2022/wot/td/v1.1", {"acme": "https://acme.example/"}],
    "@type": ["saref:Pump", "acme:Pump", "odd:Pump"], "id": "urn:dev:pump", "title": "Pump", "security": "none",
    "securityDefinitions": {"none": {"scheme": "nosec"}}, "schema:containedInPlace": "garden",
    "properties": {
        "level": {"type": "integer", "maximum": 9, "forms": [
            {"href": "level"}, {"href": "level/stream", "op": "observeproperty", "subprotocol": "sse"}]},
        "name": {"type": "string", "readOnly": True, "forms": [{"href": "name"}]},
    },
    "actions": {
        "fill": {"input": {"type": "object", "properties": {"to": {"type": "integer"}, "by": {"type": "string"}},
                           "required": ["to"]}, "output": {"type": "string"}, "forms": [{"href": "fill"}]},
        "set": {"input": {"type": "integer"}, "forms": [{"href": "set"}]},
        "stop": {"forms": [{"href": "stop"}]},
    },
    "events": {"empty": {"data": {"type": "number"}, "forms": [{"href": "empty", "subprotocol": "sse"}]}},
}  # fmt: skip


LIMITS = ProxyLimits()


class ByHand:
    """Stands for the consumer: notes the requests, and answers them when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answer_with: bytes | BackplaneError = b"7"
        self._begun: list[Coroutine[Any, Any, None]] = []

    def begin(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """Later."""
        self._begun.append(work)
        return lambda: None

    async def request(self, form: Form, body: Any, limit_s: float) -> Any:
        """The answer."""
        self.asked.append((form.method, form.url, body))
        if isinstance(self.answer_with, BackplaneError):
            raise self.answer_with
        return msgspec.json.decode(self.answer_with) if self.answer_with else None

    async def messages(self, form: Form) -> AsyncIterator[Any]:
        """None."""
        for each in ():
            yield each

    def answer(self, data: bytes | BackplaneError = b"7", count: int = 1) -> None:
        """The oldest of the requests."""
        self.answer_with = data
        for _ in range(count):
            asyncio.run(self._begun.pop(0))  # type: ignore[arg-type]


class Garden:
    """A backplane with the pump."""

    def __init__(self, limits: ProxyLimits = LIMITS) -> None:
        self.hand = ByHand()
        description = description_from(msgspec.json.encode(TD), "https://garden.example/", ())
        kind = class_of(description)
        pump = self.pump = kind(self.hand, limits, cast(ConsumerThread, self.hand))

        class Proxies(Component):
            def setup(self) -> None:
                self.add(pump, key="urn:dev:pump")

        self.component = Proxies()
        self.backplane = VirtualBackplane(self.component, topics=("things.*",))
        self.backplane.run_until_idle()

    def begin(self, operation: str, **arguments: Any) -> Any:
        """A call, whose request is under way."""
        call = self.backplane.call(f"proxies.{operation}", key="urn:dev:pump", **arguments)
        self.backplane.run_until_idle()
        return call

    def call(self, operation: str, answer: bytes | BackplaneError = b"7", **arguments: Any) -> Any:
        """A call, which is answered."""
        call = self.begin(operation, **arguments)
        self.hand.answer(answer)
        self.backplane.run_until_idle()
        return call.result()

    def say(self, kind: str, name: str, data: Any) -> list[tuple[Any, ...]]:
        """What is published when a stream says something."""
        before = len(self.backplane.published)
        group = self.pump.consumed.properties if kind == "property" else self.pump.consumed.events
        self.pump.hear(group[name], data)
        self.backplane.run_until_idle()
        said = [body for _, body in list(self.backplane.published)[before:]]
        return [(each["kind"], each["name"], each["data"], each["is_known"]) for each in said]


def test_its_model_is_its_own_description() -> None:
    """Without what says where it is, and with the types that can be written here."""
    model = Garden().begin("describe").result()
    assert (model["id"], model["title"], model["@type"]) == (
        "urn:dev:pump", "Pump", ["tm:ThingModel", "saref:Pump", "acme:Pump"],
    )  # fmt: skip
    assert model["properties"]["level"] == {"type": "integer", "maximum": 9, "observable": True}
    assert model["properties"]["name"]["readOnly"] is True and "forms" not in str(model)
    assert model["actions"]["fill"]["input"]["required"] == ["to"] and Garden().pump.place == "garden"


def test_each_interaction_is_one_request() -> None:
    """With the arguments that were given."""
    garden = Garden()
    assert garden.call("level") == 7
    assert garden.call("set_level", b"", value=3) is None
    assert garden.call("fill", b'"full"', to=4) == "full"
    assert garden.call("fill", b'"full"', to=4, by="hand") == "full"
    assert garden.call("set", b"", input=5) is None and garden.call("stop", b"") is None
    at = "https://garden.example"
    assert garden.hand.asked == [
        ("GET", f"{at}/level", None), ("PUT", f"{at}/level", 3), ("POST", f"{at}/fill", {"to": 4}),
        ("POST", f"{at}/fill", {"to": 4, "by": "hand"}), ("POST", f"{at}/set", 5), ("POST", f"{at}/stop", None),
    ]  # fmt: skip


def test_a_call_that_is_wrong_makes_no_request() -> None:
    """It is refused here."""
    garden = Garden()
    for operation, arguments in (("fill", {}), ("fill", {"to": 1, "at": 2})):
        assert isinstance(garden.begin(operation, **arguments).exception(), BackplaneError)
    assert garden.hand.asked == []


def test_a_value_that_was_read_is_kept_for_its_time() -> None:
    """Until somebody writes or acts here, or the thing tells of a change."""
    garden = Garden(ProxyLimits(max_age=5.0))
    assert garden.call("level") == 7 and garden.begin("level").result() == 7
    garden.backplane.advance(5.0)
    assert garden.call("level", b"8") == 8
    for change in (
        lambda: garden.call("set_level", b"", value=3),
        lambda: garden.call("stop", b""),
        lambda: garden.say("property", "level", 3),
    ):
        change()
        assert garden.call("level", b"3") == 3 and garden.begin("level").result() == 3


def test_a_read_that_a_write_overtakes_is_not_kept() -> None:
    """Its value is that of before."""
    garden = Garden(ProxyLimits(max_age=5.0))
    reading, writing = garden.begin("level"), garden.begin("set_level", value=3)
    read, write = garden.hand._begun
    garden.hand._begun[:] = [write, read]
    garden.hand.answer(b"")
    garden.backplane.run_until_idle()
    garden.hand.answer(b"7")
    garden.backplane.run_until_idle()
    assert (writing.result(), reading.result()) == (None, 7)
    assert garden.call("level", b"3") == 3


def test_requests_are_bounded() -> None:
    """Further callers come again; one that has ended makes room."""
    garden = Garden(ProxyLimits(requests=1, waiting=1))
    first, second = garden.begin("level"), garden.begin("level")
    assert isinstance(garden.begin("level").exception(), Busy)
    garden.hand.answer(count=2)
    garden.backplane.run_until_idle()
    assert (first.result(), second.result()) == (7, 7) and garden.call("level") == 7


def test_messages_are_published_and_answer_no_read() -> None:
    """A gateway would answer with a value that a later write has replaced."""
    garden = Garden()
    assert garden.say("property", "level", 4) == [("property", "level", 4, True)]
    assert garden.say("event", "empty", 0.5) == [("event", "empty", 0.5, True)]
    assert garden.say("event", "empty", MISSED) == []
    listed = listing_of([garden.component])
    catalogue = Catalogue()
    catalogue.take(Directory("s", 1, {"a": Place(1, "x", True)}, {}, {}), [("a", 1)], [listed])
    assert not catalogue.things["urn:dev:pump"].is_cached


def test_what_is_wrong_with_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """And that it can be used again."""
    caplog.set_level("INFO", "appbackplane.proxies")
    garden = Garden()
    for _ in range(2):
        with pytest.raises(Unavailable, match="gone"):
            garden.call("level", Unavailable("gone"))
    garden.call("level")
    assert [record.getMessage() for record in caplog.records if record.name == "appbackplane.proxies"] == [
        "urn:dev:pump cannot be used: gone", "urn:dev:pump can be used again",
    ]  # fmt: skip
    assert issubclass(type(garden.pump), ConsumedThing)


def test_any_name_of_an_affordance_will_do() -> None:
    """Those of attributes of objects, and of the language, are no exception: the thing was named by others."""
    names = (
        "key",
        "call",
        "lends",
        "place",
        "title",
        "publish",
        "after",
        "state",
        "add",
        "request",
        "class",
        "a-b.c",
        "set_key",
    )
    forms = {"forms": [{"href": "x"}]}
    said = TD | {"properties": dict.fromkeys(names, forms), "actions": {"from": forms}, "events": {"key": forms | {}}}
    kind = class_of(description_from(msgspec.json.encode(said), "https://garden.example/", ()))
    assert list(kind.__model__["properties"]) == [*names] and list(kind.__model__["actions"]) == ["from"]
