"""Schemas: the JSON Schema of a Python type, in the vocabulary that a Thing Description has for data.

A Thing Description (W3C WoT TD 1.1, section 5.3.2, "DataSchema") has a part of JSON Schema: no references, `oneOf` for
alternatives, and one schema of `items` for the fields of a tuple. msgspec derives the schema of a type with its bounds; its
references are written out here. A type that contains itself cannot be described without references, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec

from ..objects.operation import DeclarationError

#: A schema, or a part of one.
Schema = dict[str, Any]

#: Keywords without which a schema says nothing of its values.
_SAYS: Final = frozenset(("type", "oneOf", "enum", "const"))
_REFERENCE: Final = "#/$defs/"
#: Keywords that hold one schema, or a list of them.
_INNER: Final = ("items", "additionalProperties", "oneOf")


def schema_of(kind: Any, where: str) -> Schema:
    """The schema of a type. Raises `DeclarationError`, which begins with `where`, for a type that has none."""
    _check_keys(kind, where)
    try:
        whole = msgspec.json.schema(kind)
    except (TypeError, RecursionError) as error:
        raise DeclarationError(f"{where}: the type {_name(kind)} has no JSON schema: {error}") from None
    definitions: Mapping[str, Any] = whole.pop("$defs", {})
    schema: Schema = _Writer(definitions, where).written_out(whole, ())
    if not _SAYS & schema.keys():
        raise DeclarationError(f"{where}: the type {_name(kind)} allows any value: name the type that it has")
    return schema


def _check_keys(kind: Any, where: str) -> None:
    """JSON writes every key as text, so a write of another kind of key would not be what was read."""
    arguments = get_args(kind)
    if get_origin(kind) is dict and arguments and get_origin(arguments[0]) is not Literal:
        base = get_args(arguments[0])[0] if get_origin(arguments[0]) is Annotated else arguments[0]
        if base is not str:
            raise DeclarationError(f"{where}: the keys of {kind} are no text, as those of a JSON object are")
    for each in arguments:
        _check_keys(each, where)


class _Writer:
    """Writes the references of one schema out."""

    def __init__(self, definitions: Mapping[str, Any], where: str) -> None:
        self._definitions = definitions
        self._where = where

    def written_out(self, schema: Any, within: tuple[str, ...]) -> Any:
        """`within`: the definitions that surround this one, outermost first."""
        if not isinstance(schema, dict):  # additionalProperties: false
            return schema
        reference = schema.get("$ref")
        if reference is not None:
            name = reference.removeprefix(_REFERENCE)
            if name in within:
                raise DeclarationError(
                    f"{self._where}: the type {name} contains itself, and a Thing Description cannot express recursive types"
                )
            return self.written_out(self._definitions[name], (*within, name))
        schema = {keyword: value for keyword, value in schema.items() if keyword != "discriminator"}
        if "anyOf" in schema:
            schema["oneOf"] = self._without_subsets(schema.pop("anyOf"))
        if "prefixItems" in schema:
            schema["items"] = self._any_of_them(schema.pop("prefixItems"))
        for keyword in _INNER:
            if keyword in schema:
                inner = schema[keyword]
                schema[keyword] = (
                    [self.written_out(each, within) for each in inner]
                    if isinstance(inner, list)
                    else self.written_out(inner, within)
                )
        if "properties" in schema:
            schema["properties"] = {name: self.written_out(each, within) for name, each in schema["properties"].items()}
        alternatives = schema.get("oneOf", ())
        if len(alternatives) == 1:
            return alternatives[0] | {keyword: value for keyword, value in schema.items() if keyword != "oneOf"}
        return schema

    def _any_of_them(self, fields: list[Any]) -> dict[str, Any]:
        """One schema that covers every field of a tuple.

        A Thing Description may have a list of schemas as well, but the Thing Description Playground rejects it.
        """
        kinds = self._without_subsets([each for number, each in enumerate(fields) if each not in fields[:number]])
        return kinds[0] if len(kinds) == 1 else {"oneOf": kinds}

    def _without_subsets(self, alternatives: list[Any]) -> list[Any]:
        """Drop integers where any number is allowed: an integer would match both, and `oneOf` allows one."""
        numbers = [each for each in alternatives if each.get("type") == "number"]
        if not numbers or not any(each.get("type") == "integer" for each in alternatives):
            return alternatives
        if {"type": "number"} not in numbers:
            raise DeclarationError(
                f"{self._where}: an integer or a number with bounds: a value would match both; use one type of number"
            )
        return [each for each in alternatives if each.get("type") != "integer"]


def _name(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind)
