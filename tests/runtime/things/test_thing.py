"""Things: declared once, described from that, and called as any object is; what changes is told before the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec
import pytest

from appbackplane.runtime import Component, DeclarationError, InvalidArgument, every, operation, subscribe
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, action, event, prop
from appbackplane.runtime.things.description import id_of
from appbackplane.runtime.things.thing import NOTIFICATIONS

Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Lamp(Thing):
    """A lamp in a hall."""

    title, types = "Hall lamp", ("saref:LightSwitch",)

    def __init__(self) -> None:
        self.level, self.names = 7, ["hall"]

    @prop(observable=True, priority=0, unit="percent")
    def brightness(self) -> Percent:
        """How bright it is."""
        return self.level

    @brightness.write
    def set_brightness(self, value: int) -> None:
        self.level = value

    @prop(observable=True)
    def labels(self) -> list[str]:
        return self.names

    @prop(title="Serial number")
    def serial(self) -> str:
        return "A-7"

    @action(priority=4, is_long=True)
    async def fade(self, to: Percent, seconds: float = 1.0) -> int:
        """Change the brightness step by step."""
        await self.call("clock.wait", seconds=seconds)
        self.level = to
        return to

    @action(safe=True, idempotent=True)
    def ping(self) -> None:
        pass

    @action
    def fail_late(self) -> None:
        self.level = 1
        raise RuntimeError("burnt")

    @event
    def overheated(self) -> float: ...

    @operation()
    def heat(self, degrees: float) -> None:
        self.emit("overheated", degrees)

    @operation()
    def label(self, text: str) -> None:
        self.names.append(text)

    @every(10.0)
    def age(self) -> None:
        self.level -= 1

    @subscribe("power.*")
    def on_power(self, level: int) -> None:
        self.level = level


class House(Component):
    def setup(self) -> None:
        self.add(Lamp(), key="lamp 1")


@pytest.fixture
def house() -> VirtualBackplane:
    return VirtualBackplane(House(), outside=("clock.wait",), topics=(NOTIFICATIONS,))


def told(house: VirtualBackplane) -> list[tuple[str, str, Any]]:
    """The notifications since the last time, without those of the labels."""
    messages = [body for topic, body in house.published if topic == NOTIFICATIONS]
    house.published.clear()
    assert {body["thing"] for body in messages} <= {"urn:appbackplane:house:lamp%201"}
    return [(body["kind"], body["name"], body["data"]) for body in messages if body["name"] != "labels"]


def test_it_is_described_by_what_was_declared(house: VirtualBackplane) -> None:
    """Nothing is written twice; what is not an affordance is not in it."""
    assert house.call("house.describe", key="lamp 1").result() == {
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", {"saref": "https://saref.etsi.org/core/"}],
        "@type": ["tm:ThingModel", "saref:LightSwitch"],
        "id": "urn:appbackplane:house:lamp%201",
        "title": "Hall lamp",
        "description": "A lamp in a hall.",
        "properties": {
            "brightness": {
                "description": "How bright it is.", "type": "integer", "minimum": 0, "maximum": 100, "unit": "percent",
                "observable": True,
            },
            "labels": {"type": "array", "items": {"type": "string"}, "readOnly": True, "observable": True},
            "serial": {"title": "Serial number", "type": "string", "readOnly": True},
        },
        "actions": {
            "fade": {
                "description": "Change the brightness step by step.",
                "input": {
                    "type": "object",
                    "properties": {
                        "to": {"type": "integer", "minimum": 0, "maximum": 100},
                        "seconds": {"type": "number", "default": 1.0},
                    },
                    "required": ["to"],
                },
                "output": {"type": "integer"}, "safe": False, "idempotent": False, "synchronous": False,
            },
            "ping": {"safe": True, "idempotent": True, "synchronous": True},
            "fail_late": {"safe": False, "idempotent": False, "synchronous": True},
        },
        "events": {"overheated": {"data": {"type": "number"}}},
    }  # fmt: skip


def test_it_is_called_as_any_object(house: VirtualBackplane) -> None:
    """Without a gateway: properties and actions are operations."""
    assert house.call("house.brightness", key="lamp 1").result() == 7
    assert house.call("house.set_brightness", key="lamp 1", value=50).result() is None
    assert house.call("house.brightness", key="lamp 1").result() == 50


def test_a_write_is_checked_against_the_property(house: VirtualBackplane) -> None:
    """Its bounds are said once, where it is read."""
    with pytest.raises(InvalidArgument, match=r"'value'.*<= 100"):
        house.call("house.set_brightness", key="lamp 1", value=101).result()
    assert house.call("house.brightness", key="lamp 1").result() == 7


def test_new_values_are_published_and_others_are_not(house: VirtualBackplane) -> None:
    """After a write, an action, an operation, a message of a topic and a timer; and what was there already is not new."""
    house.call("house.set_brightness", key="lamp 1", value=50).result()
    assert told(house) == [("property", "brightness", 50)]
    house.call("house.set_brightness", key="lamp 1", value=50).result()
    house.call("house.serial", key="lamp 1").result()
    assert told(house) == []
    house.advance(10.0)
    assert told(house) == [("property", "brightness", 49)]
    house.publish("power.low", level=3)
    house.run_until_idle()
    assert told(house) == [("property", "brightness", 3)]


def test_a_value_that_is_changed_in_place_is_new(house: VirtualBackplane) -> None:
    """It is the same list as before."""
    house.call("house.label", key="lamp 1", text="red").result()
    house.call("house.label", key="lamp 1", text="green").result()
    found = [body["data"] for _, body in house.published if body["name"] == "labels"]
    assert found == [["hall", "red"], ["hall", "red", "green"]]


def test_a_change_is_published_before_the_reply_leaves(house: VirtualBackplane) -> None:
    """Whoever reads after his own write must not get the value of before from a cache."""
    call = house.call("house.set_brightness", key="lamp 1", value=50)
    house.run_until_idle()
    assert call.done() and told(house) == [("property", "brightness", 50)]


def test_an_action_that_awaits_and_one_that_fails_tell_their_changes(house: VirtualBackplane) -> None:
    """What was changed before an exception is changed."""
    fading = house.call("house.fade", key="lamp 1", to=80)
    house.run_until_idle()
    house.outside_calls("clock.wait")[0].reply(None)
    house.run_until_idle()
    assert fading.result() == 80 and told(house) == [("property", "brightness", 80)]
    assert house.call("house.fail_late", key="lamp 1").exception() is not None
    assert told(house) == [("property", "brightness", 1)]


def test_an_event_is_told_with_its_data(house: VirtualBackplane) -> None:
    """And only one that is declared, with data of its type."""
    house.call("house.heat", key="lamp 1", degrees=91.5).result()
    assert ("event", "overheated", 91.5) in told(house)
    with pytest.raises(TypeError, match=r"Lamp declares no event 'overheat' \(it has: overheated\)"):
        Lamp().emit("overheat", 1.0)
    with pytest.raises(TypeError, match=r"Lamp.emit\('overheated'\): Expected `float`, got `str`"):
        Lamp().emit("overheated", "hot")
    with pytest.raises(TypeError, match=r"declares an event: tell it by self.emit\('overheated'"):
        Lamp().overheated()


def test_its_methods_are_as_they_were() -> None:
    """A test calls them directly, without a backplane."""
    lamp = Lamp()
    lamp.set_brightness(9)
    assert lamp.brightness() == 9 and lamp.ping() is None
    assert asyncio.iscoroutinefunction(lamp.fade)


class Dimmer(Lamp):
    """Adds to another class."""

    @prop(observable=True)
    def steps(self) -> int:
        return self.level // 10

    def set_brightness(self, value: int) -> None:
        self.level = value - value % 10


def test_a_class_has_the_affordances_of_its_base_class() -> None:
    """And a method that is replaced keeps its mark, as an operation does."""
    model = Dimmer.__model__
    assert list(model["properties"]) == ["steps", "brightness", "labels", "serial"]
    assert model["title"] == "Hall lamp" and model["description"] == "Adds to another class."


@pytest.mark.parametrize(
    ("component", "key", "id"),
    [
        ("house", "urn:uuid:1", "urn:uuid:1"),
        ("house", "https://example.com/x", "https://example.com/x"),
        ("house", "lamp 1", "urn:appbackplane:house:lamp%201"),
        ("house", "1:2", "urn:appbackplane:house:1%3A2"),
        ("house", None, "urn:appbackplane:house"),
    ],
)
def test_the_id_of_a_thing_is_a_uri(component: str, key: str | None, id: str) -> None:
    """Its key, where that is one."""
    assert id_of(component, key) == id


def untyped() -> None:
    class Untyped(Thing):
        @prop
        def level(self):  # type: ignore[no-untyped-def]
            return 1


def any_value() -> None:
    class AnyValue(Thing):
        @prop
        def level(self) -> Any:
            return 1


def no_value() -> None:
    class NoValue(Thing):
        @prop
        def level(self) -> None:
            pass


def two_parameters() -> None:
    class TwoParameters(Thing):
        @prop  # type: ignore[arg-type]
        def level(self, unit: str) -> int:
            return 1


def slow_observable() -> None:
    class SlowObservable(Thing):
        @prop(observable=True)
        async def level(self) -> int:
            return 1


def another_type() -> None:
    class AnotherType(Thing):
        @prop
        def level(self) -> int:
            return 1

        @level.write
        def set_level(self, value: str) -> None:
            pass


def written_twice() -> None:
    class WrittenTwice(Thing):
        @prop
        def level(self) -> int:
            return 1

        @level.write
        def set_level(self, value: int) -> None:
            pass

        @level.write
        def put_level(self, value: int) -> None:
            pass


def replaced() -> None:
    class Replaced(Thing):
        @prop
        def level(self) -> int:
            return 1

        @level.write
        def level(self, value: int) -> None:  # type: ignore[no-redef]
            pass


def reserved() -> None:
    class Reserved(Thing):
        @prop
        def describe(self) -> int:  # type: ignore[override]
            return 1


def unknown_option() -> None:
    prop(observe=True)  # type: ignore[call-overload]


def unknown_prefix() -> None:
    class UnknownPrefix(Thing):
        types = ("acme:Lamp",)


def stream_of_an_action() -> None:
    class Stream(Thing):
        @action
        def rows(self) -> Iterator[int]:
            yield 1


def untyped_parameter() -> None:
    class UntypedParameter(Thing):
        @action
        def fade(self, to) -> None:  # type: ignore[no-untyped-def]
            pass


def two_events() -> None:
    class TwoEvents(Thing):
        @event
        def hot(self) -> float: ...

        @event(name="hot")
        def very_hot(self) -> float: ...


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (untyped, r"Untyped.level: name its type: def level\(self\) -> TYPE"),
        (any_value, r"AnyValue.level: the type Any allows any value"),
        (no_value, r"NoValue.level: a property has a value"),
        (two_parameters, r"TwoParameters.level: expected `def level\(self\) -> TYPE`"),
        (slow_observable, r"SlowObservable.level is observable, so it is read after each action: make it `def`"),
        (another_type, r"AnotherType.set_level takes str, and the property is int"),
        (written_twice, r"put_level: property 'level' is written by set_level already"),
        (replaced, r"Replaced.level would replace the method that reads the property: name it set_level"),
        (reserved, r"'describe' belongs to the runtime"),
        (unknown_option, r"@prop\(observe=…\): no such option \(did you mean 'observable'\?\)"),
        (unknown_prefix, r"UnknownPrefix: types: nobody knows the prefix of 'acme:Lamp': add `context"),
        (stream_of_an_action, r"Stream.rows is a generator, and an action has one result"),
        (untyped_parameter, r"UntypedParameter.fade, parameter 'to': name its type"),
        (two_events, r"TwoEvents.very_hot: the class has another event 'hot'"),
    ],
)
def test_a_wrong_declaration_is_refused(declare: Callable[[], None], words: str) -> None:
    """When the class is made, with the method and the remedy."""
    with pytest.raises(DeclarationError, match=words):
        declare()
