"""Operations: arguments are checked against the annotations before the object sees them; wrong declarations fail at once."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.objects.component import Component
from appbackplane.runtime.objects.operation import DeclarationError, every, operation, subscribe
from appbackplane.runtime.objects.operation_spec import specs_of
from appbackplane.transport.errors import InvalidArgument
from tests.steps import steps_of

#: One pass over the names of a class and of its bases takes 2,700.
STEPS_MAX = 4_000


class Urgency(enum.IntEnum):
    """A priority may have a name."""

    HIGH = 1


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Shard(AppObject):
    @operation(priority=1)
    def search(
        self,
        text: str,
        limit: int = 20,
        weight: float = 1.0,
        tags: list[str] = [],  # noqa: B006 - that this is safe is what is tested
        where: Path = Path("."),
        color: Color = Color.RED,
        at: Point | None = None,
        sizes: tuple[int, ...] = (),
        raw: bytes = b"",
        anything: Any = None,
    ) -> list[str]: ...

    @operation()
    def nothing(self) -> None: ...

    @operation()
    def named(self, first: int, *, second: int, third: int = 3) -> tuple[int, int, int]:
        return first, second, third

    @operation(name="other_name")
    async def coroutine(self, only: str) -> None: ...


SPECS = Shard.__operations__
DEFAULTS = ["x", 20, 1.0, [], Path("."), Color.RED, None, (), b"", None]
NAMES = ["text", "limit", "weight", "tags", "where", "color", "at", "sizes", "raw", "anything"]


def bind(**arguments: Any) -> list[Any]:
    return list(SPECS["search"].bind(arguments, "query.search"))


def test_what_is_left_out_has_its_default() -> None:
    """A call is written like a call in Python."""
    assert bind(text="x") == DEFAULTS
    assert SPECS["nothing"].bind({}, "query.nothing") == ()
    assert SPECS["coroutine"].bind({"only": "x"}, "query.other_name") == ("x",)


@pytest.mark.parametrize(
    ("name", "sent", "seen"),
    [
        ("limit", 3, 3),
        ("weight", 3, 3.0),
        ("tags", ["a"], ["a"]),
        ("where", "/tmp", Path("/tmp")),
        ("color", "red", Color.RED),
        ("at", {"x": 1}, Point(1)),
        ("at", None, None),
        ("sizes", [1, 2], (1, 2)),
        ("raw", b"ab", b"ab"),
        ("anything", {"deep": [1, None]}, {"deep": [1, None]}),
    ],
)
def test_what_the_wire_can_carry_becomes_what_was_annotated(name: str, sent: Any, seen: Any) -> None:
    """The object must not have to know what msgpack makes of a tuple."""
    found = bind(text="x", **{name: sent})[NAMES.index(name)]
    assert found == seen
    assert type(found) is type(seen)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "missing argument 'text'"),
        ({"text": 5}, "argument 'text': expected `str`, got `int`"),
        ({"text": "x", "limit": "3"}, "argument 'limit': expected `int`, got `str`"),
        ({"text": "x", "limit": True}, "argument 'limit': expected `int`, got `bool`"),
        ({"text": "x", "limit": 1.5}, "argument 'limit': expected `int`, got `float`"),
        ({"text": "x", "limt": 3}, "unknown argument 'limt'"),
        ({"text": "x", "tags": ["a", 1]}, "argument 'tags[1]': expected `str`, got `int`"),
        ({"text": "x", "where": 3}, "argument 'where': expected `Path`, got `int`"),
        ({"text": "x", "color": "blue"}, "argument 'color': invalid enum value 'blue'"),
        ({"text": "x", "at": {}}, "argument 'at': object missing required field `x`"),
        ({"text": "x", "raw": "aGk="}, "argument 'raw': expected `bytes`, got `str`"),
        ({1: 2}, "Expected `str`"),
        ([], "Expected `object`, got `array`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_what_does_not_fit_is_refused_and_named(arguments: Any, problem: str) -> None:
    """The caller's fault is told to the caller, with what was expected; the object never sees it."""
    with pytest.raises(InvalidArgument) as raised:
        SPECS["search"].bind(arguments, "query.search")
    message = str(raised.value)
    assert message.startswith(f"query.search: {problem}")
    assert "expected (text: str, limit: int = 20" in message


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(NAMES), PLAIN) | PLAIN)
def test_whatever_comes_is_bound_or_refused(arguments: Any) -> None:
    """Strangers call. Any other exception would be a bug report for what is the caller's fault."""
    try:
        text, limit, weight, tags, where, color, at, sizes, raw, _ = SPECS["search"].bind(arguments, "query.search")
    except InvalidArgument:
        return
    assert (type(text), type(limit), type(weight), type(tags), type(raw)) == (str, int, float, list, bytes)
    assert isinstance(where, Path)
    assert isinstance(color, Color)
    assert at is None or isinstance(at, Point)
    assert all(type(size) is int for size in sizes)


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    """Python's oldest trap would be a leak between strangers here."""
    first = bind(text="x")[3]
    first.append("mine")
    assert bind(text="x")[3] == []


