"""Salvage: the envelopes of a malformed frame that are in order, and an error for each waiting caller of the others.

One bad envelope must not cost the calls of others that share its batch. The packer lets values pass that the unpacker refuses,
such as 1,022 nested lists. The sizes of values are read here without building them, so the other envelopes are found behind a
bad one. Only used once a frame could not be decoded; it takes some 0.3 us for each value of the frame, 0.3 s at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from . import codec
from .batching import BATCH_BYTES_MAX
from .codec import ENVELOPES_MAX, Frame, head
from .envelope import ARGUMENT_ITEMS, CALL, ITEMS, REPLY, STATUS, Envelope, cancel, status
from .errors import InvalidArgument, MalformedFrame

#: Larger frames hold one envelope (batching.py): only its kind and id are read.
_BATCH_FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + 3
#: By first byte, from 0xC0 to 0xDF: bytes of the length; bytes that follow whatever the length; and what the length counts,
#: 0: bytes, 1: values, 2: pairs. The value 0xC1 does not exist.
_SIZES: Final = {
    0xC0: (0, 0, 0), 0xC2: (0, 0, 0), 0xC3: (0, 0, 0),
    0xC4: (1, 0, 0), 0xC5: (2, 0, 0), 0xC6: (4, 0, 0),
    0xC7: (1, 1, 0), 0xC8: (2, 1, 0), 0xC9: (4, 1, 0),
    0xCA: (0, 4, 0), 0xCB: (0, 8, 0),
    0xCC: (0, 1, 0), 0xCD: (0, 2, 0), 0xCE: (0, 4, 0), 0xCF: (0, 8, 0),
    0xD0: (0, 1, 0), 0xD1: (0, 2, 0), 0xD2: (0, 4, 0), 0xD3: (0, 8, 0),
    0xD4: (0, 2, 0), 0xD5: (0, 3, 0), 0xD6: (0, 5, 0), 0xD7: (0, 9, 0), 0xD8: (0, 17, 0),
    0xD9: (1, 0, 0), 0xDA: (2, 0, 0), 0xDB: (4, 0, 0),
    0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2),
}  # fmt: skip


class Salvaged(NamedTuple):
    """`heard`: envelopes to handle, with a STATUS in the place of each bad answer, and a CANCEL in that of bad items of an
    argument. `refusals`: for the frame's sender.
    """

    heard: list[Envelope]
    refusals: list[Envelope]


def salvage(frame: Frame, decode: Callable[[Any], list[Envelope]] = codec.decode) -> Salvaged:
    """What is in order in a frame that `decode` has refused, and what callers are told instead of the rest."""
    salvaged = Salvaged([], [])
    for part in _parts(frame):
        try:
            salvaged.heard.extend(decode(part))
        except MalformedFrame as error:
            _tell(part, error, salvaged)
    return salvaged


def _tell(part: Frame, error: MalformedFrame, salvaged: Salvaged) -> None:
    kind, id = head(part) or (0, 0)  # 0: neither a call nor an answer
    if kind == CALL:
        refusal = InvalidArgument(f"the call cannot be read: {error.message}")
        salvaged.refusals.append(status(id, refusal, is_refused=True))
    elif kind == REPLY or kind == STATUS or kind == ITEMS:
        salvaged.heard.append(status(id, InvalidArgument(f"the answer cannot be read: {error.message}")))
    elif kind == ARGUMENT_ITEMS:
        refusal = InvalidArgument(f"items of an argument cannot be read: {error.message}")
        salvaged.refusals.append(status(id, refusal))
        salvaged.heard.append(cancel(id))


def _parts(frame: Frame) -> Iterator[Frame]:
    """A frame for each envelope, as far as they are complete."""
    if len(frame) > _BATCH_FRAME_BYTES_MAX:
        yield frame
        return
    data = bytes(frame)
    with suppress(IndexError, KeyError):  # cut off, or not msgpack
        count, at = _batch_header(data)
        for _ in range(count if count <= ENVELOPES_MAX else 0):
            end = _end(data, at)
            yield b"\x91" + data[at:end]
            at = end


def _batch_header(data: bytes) -> tuple[int, int]:
    """The number of envelopes, and where the first begins. Raises as `_end`."""
    if data[0] == 0xDC:
        return int.from_bytes(data[1:3], "big"), 3
    if 0x90 <= data[0] < 0xA0:
        return data[0] & 15, 1
    raise KeyError(data[0])


def _end(data: bytes, at: int) -> int:
    """Where the value ends that begins at `at`. Raises IndexError if it is cut off, KeyError for a byte that begins none."""
    values = 1
    while values:
        first = data[at]
        at += 1
        values -= 1
        if first < 0x80 or first >= 0xE0:  # a small integer
            continue
        if first < 0x90:
            values += 2 * (first & 15)
        elif first < 0xA0:
            values += first & 15
        elif first < 0xC0:
            at += first & 31
        else:
            length_bytes, further, values_each = _SIZES[first]
            length = int.from_bytes(data[at : at + length_bytes], "big")
            at += length_bytes + further + (0 if values_each else length)
            values += values_each * length
    if at > len(data):
        raise IndexError(at)
    return at
