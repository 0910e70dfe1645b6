"""Schemas: a Thing Description says of data what Python's annotations say, in its own vocabulary."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from appbackplane.runtime import DeclarationError
from appbackplane.runtime.things.schemas import schema_of


class Colour(msgspec.Struct):
    """As the eye has it."""

    red: Annotated[int, msgspec.Meta(ge=0, le=255)]
    name: str = "black"


class Mode(Enum):
    WARM = "warm"
    COLD = "cold"


class Tree(msgspec.Struct):
    children: list[Tree]


class Round(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


class Odd(msgspec.Struct):
    """Its fields have the names of keywords."""

    anyOf: int
    default: Colour


COLOUR = {
    "title": "Colour",
    "description": "As the eye has it.",
    "type": "object",
    "properties": {
        "red": {"type": "integer", "minimum": 0, "maximum": 255},
        "name": {"type": "string", "default": "black"},
    },
    "required": ["red"],
}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (bool, {"type": "boolean"}),
        (Annotated[float, msgspec.Meta(gt=0, multiple_of=0.5)], {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}),
        (int | None, {"oneOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | float, {"type": "number"}),
        (int | float | None, {"oneOf": [{"type": "number"}, {"type": "null"}]}),
        (Literal["warm", "cold"], {"enum": ["cold", "warm"]}),
        (Mode, {"title": "Mode", "enum": ["cold", "warm"]}),
        (list[Colour], {"type": "array", "items": COLOUR}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (
            tuple[int, str],
            {"type": "array", "minItems": 2, "maxItems": 2, "items": {"oneOf": [{"type": "integer"}, {"type": "string"}]}},
        ),
        (tuple[int, int], {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer"}}),
        (Annotated[datetime.datetime, msgspec.Meta(tz=True)], {"type": "string", "format": "date-time"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
    ],
)  # fmt: skip
def test_a_type_and_its_schema(kind: Any, schema: Any) -> None:
    """With its bounds; references are written out, and alternatives are `oneOf`."""
    assert schema_of(kind, "Lamp.x") == schema


def test_fields_may_have_the_names_of_keywords() -> None:
    """Else a thing could not speak of schemas."""
    schema = schema_of(Odd, "Lamp.odd")
    assert schema["properties"]["anyOf"] == {"type": "integer"}
    assert schema["properties"]["default"] == COLOUR


def test_alternatives_that_are_told_by_a_tag() -> None:
    """The mapping of the tags would refer to what is not there any more."""
    schema = schema_of(Round | Square, "Lamp.shape")
    assert set(schema) == {"oneOf"}
    assert [each["properties"]["type"] for each in schema["oneOf"]] == [{"enum": ["Round"]}, {"enum": ["Square"]}]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Tree, r"Lamp.x: the type Tree contains itself, and a Thing Description cannot express recursive types"),
        (Any, r"Lamp.x: the type Any allows any value: name the type"),
        (
            int | Annotated[float, msgspec.Meta(ge=0)],
            r"Lamp.x: an integer or a number with bounds: a value would match both",
        ),
        (dict[int, str], r"Lamp.x: the keys of dict\[int, str\] are no text"),
        (list[dict[tuple[int, int], str]], r"are no text"),
        (pytest.Item, r"Lamp.x: the type Item has no JSON schema: "),
    ],
)
def test_what_has_no_schema_is_refused(kind: Any, words: str) -> None:
    """Where the class is made, and not when somebody asks for the description."""
    with pytest.raises(DeclarationError, match=words):
        schema_of(kind, "Lamp.x")