def test_keyword_only_parameters_are_passed_by_name() -> None:
    """A declaration that Python takes must not fail at every call."""
    spec = SPECS["named"]
    assert spec.function(Shard(), *spec.bind({"first": 1, "second": 2}, "query.named")) == (1, 2, 3)
    assert spec.signature == "(first: int, *, second: int, third: int = 3) -> tuple[int, int, int]"


def declared(body: Callable[..., Any], marker: Any = None) -> Any:
    return type("Declared", (AppObject,), {"body": (marker or operation())(body)})


def star(self: Any, *rest: int) -> None: ...
def double_star(self: Any, **rest: int) -> None: ...
def positional_only(self: Any, x: int, /) -> None: ...
def unresolved(self: Any, x: Nope) -> None: ...  # type: ignore[name-defined] # noqa: F821
def ambiguous(self: Any, x: int | list[int] | tuple[int, ...]) -> None: ...
def no_self() -> None: ...
def forgotten_self(x: int) -> int: ...
def plain(self: Any) -> None: ...
def required(self: Any, x: int) -> None: ...


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (star, "star: parameter 'rest' cannot be passed by name"),
        (double_star, "double_star: parameter 'rest' cannot be passed by name"),
        (positional_only, "positional_only: parameter 'x' cannot be passed by name"),
        (unresolved, "unresolved: annotation cannot be resolved: name 'Nope'"),
        (ambiguous, "ambiguous: an annotation cannot be checked"),
        (no_self, "no_self has no `self`"),
        (forgotten_self, "forgotten_self: the first parameter is 'x': it must be self"),
        (staticmethod(required), "staticmethod.* expected a plain method"),
        (property(required), "property.* expected a plain method"),
    ],
)
def test_a_wrong_declaration_fails_when_the_class_is_made(body: Any, says: str) -> None:
    """Law 12. What is wrong with a route is known before anything starts, and says where; not at the first call."""
    with pytest.raises(DeclarationError, match=says):
        declared(body)


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_a_mark_under_another_decorator_is_not_lost(kind: Any) -> None:
    """The route would just not be there."""

    def marked(self: Any) -> None: ...

    with pytest.raises(DeclarationError, match=r"Declared\.body: expected a plain method"):
        type("Declared", (AppObject,), {"body": kind(operation()(marked))})


def test_marks_that_make_no_sense_are_refused() -> None:
    """A timer of no length would run for ever; a misspelt state would never be served."""
    with pytest.raises(DeclarationError, match="its parameters need defaults"):
        declared(required, every(1.0))
    for seconds in (0, -1.0, 1e-12, float("nan"), float("inf"), True):
        with pytest.raises(DeclarationError, match=r"plain: every.*expected a number of seconds above 0"):
            every(seconds)(plain)
    for topic in ("", "*", "files.*.old", "two words"):
        with pytest.raises(DeclarationError, match="plain: subscribe to a topic such as"):
            subscribe(topic)(plain)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"states": ("primry",)}, r"states: \['primry'\] are not among \['initializing', 'primary', 'secondary'\]"),
        ({"states": ([],)}, r"states: \[\[\]\] are not among"),
        ({"states": "primary"}, r"states='primary': expected several, as states=\(\"primary\",\)"),
        ({"calls": "index.stats"}, r"calls='index.stats': expected several, as calls=\(\"index.stats\",\)"),
        (
            {"accepted_in": Color.RED},
            r"accepted_in=<Color.RED: 'red'>: expected several, as accepted_in=\(State.OPEN,\)",
        ),
        ({"otherwise": "wait"}, "otherwise='wait': expected 'refuse' or 'defer'"),
        ({"priorty": 3}, r"operation has no option 'priorty' \(did you mean 'priority'\?\)"),
        ({"urgent": True}, "operation has no option 'urgent': one of priority, name, reentrant, idempotent"),
        ({"priority": "high"}, "priority: expected `int`, got `str`"),
        ({"priority": None}, "priority: expected `int`, got `null`"),
        ({"name": 5}, r"name: expected `str \| null`, got `int`"),
        ({"reentrant": "yes"}, "reentrant: expected `bool`, got `str`"),
        ({"calls": [1]}, r"calls\[0\]: expected `str`, got `int`"),
        ({"export": 1}, "export: expected `bool`, got `int`"),
        ({"digest": 5}, r"digest: expected `str \| null`, got `int`"),
    ],
)
def test_a_mark_of_the_wrong_type_is_refused(wrong: dict[str, Any], says: str) -> None:
    """Where it is written; not by whatever first compares it, in words about types that its author has never heard of."""
    with pytest.raises(DeclarationError, match=f"^plain: {says}"):
        operation(**wrong)(plain)
    assert operation(priority=Urgency.HIGH, name="x")(plain) is plain


