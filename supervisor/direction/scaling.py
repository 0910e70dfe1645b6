"""Scaling: the running configuration with another number of threads or replicas for one table of the TOML. Pure.

What an operator does in need, without the file. Problems are told in the words that the file would get. Replicas beyond the
number go in the order of their own numbers, the last first, so a system that is scaled up and down again is as it was. Names
stay: a group that is scaled down to one keeps `web-1`, and a single process has no number to begin with.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.transport.addressing import backplane_socket
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound

from ..configuration.config import BACKPLANES_MAX, GENERATION_MAX, SOCKET_PATH_BYTES_MAX, BackplaneConfig, Config
from ..configuration.reader import Reader, hint


def scaled(config: Config, backplane: str, threads: Any = None, replicas: Any = None) -> Config:
    """The configuration with `threads` and `replicas`, None: as they are, for one backplane or a group's common name.

    Raises `NotFound`; `InvalidArgument`; `FailedPrecondition` for replicas of a backplane that is a single process.
    """
    alike = config.replicas.get(backplane, (backplane,))
    if not set(alike) <= set(config.backplane):
        raise NotFound(f"no backplane {backplane!r} ({hint(backplane, [*config.backplane, *config.replicas])})")
    check(backplane, threads, replicas)
    if replicas is not None:
        config = _with_replicas(config, backplane, replicas)
        alike = config.replicas[backplane]
    if threads is None:
        return config
    changed = {name: msgspec.structs.replace(config.backplane[name], threads=threads) for name in alike}
    return msgspec.structs.replace(config, backplane={**config.backplane, **changed})


def check(backplane: str, threads: Any, replicas: Any) -> None:
    """Raise `InvalidArgument`, with the message that the TOML would get, for numbers that are none."""
    given = {key: value for key, value in (("threads", threads), ("replicas", replicas)) if value is not None}
    if not given:
        raise InvalidArgument(f"{backplane}: expected a number of threads, of replicas, or both")
    reader = Reader()
    reader.table(BackplaneConfig, {"components": ["scale:Only"], **given}, ("backplane", backplane))
    if reader.problems:
        raise InvalidArgument("\n".join(reader.problems))


def _with_replicas(config: Config, common: str, count: int) -> Config:
    before = config.replicas.get(common)
    if before is None:
        group = config.replica_of.get(common)
        remedy = f"scale {group}" if group else f"set replicas = {count} in {config.file}, and reload"
        raise FailedPrecondition(f"{common} is one process, and keeps its name: {remedy}")
    alike = tuple(f"{common}-{number}" for number in range(1, count + 1))
    like = config.backplane[before[0]]
    kept: dict[str, BackplaneConfig] = {}
    for name, share in config.backplane.items():
        if name == before[0]:
            kept |= {each: msgspec.structs.replace(config.backplane.get(each, like), replicas=count) for each in alike}
        elif name not in before:
            kept[name] = share
    problem = _problem(config, common, alike, len(kept))
    if problem:
        raise InvalidArgument(f"backplane.{common}.replicas: {problem}")
    return msgspec.structs.replace(config, backplane=kept, replicas={**config.replicas, common: alike})


def _problem(config: Config, common: str, alike: tuple[str, ...], count: int) -> str | None:
    others = {name for name in config.backplane if name not in config.replicas[common]} | set(config.replicas)
    for name in alike:
        if name in others:
            return f"{name!r} would be one of them, and is the name of another: rename one"
    if count > BACKPLANES_MAX:
        return f"{count} backplanes, at most {BACKPLANES_MAX} fit on a board"
    socket = backplane_socket(Path(config.run_dir), alike[-1], GENERATION_MAX)
    if len(os.fsencode(socket)) > SOCKET_PATH_BYTES_MAX:
        return f"{socket} is longer than a socket path may be ({SOCKET_PATH_BYTES_MAX} bytes)"
    return None
