"""Reconfiguration: compares the running configuration with a new one, and plans how each changed key takes effect. Pure.

Every key of the TOML is in one class, and a test fails for a key without one: in force at once in the supervisor or in the
running backplane; by a restart of that backplane; or not while the system runs. A key is in force at once only if nothing
depends on its old value: the number of priorities is built into every queue, constructors have read their settings, and other
processes look for sockets and cgroups at their old place. If one change is impossible, none is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from appbackplane.transport.directory import Registration

from ..configuration.cluster_settings import without_password
from ..configuration.config import Config, RestartPolicy
from ..configuration.log_settings import LogSettings, Size, in_words
from ..configuration.reader import Duration, duration_in_words


class Takes(StrEnum):
    """How a changed key takes effect."""

    SUPERVISOR = "supervisor"  # at once: only the supervisor reads it
    BACKPLANE = "backplane"  # at once: the running process receives it
    RESTART = "restart"  # the backplane is restarted for it
    NEVER = "never"  # not while the system runs


#: The classes in words, for people.
IN_WORDS = {
    Takes.SUPERVISOR: "at once",
    Takes.BACKPLANE: "at once",
    Takes.RESTART: "by restart",
    Takes.NEVER: "not while it runs",
}
_S, _B, _R, _N = Takes
#: Tables beside [system] and [backplane.NAME]. Their keys take a restart, but [cluster], shared with other nodes, is fixed.
_TABLES = ("record", "topic", "trace", "permissions", "node", "peers", "cluster")
#: The keys of [system]; its table `log` follows.
SYSTEM_KEYS: Mapping[str, Takes] = {
    "name": _N, "role": _S, "run_dir": _N, "nice": _N, "start_limit": _S, "stop_limit": _S, "restart": _S,
    "drain_limit": _S, "stuck_after": _S, "metrics": _N, "metrics_public": _N, "local_link": _N,
}  # fmt: skip
LOG_KEYS: Mapping[str, Takes] = {"level": _B, "dir": _N, "file_size": _S, "files": _S, "ring": _R, "when_full": _R}
#: The keys of [backplane.NAME].
BACKPLANE_KEYS: Mapping[str, Takes] = {
    "components": _R, "replicas": _S, "balance": _R, "fair_by": _R, "weights": _R, "threads": _B, "priorities": _R,
    "quotas": _B, "order": _R, "shares": _R, "max_starvation": _R, "tick": _B, "cpu_limit": _B, "cpu_exempt": _B,
    "only_on": _N, "max_latency": _B, "slow_action": _B, "affinity": _R, "preempt": _R, "restart": _S, "start_limit": _S,
    "stop_limit": _S, "drain_limit": _S, "stuck_after": _S, "replay": _R, "admission": _R, "sources": _R, "settings": _R,
}  # fmt: skip


class KeyChange(msgspec.Struct, frozen=True):
    """One key whose value changes; `old` or `new` is None if the key is absent."""

    #: None: a key of the system.
    backplane: str | None
    #: Its path within the table: "threads", "restart.max", "settings.Index.path".
    key: str
    old: Any
    new: Any
    takes: Takes

    @property
    def name(self) -> str:
        """Its full path in the TOML: "backplane.index.threads"."""
        if self.key.partition(".")[0] in _TABLES:
            return self.key
        return f"system.{self.key}" if self.backplane is None else f"backplane.{self.backplane}.{self.key}"


class Plan(msgspec.Struct, frozen=True):
    """All changes, and the backplanes that are restarted, added and removed for them; false if there are none."""

    changes: tuple[KeyChange, ...] = ()
    #: Backplanes, in the order of the file.
    restarted: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.added or self.removed)

    def problems(self) -> list[str]:
        """One line for each change that is impossible while the system runs; empty: the plan can be carried out."""
        return [
            f"{change.name}: {shown(change.old)} cannot become {shown(change.new)} while the system runs: "
            "take it down, and up again"
            for change in self.changes
            if change.takes is Takes.NEVER
        ]

    def as_data(self) -> dict[str, Any]:
        """The plan as JSON-like data, for clients and programs."""
        return {
            "changes": [
                {**msgspec.structs.asdict(change), "old": plain(change.old), "new": plain(change.new)}
                for change in self.changes
            ],
            "restarted": list(self.restarted),
            "added": list(self.added),
            "removed": list(self.removed),
        }


def plan(running: Config, new: Config) -> Plan:
    """The plan from the running configuration to the new one."""
    changes = list(_differences(None, running.system, new.system, SYSTEM_KEYS))
    for key in ("import_dir", "run_dir"):  # both also depend on the path of the file
        old_path, new_path = getattr(running, key), getattr(new, key)
        if old_path != new_path and not any(change.key == key for change in changes):
            changes.append(KeyChange(None, key, old_path, new_path, Takes.NEVER))
    tables = (
        ("record", running.record, new.record),
        ("topic", running.topics, new.topics),
        ("trace", running.trace, new.trace),
        ("permissions", running.permissions, new.permissions),
    )
    for key, before, after in tables:
        changes += [
            KeyChange(None, path, was, becomes, Takes.RESTART)
            for path, was, becomes in _entries(key, _table(before), _table(after))
        ]
    changes += [
        KeyChange(None, path, _without_password(was), _without_password(becomes), Takes.NEVER)
        for path, was, becomes in _entries("cluster", _table(running.cluster), _table(new.cluster))
    ]
    kept = [name for name in new.backplane if name in running.backplane]
    for name in kept:
        of_name = _differences(name, running.backplane[name], new.backplane[name], BACKPLANE_KEYS)
        is_carrier = name == running.carrier == new.carrier
        changes += _as_in_node(of_name, running, new) if is_carrier else of_name
    is_new_for_all = any(change.backplane is None and change.takes is Takes.RESTART for change in changes)
    named = {change.backplane for change in changes if change.takes is Takes.RESTART}
    return Plan(
        changes=tuple(changes),
        restarted=tuple(name for name in kept if is_new_for_all or name in named),
        added=tuple(name for name in new.backplane if name not in running.backplane),
        removed=tuple(name for name in running.backplane if name not in new.backplane),
    )


def needed(plan: Plan, registrations: Iterable[Registration]) -> list[str]:
    """One line for each backplane that cannot be removed, because unchanged backplanes depend on what only it has."""
    registrations = list(registrations)
    kept = {part.name for each in registrations if each.backplane not in plan.removed for part in each.components}
    changing = {*plan.removed, *plan.restarted}
    problems = []
    for removed in registrations:
        if removed.backplane not in plan.removed:
            continue
        lost = {part.name for part in removed.components} - kept
        staying = [
            each.backplane for each in registrations
            if each.backplane not in changing and any(lost & {*part.depends_on} for part in each.components)
        ]  # fmt: skip
        if staying:
            users = ", ".join(sorted(staying))
            problems.append(f"backplane.{removed.backplane}: cannot be removed: {users} depends on it")
    return problems


def plain(value: Any) -> Any:
    """The value as written in the TOML, as JSON data: durations and sizes become text."""
    if isinstance(value, Duration):
        return duration_in_words(value)
    if isinstance(value, Size):
        return in_words(value)
    return json.loads(json.dumps(value, default=str))


def shown(value: Any) -> str:
    """The value as text in one line; "none" for None."""
    return "none" if value is None else in_json(plain(value))


def in_json(value: Any) -> str:
    """A result of `plain` as JSON in one line; "none" for None."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _without_password(value: Any) -> Any:
    """A value of [cluster] without the password in its URL, for display."""
    return without_password(value) if isinstance(value, str) else value


