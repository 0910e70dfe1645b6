"""Reader: converts a TOML table into a struct's fields, and each problem in it into one line.

Knows no key and no rule beyond types, durations and sizes: config.py has those. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from appbackplane.transport.directory import nearest

from . import log_settings
from .log_settings import Size

_SECOND_NS = 1_000_000_000
_UNITS_NS = {
    "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": _SECOND_NS, "m": 60 * _SECOND_NS, "h": 3600 * _SECOND_NS,
}  # fmt: skip
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h)")
#: Thirty years: longer ones are typing errors. It also fits the machine word that carries it.
_DURATION_MAX_S = 1_000_000_000


class Duration(int):
    """Nanoseconds; in the TOML "5ms", "60s", "1.5h" or a number of seconds."""


class Patience(Duration):
    """A duration, or "never", which is 0."""


def duration_ns(value: Any) -> int:
    """Nanoseconds of "5ms" or of a number of seconds. Raises ValueError with the expected form."""
    ns = 0.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        ns = value * _SECOND_NS
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        ns = float(match[1]) * _UNITS_NS[match[2]]
    if ns > _DURATION_MAX_S * _SECOND_NS:
        raise ValueError(f"Expected a duration of at most {_DURATION_MAX_S} s")
    if not ns >= 1:  # false for nan, too
        raise ValueError('Expected a duration above 0: "5ms", "60s", "2m" or a number of seconds')
    return round(ns)


def duration_in_words(ns: int) -> str:
    """`ns` in the largest unit that gives a whole number, as in "90s"."""
    for unit in ("h", "m", "s", "ms", "us"):
        if ns % _UNITS_NS[unit] == 0:
            return f"{ns // _UNITS_NS[unit]}{unit}"
    return f"{ns}ns"


class Reader:
    """Converts tables key by key and collects the problems of each key."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def say(self, at: tuple[str, ...], problem: str) -> None:
        """Note a problem with the key `at`. It is one line: newlines and terminal codes of the file are escaped."""
        line = f"{'.'.join(_quoted(word) for word in at)}: {problem}"
        self.problems.append("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line))

    def unknown(self, at: tuple[str, ...], known: Collection[str]) -> None:
        self.say(at, f"unknown key ({hint(at[-1], known)})")

    def table(
        self, kind: type[Any], value: Any, at: tuple[str, ...], defaults: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Values of one table by field name; a problem is noted and its key left out. `defaults`: initial values, which a
        nested table replaces key by key.
        """
        good: dict[str, Any] = dict(defaults or {})
        if not isinstance(value, dict):
            self.say(at, "missing: expected a table" if value is None else f"expected a table, got {shown(value)}")
            return good
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for key in value:
            if key not in fields:
                self.unknown((*at, key), tuple(fields))
        for key, field in fields.items():
            if key in value:
                try:
                    good[field.name] = self._value(field.type, value[key], (*at, key), good.get(field.name))
                except _Noted:
                    continue
            elif field.required:
                self.say((*at, key), f"missing: expected {_expected(field.type)}")
        return good

    def _value(self, kind: Any, value: Any, at: tuple[str, ...], default: Any = None) -> Any:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            problems_before = len(self.problems)
            values = self.table(kind, value, at)
            if len(self.problems) > problems_before:
                raise _Noted
            return kind(**values) if default is None else msgspec.structs.replace(default, **values)
        try:
            return msgspec.convert(value, kind, dec_hook=_to_quantity)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at `$")
            for index in re.findall(r"\[(\d+)\]", place):
                at, value = (*at[:-1], f"{at[-1]}[{index}]"), value[int(index)]
            self.say(at, f"{_expectation(kind, message)}, got {shown(value)}")
            raise _Noted from None


class _Noted(Exception):
    """The problem with this value has been noted already."""


def hint(word: str, known: Collection[str]) -> str:
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else f"known here: {', '.join(known)}"


def _to_quantity(kind: type, value: Any) -> Any:
    if kind is Duration:
        return Duration(duration_ns(value))
    if kind is Patience:
        try:
            return Patience(0 if value == "never" else duration_ns(value))
        except ValueError as error:
            raise ValueError(f'{error}, or "never"') from None
    if kind is Size:
        return Size(log_settings.size_bytes(value))
    raise NotImplementedError(kind)


def _expectation(kind: Any, message: str) -> str:
    """The type that msgspec expected, in TOML's terms instead of Python's."""
    words = next((each for each in (kind, *get_args(kind)) if get_origin(each) is Literal), None)
    if words is not None:
        return f"expected one of {', '.join(repr(choice) for choice in get_args(words))}"
    message = re.sub(r",? got `.*", "", message).replace("`", "").replace(" | null", "")
    if not message.startswith("Expected"):
        return f"expected {_expected(kind)}"
    for word, plain in _PLAIN_WORDS:
        message = re.sub(rf"\b{word}\b", plain, message)
    return "e" + message[1:]


_PLAIN_WORDS = (
    ("str", "a string"), ("int", "a whole number"), ("float", "a number"), ("bool", "true or false"), ("array", "a list"),
    ("object", "a table"),
)  # fmt: skip


def _expected(kind: Any) -> str:
    if kind == tuple[str, ...]:
        return 'a list such as ["module:Class"]'
    return "a string" if kind is str else "a value"


def _quoted(word: str) -> str:
    word = word if len(word) <= 300 else f"{word[:297]}..."
    return word if re.fullmatch(r"[\w\-\[\]]+", word) else f'"{word}"'


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
