"""Foreign frames: decode frames from another host within bounds of work, not of bytes alone.

A frame of 16 MiB of empty lists takes seconds to build and a gigabyte to hold; one of keys made to collide takes hours. The
thread that serves all peers would serve nobody meanwhile. So lists, maps, names in maps, and keys whose hash the sender
chooses are counted while they are built, each before the next. Lists of plain values and blobs are bounded by the frame's
bytes, as everywhere (codec.py). An honest frame up to 1 MiB costs nothing more, a larger one a fifth. Maps in large frames,
and maps with keys that are not text, are built by hand, at 0.5 us a name. Between processes of one host the bounds
are wider (unpacking.py).
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

from . import codec
from .envelope import Envelope
from .errors import MalformedFrame
from .unpacking import COLLECTED_BYTES, SECONDS, UNCOUNTED_BYTES, TooComplicated, as_key, extension, uncollected

#: Lists, maps and extension values in one frame: 0.1 s if they are empty, 0.3 s as records of 45 bytes, which fill a frame of
#: 16 MiB.
CONTAINERS_MAX: Final = 524_288
#: Names in all maps of a frame: 0.25 s if no two are the same; a million took 0.7 s.
NAMES_MAX: Final = 524_288
#: Keys that are neither text nor bytes. The sender chooses their hashes, and each of n keys that follow the same probe
#: sequence takes n steps: 16,384 cost 0.1 s, and a million an hour.
CHOSEN_KEYS_MAX: Final = 16_384
#: Keys of one map with the very same hash: -1 and -2 have it, and so do eight points of a grid in space.
SAME_HASH_MAX: Final = 8
#: Longer lists, and deeper values, are left to msgpack, whose maps are counted only when complete. None of these may be
#: wider than WIDTH_MAX, or a few open ones would hold names not counted yet. A longer list of maps that are all wider has
#: more than `NAMES_MAX` names.
BY_HAND_LENGTH_MAX: Final = 512
BY_HAND_DEPTH_MAX: Final = 32
WIDTH_MAX: Final = NAMES_MAX // BY_HAND_LENGTH_MAX
#: First bytes of lists and maps.
_CONTAINERS: Final = frozenset((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
_BETWEEN: Final = "between hosts "


def decode(frame: bytes) -> list[Envelope]:
    """As `codec.decode`, for frames of another host. Raises `MalformedFrame`: `TooComplicated` beyond the bounds."""
    if len(frame) > codec.FRAME_BYTES_MAX:
        raise MalformedFrame(f"frame of {len(frame):,} bytes, limit {codec.FRAME_BYTES_MAX:,}")
    try:
        if len(frame) <= COLLECTED_BYTES:
            return codec.checked(_unpacked(frame))
        with uncollected():
            return codec.checked(_unpacked(frame))
    except MalformedFrame:
        raise
    except Exception as error:  # the edge: msgpack may raise anything, and the peer is at fault
        raise MalformedFrame(f"not msgpack: {type(error).__name__}: {error}") from error


def _unpacked(frame: bytes) -> Any:
    try:
        if len(frame) <= UNCOUNTED_BYTES:
            return msgpack.unpackb(frame, strict_map_key=True, ext_hook=extension, timestamp=SECONDS)
        return _Reader(frame, is_text=True).read()
    except ValueError as error:
        if "strict_map_key" not in str(error):
            raise
    return _Reader(frame, is_text=False).read()


class _Reader:
    """Decodes one frame, and counts as it goes."""

    def __init__(self, frame: bytes, *, is_text: bool) -> None:
        """`is_text`: keys are text or bytes; others fail with a `ValueError`."""
        self._frame = frame
        self._containers = self._names = self._chosen = 0
        hook = {"object_hook": self._made} if is_text else {"object_pairs_hook": self._named}
        self._unpacker: Any = msgpack.Unpacker(
            strict_map_key=is_text, ext_hook=self._extension, timestamp=SECONDS, max_map_len=WIDTH_MAX,
            max_buffer_size=len(frame), list_hook=self._listed, **hook,
        )  # fmt: skip
        self._unpacker.feed(frame)

    def read(self) -> Any:
        """The decoded value. Raises `MalformedFrame`, or a `ValueError` of msgpack's."""
        try:
            value = self._value(0)
            if self._unpacker.tell() != len(self._frame):
                raise MalformedFrame("a frame holds one batch and nothing behind it")
            return value
        except ValueError as error:
            if "max_map_len" in str(error):
                raise TooComplicated(
                    "names in a map that is in a list of more than 512", WIDTH_MAX, _BETWEEN
                ) from error
            raise
        finally:
            self._unpacker = None  # the hooks are our methods: a reference cycle, with a copy of the frame in it

    def _value(self, depth: int) -> Any:
        unpacker = self._unpacker
        at = unpacker.tell()
        head = self._frame[at]
        if depth < BY_HAND_DEPTH_MAX and head >= 0x80:
            if head < 0x90 or 0xDE <= head <= 0xDF:
                return self._wide(unpacker.read_map_header(), depth)
            if head < 0xA0 or 0xDC <= head <= 0xDD:
                length = head & 15
                if head >= 0xDC:
                    length = int.from_bytes(self._frame[at + 1 : at + (3 if head == 0xDC else 5)])
                if length <= BY_HAND_LENGTH_MAX:
                    self._count(0)
                    return [self._value(depth + 1) for _ in range(unpacker.read_array_header())]
        return unpacker.unpack()

    def _wide(self, width: int, depth: int) -> dict[Any, Any]:  # hot: a name a step
        self._count(width)
        unpack, tell, frame = self._unpacker.unpack, self._unpacker.tell, self._frame
        pairs = []
        for _ in range(width):
            key = unpack()
            is_plain = frame[tell()] not in _CONTAINERS
            pairs.append((key, unpack() if is_plain else self._value(depth + 1)))
        return self._dict(pairs)

    def _count(self, names: int) -> None:
        self._containers += 1
        if self._containers > CONTAINERS_MAX:
            raise TooComplicated("lists, maps and extension values", CONTAINERS_MAX, _BETWEEN)
        self._names += names
        if self._names > NAMES_MAX:
            raise TooComplicated("names in its maps", NAMES_MAX, _BETWEEN)

    def _extension(self, code: int, data: bytes) -> Any:
        self._count(0)
        return extension(code, data)

    def _listed(self, value: list[Any]) -> list[Any]:
        self._count(0)
        return value

    def _made(self, value: dict[Any, Any]) -> dict[Any, Any]:
        self._count(len(value))
        return value

    def _named(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._count(len(pairs))
        return self._dict(pairs)

    def _dict(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        chosen = sum(type(key) is not str and type(key) is not bytes for key, _ in pairs)
        if chosen:
            self._chosen += chosen
            if self._chosen > CHOSEN_KEYS_MAX:
                raise TooComplicated("keys that are neither text nor bytes", CHOSEN_KEYS_MAX, _BETWEEN)
            pairs = [(as_key(key), value) for key, value in pairs]
            hashes = sorted(
                hash(key) for key, _ in pairs
            )  # sorted, and in no table: the keys may be made to slow one down
            if any(map(int.__eq__, hashes, hashes[SAME_HASH_MAX:])):
                raise TooComplicated("keys with the same hash in one map", SAME_HASH_MAX, _BETWEEN)
        return dict(pairs)