def _table(settings: msgspec.Struct | Mapping[str, msgspec.Struct] | None) -> dict[str, Any]:
    """The settings as a table with the names of the TOML, defaults included."""
    if settings is None:
        return {}
    if isinstance(settings, msgspec.Struct):
        fields = msgspec.structs.fields(settings)
        return {field.encode_name: getattr(settings, field.name) for field in fields}
    return {name: _table(each) for name, each in settings.items()}


def _differences(
    backplane: str | None, old: msgspec.Struct, new: msgspec.Struct, takes: Mapping[str, Takes], prefix: str = ""
) -> Iterator[KeyChange]:
    # Each status compares. `msgspec.structs.fields` would evaluate all annotations of the class each time: 5 of 6 ms.
    for name, key_name in zip(old.__struct_fields__, old.__struct_encode_fields__, strict=True):
        key = f"{prefix}{key_name}"
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, LogSettings):
            yield from _differences(backplane, before, after, LOG_KEYS, f"{key}.")
        elif isinstance(before, RestartPolicy):
            every = dict.fromkeys(RestartPolicy.__struct_encode_fields__, takes["restart"])
            yield from _differences(backplane, before, after, every, f"{key}.")
        elif isinstance(before, dict):
            for path, was, becomes in _entries(key, before, after):
                yield KeyChange(backplane, path, was, becomes, takes[key_name])
        elif before != after:
            yield KeyChange(backplane, key, before, after, takes[key_name])


def _as_in_node(changes: Iterable[KeyChange], old: Config, new: Config) -> Iterator[KeyChange]:
    """The carrier's changes, with those of its settings replaced by the keys of [node] and [peers] that they come from."""
    yield from (change for change in changes if not change.key.startswith("settings."))
    for key, before, after in (("node", _table(old.node), _table(new.node)), ("peers", old.peers, new.peers)):
        for path, was, becomes in _entries(key, before, after):
            yield KeyChange(new.carrier, path, was, becomes, Takes.RESTART)


def _entries(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(Path, old value, new value) of all entries that differ, in nested tables, too."""
    for name in (*old, *(name for name in new if name not in old)):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _entries(f"{key}.{name}", before, after)
        elif before != after or (name in old) != (name in new):
            yield f"{key}.{name}", before, after
