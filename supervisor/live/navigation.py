"""Navigation: the page, order and selection of `top`, and the effect of each key. Pure.

Rows are remembered by name, not by place: the selection stays on its backplane when the order changes or another comes up.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from .columns import SORTS

#: Rows that a page key moves.
PAGE = 10

#: Escape sequences of the keys that are not characters.
_SEQUENCES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\x1b[C": "right", b"\x1bOC": "right",
    b"\x1b[D": "left", b"\x1bOD": "left", b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1b[H": "home",
    b"\x1bOH": "home", b"\x1b[1~": "home", b"\x1b[F": "end", b"\x1bOF": "end", b"\x1b[4~": "end",
}  # fmt: skip
_CHARACTERS = {"\r": "enter", "\n": "enter", "\x7f": "left", "\x08": "left", "k": "up", "j": "down", "h": "?"}


class Navigation(msgspec.Struct, frozen=True):
    """The page, the order and the selection."""

    sort: str = "file"
    #: The backplane whose operations are shown; None: all backplanes.
    opened: str | None = None
    #: Name of the selected row; None: none yet.
    selected: str | None = None
    has_help: bool = False
    #: Only the replicas that share this name; None: all backplanes.
    among: str | None = None


def press(now: Navigation, key: str, names: Sequence[str]) -> Navigation | None:
    """The navigation after a key; None: quit. `names`: the rows, as they are shown."""
    if now.has_help and key != "ctrl-c":
        return replace(now, has_help=False)
    if key in ("q", "ctrl-c"):
        return None
    if key == "?":
        return replace(now, has_help=True)
    if key in ("s", "S"):
        step = 1 if key == "s" else -1
        return replace(now, sort=SORTS[(SORTS.index(now.sort) + step) % len(SORTS)])
    if key in ("esc", "left"):
        return replace(now, opened=None, selected=now.opened) if now.opened is not None else now
    if key in ("enter", "right"):
        if now.opened is None and names:
            return replace(now, opened=now.selected if now.selected in names else names[0], selected=None)
        return now
    steps = {"up": -1, "down": 1, "page up": -PAGE, "page down": PAGE, "home": -len(names), "end": len(names)}
    if key not in steps or not names:
        return now
    # Until something has been selected, the first one is.
    at = (names.index(now.selected) if now.selected in names else 0) + steps[key]
    return replace(now, selected=names[min(len(names) - 1, max(0, at))])


class Keys:
    """Converts a terminal's bytes to keys. Following bytes tell a lone ESC from the beginning of a sequence."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def is_unsure(self) -> bool:
        """Whether the last bytes may begin a sequence."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Keys that are complete; the rest is kept."""
        data, self._rest = self._rest + data, b""
        keys = []
        while data:
            if data[:1] != b"\x1b":
                char, data = chr(data[0]), data[1:]
                keys.append("ctrl-c" if char == "\x03" else _CHARACTERS.get(char, char))
                continue
            sequence = next((one for one in _SEQUENCES if data.startswith(one)), None)
            if sequence is not None:
                keys.append(_SEQUENCES[sequence])
                data = data[len(sequence) :]
            elif any(one.startswith(data) for one in _SEQUENCES):
                self._rest, data = data, b""
            elif data[1:2] in (b"[", b"O"):  # a key that we do not know: up to its last byte
                end = next((at for at in range(2, len(data)) if 0x40 <= data[at] <= 0x7E), len(data) - 1)
                data = data[end + 1 :]
            else:
                keys.append("esc")
                data = data[1:]
        return keys

    def settle(self) -> list[str]:
        """No bytes followed: a kept ESC is a key of its own."""
        rest, self._rest = self._rest, b""
        return ["esc"] if rest == b"\x1b" else []
