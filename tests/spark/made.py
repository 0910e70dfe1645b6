"""Segments made without a backplane: from columns, byte for byte what a recorder writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.segments import (
    CHECK_WORD,
    FIELDS,
    NO_DEADLINE,
    SALT,
    SHIFTED,
    WORDS,
    SegmentHeader,
)

#: 2026-01-01, Unix time.
EPOCH_NS = 1_767_225_600_000_000_000


def words_of(count: int, columns: Mapping[str, Any]) -> np.ndarray:
    """`count` records as an array (count, 13) of signed words; what is not in `columns` is 0, `margin` no deadline."""
    words = np.zeros((count, WORDS), dtype=np.int64)
    for name, field in FIELDS.items():
        values = np.asarray(columns.get(name, NO_DEADLINE if name == "margin" else 0), dtype=np.int64)
        if field.bits == 64:
            words[:, field.word] = values
        else:
            words[:, field.word] |= (values & ((1 << field.bits) - 1)) << field.shift
    check = np.bitwise_xor.reduce(words[:, :CHECK_WORD], axis=1)
    for word, bits in SHIFTED:
        check ^= (words[:, word].astype(np.uint64) >> np.uint64(bits)).astype(np.int64)
    words[:, CHECK_WORD] = check ^ np.arange(count) ^ SALT
    return words


def write_actions(
    run_dir: Path,
    backplane: str,
    number: int,
    words: np.ndarray,
    names: Sequence[tuple[str, str]],
    *,
    room: int = 0,
    sealed: bool = False,
    **header: Any,
) -> Path:
    """A segment of actions with room for `room` more records. `names`: (component, name) by number."""
    folder = segments.actions_folder(run_dir, backplane)
    folder.mkdir(parents=True, exist_ok=True)
    whose = {"kind": "actions", "system": "made", "node": "here", "generation": 1, "pid": 1, "created_ns": EPOCH_NS}
    head = bytearray(segments.pack_header(SegmentHeader(**{**whose, **header}, backplane=backplane, number=number)))
    if sealed:
        head[segments.SEAL_OFFSET : segments.SEAL_OFFSET + 8] = len(words).to_bytes(8, "little")
    head += bytes(segments.HEADER_BYTES - len(head))
    head += b"".join(segments.pack_name(component, name) for component, name in names)
    assert len(head) <= segments.NAMES_END, "more names than fit into a segment"
    head += bytes(segments.NAMES_END - len(head))
    path = folder / segments.file_name(number, segments.ACTIONS_SUFFIX)
    path.write_bytes(bytes(head) + words.tobytes() + bytes(room * segments.RECORD_BYTES))
    return path


def traffic(
    count: int, *, seed: int = 1, operations: int = 8, objects: int = 50, per_s: float = 1000.0
) -> dict[str, Any]:
    """Columns of `count` actions as of a busy system, for `words_of`: operations are names 0 to `operations` - 1."""
    random = np.random.default_rng(seed)
    operation = random.integers(0, operations, count)
    run = random.lognormal(11.0, 1.5, count).astype(np.int64)
    return {
        "start": EPOCH_NS + np.cumsum(random.exponential(1e9 / per_s, count)).astype(np.int64),
        "wait": random.lognormal(10.0, 2.0, count).astype(np.int64),
        "run": run,
        "cpu": (run * random.uniform(0.2, 1.0, count)).astype(np.int64),
        "took": run,
        "margin": np.where(random.random(count) < 0.5, random.integers(-(10**7), 10**10, count), NO_DEADLINE),
        "span": np.arange(count) + 1,
        "trace_low": np.arange(count) + 1,
        "operation": operation,
        "object": operations + random.integers(0, objects, count),
        "priority": operation % 8,
        "effective": np.maximum(0, operation % 8 - (random.random(count) < 0.05)),
        "outcome": np.where(random.random(count) < 0.01, 13, 0),
        "boosted": 0,
    }


def names_of(operations: int = 8, objects: int = 50) -> list[tuple[str, str]]:
    """Names for `traffic`."""
    return [(f"part{n % 3}", f"part{n % 3}.work{n}") for n in range(operations)] + [
        (f"part{n % 3}", f"part{n % 3}/object-{n}") for n in range(objects)
    ]


def write_messages(
    run_dir: Path,
    backplane: str,
    topic: str,
    number: int,
    bodies: Sequence[bytes],
    *,
    room: int = 0,
    sealed: bool = False,
    **header: Any,
) -> Path:
    """A segment of recorded messages, a millisecond between them, with `room` bytes for more."""
    folder = segments.messages_folder(run_dir, backplane, topic)
    folder.mkdir(parents=True, exist_ok=True)
    whose = {"kind": "messages", "system": "made", "node": "here", "generation": 1, "pid": 1, "created_ns": EPOCH_NS}
    told = SegmentHeader(**{**whose, **header}, backplane=backplane, number=number, topic=topic)
    head = bytearray(segments.pack_header(told).ljust(segments.HEADER_BYTES, b"\0"))
    if sealed:
        head[segments.SEAL_OFFSET : segments.SEAL_OFFSET + 8] = len(bodies).to_bytes(8, "little")
    path = folder / segments.file_name(number, segments.MESSAGES_SUFFIX)
    messages = [segments.pack_message(n, EPOCH_NS + n * 1_000_000, body) for n, body in enumerate(bodies)]
    path.write_bytes(bytes(head) + b"".join(messages) + bytes(room))
    return path
