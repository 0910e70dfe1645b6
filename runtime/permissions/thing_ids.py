"""Ids of things, by which permissions name them, and the topic of their notifications."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

#: Topic of new values of observable properties, and of events: `{thing, process, kind, name, data, is_known}`.
NOTIFICATIONS: Final = "things.notifications"
#: Ids remembered: admission asks for one with each call.
_IDS_MAX: Final = 100_000
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")


@lru_cache(_IDS_MAX)
def id_of(component: str, key: str | None) -> str:
    """The URI of a thing: its key, if that is one, such as `urn:uuid:…`; else a URN of its component and key."""
    if key is not None and _URI.fullmatch(key):
        return key
    return f"urn:appbackplane:{quote(component, safe='')}" + ("" if key is None else f":{quote(key, safe='')}")


def types_of(object: Any) -> tuple[str, ...]:
    """The semantic types of a thing, as its class declares them; none for any other object."""
    types = getattr(type(object), "types", ())
    return tuple(types) if isinstance(types, tuple | list) else ()
