"""replay: predicts the waits of a backplane's recorded work under other settings. The system need not run; nothing is changed.

Settings are written as in the TOML and checked by the same rules, before anything is read.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ..logs import filter as log_filter
from .cli import output_options
from .recorded import become, folder_of
from .report import nanoseconds
from .systems import system_option

if TYPE_CHECKING:
    from ..configuration.config import BackplaneConfig

#: Keys of [backplane.NAME] that decide about waits, to the names that a recording gives them (spark/replay/setting.py).
FIELDS: Final = {
    "threads": "threads",
    "quotas": "quotas",
    "order": "order",
    "shares": "shares",
    "max_starvation": "max_starvation_ns",
    "tick": "tick_ns",
    "cpu_limit": "cpu_limit",
    "cpu_exempt": "cpu_exempt",
    "preempt": "preempt",
    "admission.aim": "aim_ns",
}
_WORD: Final = re.compile(r"(?P<key>[a-z_.]+)=(?P<value>.+)", re.DOTALL)


@click.command("replay")
@click.argument("backplane")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@system_option
@click.option("--since", metavar="TIME", help='Only actions that began since: "10m" ago (s, m, h, d, w), or ISO 8601.')
@output_options
def command(backplane: str, settings: tuple[str, ...], system: str | None, since: str | None, as_json: bool) -> None:
    """Predict the waits of BACKPLANE's recorded work under other settings: threads=4, admission.aim=50ms, quotas=[8,2], ..."""
    try:
        instant = None if since is None else log_filter.since(since, datetime.now().astimezone())
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    try:
        changes = changes_of(settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    become(
        "replay", folder_of(None, system),
        "--backplane", backplane,
        "--changes", json.dumps(changes),
        "--since-ns", None if instant is None else str(nanoseconds(instant)),
        "--json", "" if as_json else None,
    )  # fmt: skip


def changes_of(settings: Sequence[str]) -> dict[str, Any]:
    """The settings that differ, by their names in a recording. Raises `ValueError` for one that is wrong, or that decides
    nothing about waits.
    """
    from ..configuration.config import ConfigError, settings_of

    table: dict[str, Any] = {}
    given: list[str] = []
    for word in settings:
        key, value = _parsed(word)
        if key in given:
            raise ValueError(f"{key} is given twice")
        given.append(key)
        *outer, last = key.split(".")
        inner = table
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    try:
        checked = settings_of(table, "NAME")
    except ConfigError as error:
        raise ValueError("; ".join(one.removeprefix("backplane.NAME.") for one in error.problems)) from None
    return {FIELDS[key]: _value_of(checked, key) for key in given}


def _parsed(word: str) -> tuple[str, Any]:
    found = _WORD.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} is no setting: expected KEY=VALUE, such as threads=4 or admission.aim=50ms")
    key, value = found["key"], found["value"]
    if key not in FIELDS:
        raise ValueError(f"{key} cannot be tried in a replay; what can: {', '.join(FIELDS)}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value  # a text without quotes: the shell has taken them


def _value_of(checked: BackplaneConfig, key: str) -> Any:
    return checked.admission.aim_ns if key == "admission.aim" else getattr(checked, FIELDS[key])
