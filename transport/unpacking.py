"""Unpacking: the bytes of a frame to values of Python, within bounds of work.

A frame of 16 MiB of empty lists takes seconds to build and a gigabyte to hold, and who serves many peers would serve none
meanwhile. So lists and maps in large frames are counted while they are built. An honest frame up to 1 MiB costs nothing more.
Frames of other hosts have tighter bounds, also for keys that are made to collide (foreign_frames.py).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgpack

from .errors import MalformedFrame

#: For larger frames the garbage collector is off: decoded values hold no cycles, and scanning for them while half a million
#: lists were built, at each growth by a quarter, took 0.7 s of 0.8.
COLLECTED_BYTES: Final = 64 << 10
#: In frames up to this size lists are not counted: the worst, 1 MiB of empty lists, takes 0.2 s. No batch is larger
#: (batching.py), so a refused frame holds one message, and its caller can be told (codec.head).
UNCOUNTED_BYTES: Final = (1 << 20) + 16
#: Lists, maps and extension values in one frame, and names in all its maps: 0.4 s if they are empty.
VALUES_MAX: Final = 1 << 21
#: msgpack's mode for timestamps: seconds, as a float. As nanoseconds a timestamp is an integer of up to 92 bits, where
#: others have 64: a call with such an id runs, and no answer to it can be packed. As objects, a frame of them took 2.5 s. This
#: product sends no timestamps.
SECONDS: Final = 1


class TooComplicated(MalformedFrame):
    """A frame exceeds a bound of work. `between`: the bound is that between hosts."""

    def __init__(self, what: str, limit: int, between: str = "") -> None:
        super().__init__(
            f"{between}one message holds at most {limit:,} {what}: send what is more as text or bytes, as plain lists,"
            f" or in several messages"
        )


def unpacked(frame: bytes | memoryview) -> Any:
    """The value of these bytes. Raises `TooComplicated`, and whatever msgpack raises for others."""
    # Arrays and maps may have no more elements than the frame has bytes: unpackb's own default.
    if len(frame) > COLLECTED_BYTES:
        with uncollected():
            return _counted(frame)
    try:
        return msgpack.unpackb(frame, strict_map_key=False, ext_hook=extension, timestamp=SECONDS)
    except TypeError:  # a key packed from a tuple: no envelope that `encode` accepts may spoil its batch
        return _unpack(frame, is_text=False)


def _counted(frame: bytes | memoryview) -> Any:
    try:
        return _unpack(frame, is_text=True)
    except ValueError as error:
        if "strict_map_key" not in str(error):
            raise
    return _unpack(frame, is_text=False)


def _unpack(frame: bytes | memoryview, *, is_text: bool) -> Any:
    """`is_text`: keys are text or bytes, and others fail with a `ValueError`."""
    counter = _Counter() if len(frame) > UNCOUNTED_BYTES else None
    hooks: dict[str, Any] = {"ext_hook": extension}
    if counter is not None:
        hooks = {"ext_hook": counter.extension, "list_hook": counter.listed}
    if not is_text:
        hooks["object_pairs_hook"] = _with_tuples_for_keys if counter is None else counter.paired
    elif counter is not None:
        hooks["object_hook"] = counter.mapped
    return msgpack.unpackb(frame, strict_map_key=is_text, timestamp=SECONDS, **hooks)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector. With two threads at once, the second leaves turning it on again to the first."""
    is_on = gc.isenabled()
    try:
        gc.disable()  # a signal's exception may strike at once
        yield
    finally:
        if is_on:
            gc.enable()


def extension(code: int, data: bytes) -> Any:
    """Hook for msgpack: an extension value of a body arrives as it was sent, an `msgpack.ExtType`.

    The packer packs one whatever we do, so refusing it here would cost the whole batch. `ExtType(code, data)` checks what
    msgpack has checked already, and takes three times as long.
    """
    return tuple.__new__(msgpack.ExtType, (code, data))


def as_key(key: Any) -> Any:
    """A key as it was before packing: lists become tuples."""
    if type(key) is dict:  # a frozen dataclass was the key
        return tuple((name, as_key(value)) for name, value in key.items())
    return tuple(map(as_key, key)) if type(key) is list else key


def _with_tuples_for_keys(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {as_key(key): value for key, value in pairs}


class _Counter:
    """Hooks for msgpack, which count the values of one frame."""

    def __init__(self) -> None:
        self._values = 0

    def listed(self, value: list[Any]) -> list[Any]:
        self._count(1)
        return value

    def mapped(self, value: dict[Any, Any]) -> dict[Any, Any]:
        self._count(1 + len(value))
        return value

    def paired(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._count(1 + len(pairs))
        return _with_tuples_for_keys(pairs)

    def extension(self, code: int, data: bytes) -> Any:
        self._count(1)
        return extension(code, data)

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > VALUES_MAX:
            raise TooComplicated("lists, maps, extension values and names in maps", VALUES_MAX)
