"""Words: `key=value` of the command line as arguments of a call.

A value that is JSON is taken as JSON, all else as text: `limit=20` is a number, `text=asyncio` a string, `ids=[1,2]` a
list; `text='"20"'` is the string 20. The callee checks all of them against its annotations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click


def arguments(words: Iterable[str]) -> dict[str, Any]:
    """Arguments by key. Raises `UsageError` for a word that is not key=value, or a key given twice."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise click.UsageError(f"{word!r}: arguments are given as key=value")
        if key in found:
            raise click.UsageError(f"{key!r} is given twice")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    except RecursionError:
        raise click.UsageError(f"{text[:20]!r}...: nested too deep") from None


def _refuse(constant: str) -> Any:
    """NaN and Infinity are not JSON, and a person who types them means the word."""
    raise ValueError(constant)