@pytest.mark.parametrize(
    ("decorator", "says"),
    [
        (operation, r"plain: write @operation\(\), with parentheses"),
        (every, r"plain: write @every\(0\.5\), with parentheses"),
        (subscribe, r'plain: write @subscribe\("files\.changed"\), with parentheses'),
        (every("5s"), r"plain: every\('5s'\): expected a number of seconds above 0"),  # type: ignore[arg-type]
        (every(5, prio=1), r"plain: every has no option 'prio' \(did you mean 'priority'\?\)"),  # type: ignore[arg-type]
        (subscribe("rain", calls="x"), "plain: subscribe has no option 'calls'"),  # type: ignore[arg-type]
    ],
)
def test_a_decorator_that_is_written_wrongly_says_how_it_is_written(decorator: Any, says: str) -> None:
    """With the method's name: a module has fifty of them."""
    with pytest.raises(DeclarationError, match=f"^{says}"):
        decorator(plain)


def test_two_operations_of_one_name_are_refused() -> None:
    """One of them would never be called, and nobody would know which."""
    with pytest.raises(DeclarationError, match="a and b are both the operation 'same'"):

        class Twice(AppObject):
            @operation(name="same")
            def a(self) -> None: ...

            @operation(name="same")
            def b(self) -> None: ...


def test_operations_are_inherited_and_an_override_keeps_its_route() -> None:
    """A subclass that improves a method must not make its route vanish."""

    class Better(Shard):
        def nothing(self, extra: int = 0) -> None: ...

    class Other(Shard):
        @operation(name="something", priority=7)
        def nothing(self) -> None: ...

    class Without(Shard):
        nothing = None  # type: ignore[assignment]

    assert set(Better.__operations__) == set(SPECS)
    assert Better.__operations__["nothing"].bind({"extra": 2}, "r") == (2,)
    assert (Other.__operations__["nothing"].name, Other.__operations__["nothing"].mark.priority) == ("something", 7)
    assert "nothing" not in Without.__operations__
    assert SPECS["nothing"].bind({}, "r") == (), "the base class is as it was"


def test_a_class_is_defined_without_a_lookup_of_each_of_its_names() -> None:
    """Every process pays for each class that it imports, at each restart. `getattr_static` of all names takes 7,700 steps."""

    class Plain(Component):
        """Has nothing but the hundred names of its bases."""

    assert steps_of(lambda: specs_of(Plain)) < STEPS_MAX


def test_a_mark_says_what_was_declared() -> None:
    """The directory, `routes` and `check` read it."""

    class All(AppObject):
        @operation(priority=2, reentrant=True, calls=["b.c"], states=["initializing", "primary"], digest="find")
        def serve(self) -> None: ...

        @subscribe("files.changed", priority=6)
        def hear(self, path: str) -> None: ...

        @every(0.25)
        async def tick(self) -> None: ...

        @operation(export=True)
        def give(self) -> None: ...

        @subscribe("files.sent", export=True)
        def take(self) -> None: ...

    specs = All.__operations__
    assert {name for name, spec in specs.items() if spec.mark.export} == {"give", "take"}
    mark = specs["serve"].mark
    assert (mark.kind, mark.priority, mark.reentrant, mark.calls, mark.digest) == (
        "operation",
        2,
        True,
        ("b.c",),
        "find",
    )
    assert mark.states == ("initializing", "primary")
    assert (specs["hear"].mark.kind, specs["hear"].mark.topic, specs["hear"].mark.priority) == (
        "topic",
        "files.changed",
        6,
    )
    assert (specs["tick"].mark.kind, specs["tick"].mark.interval_ns, specs["tick"].is_coroutine) == (
        "timer",
        250_000_000,
        True,
    )


class Bounded(AppObject):
    @operation()
    def take(
        self,
        count: Annotated[int, msgspec.Meta(le=100)],
        names: list[Annotated[str, msgspec.Meta(max_length=3)]] = [],  # noqa: B006
        share: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None,
        length: Annotated[int, "in metres"] = 1,
    ) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"count": 500}, "argument 'count': expected `int` <= 100"),
        ({"count": 1, "names": ["long name"]}, "argument 'names[0]': expected `str` of length <= 3"),
        ({"count": 1, "share": 1.5}, "argument 'share': expected `float` <= 1.0"),
    ],
)
def test_bounds_in_annotations_hold(arguments: dict[str, Any], says: str) -> None:
    """500 arrived where 100 was the maximum: `get_type_hints` drops what is in `Annotated` unless it is told to keep it."""
    spec = Bounded.__operations__["take"]
    with pytest.raises(InvalidArgument) as caught:
        spec.bind(arguments, "box.take")
    assert says in str(caught.value)
    assert spec.bind({"count": 100, "names": ["abc"], "share": 1.0}, "box.take") == (100, ["abc"], 1.0, 1)


def test_a_remark_in_an_annotation_is_no_bound() -> None:
    """It would make a signature another, and cost each call a conversion."""
    assert Bounded.__operations__["take"].parameters["length"] == (int, False)
