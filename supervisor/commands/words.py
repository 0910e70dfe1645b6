"""Words: `key=value` of the command line as arguments of a call.

A value that is JSON is taken as JSON, all else as text: `limit=20` is a number, `text=asyncio` a string, `ids=[1,2]` a
list; `text='"20"'` is the string 20. The callee checks all of them against its annotations.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import click

from appbackplane.transport.codec import FRAME_BYTES_MAX


def arguments(words: Iterable[str]) -> dict[str, Any]:
    """Arguments by key. Raises `UsageError` for a word that is not key=value, or a key given twice."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise click.UsageError(f"{word!r}: arguments are given as key=value")
        if key in found:
            raise click.UsageError(f"{key!r} is given twice")
        found[key] = value_of(value)
    return found


def json_lines(lines: BinaryIO) -> Iterator[Any]:
    """The values of a file with one JSON value a line, each when its line is there. Raises `UsageError` for any other line."""
    for number in itertools.count(1):
        line = lines.readline(FRAME_BYTES_MAX + 1)
        if not line:
            return
        where = f"standard input, line {number}"
        if len(line) > FRAME_BYTES_MAX:
            raise click.UsageError(f"{where}: more than {FRAME_BYTES_MAX >> 20} MiB")
        try:
            value = json.loads(line, parse_constant=_refuse)
        except RecursionError:
            raise click.UsageError(f"{where}: nested too deep") from None
        except ValueError:
            raise click.UsageError(f"{where}: expected one JSON value a line, got {_shown(line)}") from None
        yield value


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\n")
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


def value_of(text: str) -> Any:
    """The value that a word means: JSON if it is valid JSON, all else text. Raises `UsageError` for one nested too deep."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    except RecursionError:
        raise click.UsageError(f"{text[:20]!r}...: nested too deep") from None


def _refuse(constant: str) -> Any:
    """NaN and Infinity are not JSON, and a person who types them means the word."""
    raise ValueError(constant)
