"""Answers of a supervisor, for the tests of this folder."""

from __future__ import annotations

from typing import Any


def board(
    *, cpu: float = 1.0, age: float | None = 0.1, queued: int = 0, waiting: int = 0, running: float | None = None
) -> Any:
    """The figures that a backplane has written; the fields that are not read are left in."""
    return {
        "heartbeat_age": age, "finished": 7, "queued": queued, "waiting": waiting, "running_for": running, "cpu": cpu,
        "throttled": 0, "slow": 0,
    }  # fmt: skip


def entry(name: str = "web", **fields: Any) -> dict[str, Any]:
    """One backplane that is up."""
    return {
        "name": name, "replica_of": None, "state": "up", "pid": 100, "generation": 1, "restarts": 0, "deaths": 0, "since": 5.0,
        "reason": None, "health": "idle", "board": board(),
    } | fields  # fmt: skip


def status(*entries: dict[str, Any], uptime: float = 10.0) -> dict[str, Any]:
    """One answer to `supervisor.status`."""
    return {"system": "demo", "pid": 1, "uptime": uptime, "state": "up", "backplanes": list(entries)}


def statistics(
    *, running: int = 0, objects: dict[str, float] | None = None, calls: dict[str, float] | None = None
) -> Any:
    """A backplane's report. `objects`, `calls`: their ages in milliseconds by name."""
    return {
        "running": [{"route": "a.b", "object": "web/a", "running_ms": 1.0}] * running,
        "oldest": {
            "objects": [
                {"object": name, "state": "ready", "outstanding": 1, "oldest_ms": age, "first": "x"}
                for name, age in (objects or {}).items()
            ],
            "calls": [
                {"call": name, "route": "a.b", "object": "web/a", "age_ms": age} for name, age in (calls or {}).items()
            ],
        },
    }
