"""Things: declared once, described from that, and called as any object is; what changes is told before the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec
import pytest

from appbackplane.runtime import Address, Component, DeclarationError, InvalidArgument, every, operation, subscribe
from appbackplane.runtime.permissions.thing_ids import NOTIFICATIONS, id_of
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, action, event, prop

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

    overheated = event(float, description="Too hot to touch.")
    cooled = event(title="Cool again")

    @operation()
    def heat(self, degrees: float) -> None:
        self.overheated.emit(degrees)
        self.cooled.emit()

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
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", {"@language": "en", "saref": "https://saref.etsi.org/core/"}],
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
        "events": {
            "overheated": {"description": "Too hot to touch.", "data": {"type": "number"}},
            "cooled": {"title": "Cool again"},
        },
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
    assert [each for each in told(house) if each[0] == "event"] == [
        ("event", "overheated", 91.5),
        ("event", "cooled", None),
    ]
    with pytest.raises(TypeError, match=r"Lamp.overheated.emit: Expected `float`, got `str`"):
        Lamp().overheated.emit("hot")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Lamp.cooled.emit: Expected `null`, got `int`"):
        Lamp().cooled.emit(1)


def test_its_methods_are_as_they_were() -> None:
    """A test calls them directly, without a backplane."""
    lamp = Lamp()
    lamp.set_brightness(9)
    assert lamp.brightness() == 9 and lamp.ping() is None
    assert asyncio.iscoroutinefunction(lamp.fade)


class Watched:
    """A plain class, whose operations a thing may have."""

    level: int

    @operation()
    def dim(self) -> None:
        self.level = 1


class Broken(Watched, Thing):
    """A property of it cannot always be read."""

    def __init__(self) -> None:
        self.level, self.is_broken = 7, False

    @prop(observable=True)
    def state(self) -> int:
        if self.is_broken:
            raise OSError("no sensor")
        return 1

    @prop(observable=True)
    def brightness(self) -> int:
        return self.level

    @action
    def break_it(self, level: int) -> str:
        self.level, self.is_broken = level, True
        return "broken"


class Shed(Component):
    declares = (Broken,)

    def setup(self) -> None:
        self.add(Broken(), key="x")

    @operation()
    def breed(self) -> Any:
        return self.spawn(Broken())


def test_a_property_that_cannot_be_read_harms_no_other_and_no_action(caplog: pytest.LogCaptureFixture) -> None:
    """Its last value is not known any more, and whoever keeps it is told so; the others are published."""
    shed = VirtualBackplane(Shed(), topics=(NOTIFICATIONS,))
    shed.call("shed.dim", key="x").result()
    assert [(body["name"], body["data"], body["is_known"]) for _, body in shed.published] == [
        ("state", 1, True), ("brightness", 1, True),
    ]  # fmt: skip
    shed.published.clear()
    assert shed.call("shed.break_it", key="x", level=9).result() == "broken"
    assert [(body["name"], body["data"], body["is_known"]) for _, body in shed.published] == [
        ("state", None, False), ("brightness", 9, True),
    ]  # fmt: skip
    assert "the new value of property 'state' is not published" in caplog.text


def test_a_spawned_thing_is_not_taken_for_the_one_without_a_key() -> None:
    """It has no id: what it says of itself would count for another."""
    shed = VirtualBackplane(Shed(), topics=(NOTIFICATIONS,))
    address = shed.call("shed.breed").result()
    assert shed.call(Address(address).to("break_it"), level=9).result() == "broken"
    assert shed.published == []


def test_who_has_come_is_told_all_values(house: VirtualBackplane) -> None:
    """A gateway that has started keeps values, and knows none yet."""
    house.call("house.notify_all", key="lamp 1").result()
    assert told(house) == [("property", "brightness", 7)]
    house.call("house.notify_all", key="lamp 1").result()
    assert told(house) == [("property", "brightness", 7)]


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
    assert list(model["events"]) == ["overheated", "cooled"]
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


def reserved_event() -> None:
    class ReservedEvent(Thing):
        notify_all = event(int)  # type: ignore[assignment]


def reserved_setting() -> None:
    class ReservedSetting(Thing):
        @prop
        def title(self) -> str:  # type: ignore[override]
            return ""


def replaced_method() -> None:
    class ReplacedMethod(Thing):
        def notify_changes(self) -> None:
            pass


def bounds_of_the_setter() -> None:
    class Setter(Thing):
        @prop
        def level(self) -> int:
            return 1

        @level.write
        def set_level(self, value: Percent) -> None:
            pass


def another_parameter() -> None:
    class AnotherParameter(Thing):
        @prop
        def level(self) -> int:
            return 1

        @level.write
        def set_level(self, percent: int) -> None:
            pass


def huge_default() -> None:
    class HugeDefault(Thing):
        @action
        def fade(self, to: int = 2**70) -> None:
            pass


def wrong_default() -> None:
    class WrongDefault(Thing):
        @action
        def fade(self, to: Percent = 101) -> None:
            pass


def endless_default() -> None:
    class EndlessDefault(Thing):
        @action
        def fade(self, to: float = float("inf")) -> None:
            pass


def odd_name() -> None:
    class OddName(Thing):
        @prop(name="a/b")
        def level(self) -> int:
            return 1


def odd_event_name() -> None:
    class OddEvent(Thing):
        hot = event(float, name="..")


def a_property() -> None:
    class AProperty(Thing):
        @prop  # type: ignore[arg-type]
        @property
        def level(self) -> int:
            return 1


def one_text_of_types() -> None:
    class OneText(Thing):
        types = "saref:Light"


def keys_that_are_no_text() -> None:
    class Keys(Thing):
        @prop
        def grid(self) -> dict[int, str]:
            return {}


def unknown_option() -> None:
    prop(observe=True)  # type: ignore[call-overload]


def unknown_prefix() -> None:
    class UnknownPrefix(Thing):
        types = ("acme:Lamp",)


def unknown_language() -> None:
    class UnknownLanguage(Thing):
        language = "de_AT"


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
        hot = event(float)
        very_hot = event(float, name="hot")


def lost_event() -> None:
    class LostEvent(Thing):
        ball = event(int, name="lost")


def lost_observable() -> None:
    class LostObservable(Thing):
        @prop(observable=True)
        def lost(self) -> int:
            return 7


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lost_event, r"LostEvent.ball: streams tell by 'lost' that messages are missing: give it another name"),
        (lost_observable, r"LostObservable.lost: streams tell by 'lost'"),
        (untyped, r"Untyped.level: name its type: def level\(self\) -> TYPE"),
        (any_value, r"AnyValue.level: the type Any allows any value"),
        (no_value, r"NoValue.level: a property has a value"),
        (two_parameters, r"TwoParameters.level: expected `def level\(self\) -> TYPE`"),
        (slow_observable, r"SlowObservable.level is observable, so it is read after each action: make it `def`"),
        (another_type, r"AnotherType.set_level takes str, but the property is int"),
        (written_twice, r"put_level: property 'level' is written by set_level already"),
        (replaced, r"Replaced.level would replace the method that reads the property: name it set_level"),
        (reserved, r"'describe' belongs to the runtime"),
        (reserved_event, r"'notify_all' belongs to the runtime"),
        (reserved_setting, r"'title' belongs to the runtime"),
        (replaced_method, r"'notify_changes' belongs to the runtime"),
        (bounds_of_the_setter, r"Setter.set_level has bounds of its own: set them in the annotation of the property"),
        (another_parameter, r"AnotherParameter.set_level: expected `def set_level\(self, value: TYPE\) -> None`"),
        (huge_default, r"HugeDefault.fade, parameter 'to': default 1180591620717411303424: "),
        (wrong_default, r"WrongDefault.fade, parameter 'to': default 101: Expected `int` <= 100"),
        (endless_default, r"EndlessDefault.fade, parameter 'to': default inf: JSON has no such number"),
        (odd_name, r"OddName.level: name 'a/b': expected letters, digits"),
        (odd_event_name, r"OddEvent.hot: name '..': expected letters, digits"),
        (a_property, r"@prop decorates a plain method, not <property"),
        (one_text_of_types, r"OneText.types = 'saref:Light': expected a tuple of texts"),
        (keys_that_are_no_text, r"Keys.grid: the keys of dict\[int, str\] are no text"),
        (unknown_option, r"@prop\(observe=…\): no such option \(did you mean 'observable'\?\)"),
        (unknown_prefix, r"UnknownPrefix: types: unknown prefix in 'acme:Lamp': add `context"),
        (unknown_language, r"UnknownLanguage: language = 'de_AT': expected a tag such as 'en' or 'de-AT'"),
        (stream_of_an_action, r"Stream.rows is a generator, and an action has one result"),
        (untyped_parameter, r"UntypedParameter.fade, parameter 'to': name its type"),
        (two_events, r"TwoEvents.very_hot: the class has another event 'hot'"),
    ],
)
def test_a_wrong_declaration_is_refused(declare: Callable[[], None], words: str) -> None:
    """When the class is made, with the method and the remedy."""
    with pytest.raises(DeclarationError, match=words):
        declare()
