"""Answers of a supervisor, as small as they may be: what the tests of the live view look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appbackplane.runtime.observation.statistics import OperationStatistics
from appbackplane.supervisor.live.sample import Sample, sample_of


def account(*, wait_ns: list[int], run_ns: list[int], cpu_ms: float = 0.0, errors: int = 0) -> dict[str, Any]:
    """Of one operation, as a backplane tells it."""
    kept = OperationStatistics()
    for ns in wait_ns:
        kept.wait.record(ns)
    for ns in run_ns:
        kept.run.record(ns)
    kept.error_count, kept.cpu_ns = errors, round(cpu_ms * 1e6)
    return kept.snapshot(with_buckets=True)


def statistics(
    at_s: float, operations: Mapping[str, dict[str, Any]] | None = None, *, process_ms: float = 0.0, **more: Any
) -> dict[str, Any]:
    """Of one backplane. `more`: ready, throttled, slow, boosts, queued, waiting, requests, running, flows."""
    operations = operations or {}
    ready = more.get("ready", [0] * 8)
    return {
        "at_ns": round(at_s * 1e9),
        "cpu": {"process_ms": process_ms},
        "actions": sum(one["count"] for one in operations.values()),
        "threads": 1,
        "queues": {
            "ready": ready,
            "oldest_ms": [250.0 if depth else None for depth in ready],
            "actions": more.get("queued", 0),
            "waiting": more.get("waiting", 0),
        },
        "components": {"query": {"refused": more.get("throttled", 0)}},
        "slow_actions": more.get("slow", 0),
        "os_priority": {"boosts": more.get("boosts", 0)},
        "operations": operations,
        "requests": more.get("requests", {}),
        "running": more.get("running", []),
        "flows": more.get("flows", {}),
    }


def board(**more: Any) -> dict[str, Any]:
    """What a backplane wrote on the board."""
    nothing = {
        "heartbeat_age": 0.1, "finished": 0, "queued": 0, "waiting": 0, "running_for": None, "cpu": 0.0, "throttled": 0,
        "slow": 0, "boosts": 0,
    }  # fmt: skip
    return {**nothing, **more}


def backplane(name: str, told: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """One entry of the status."""
    entry = {
        "name": name, "replica_of": None, "state": "up",
        "health": "idle", "pid": 100, "generation": 1, "restarts": 0, "since": 60.0,
        "reason": None, "components": {name: "primary"}, "cpu_limit": {"percent": None, "by": None}, "board": board(),
        "statistics": told,
    }  # fmt: skip
    return {**entry, **more}


def look(uptime_s: float, *backplanes: dict[str, Any], pid: int = 7) -> Sample:
    """A whole answer."""
    answer = {
        "system": "demo", "state": "up", "pid": pid, "build": "interpreted", "uptime": uptime_s, "reason": None,
        "backplanes": backplanes,
    }  # fmt: skip
    return sample_of(answer)
