"""Line: a line of a view as pieces of text, each with its style. Pure, and knows no terminal.

Styles are few words (`STYLES`), so that the views say what something is and one table says how that looks. What comes from
outside (names, last words of a process) passes through `clean`: an escape sequence in it would otherwise reach the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Text and its style.
Piece = tuple[str, str]
Line = tuple[Piece, ...]

#: What the words mean on a terminal that has colours (rich's syntax). Calm: what is as it should be has none.
STYLES = {
    "": "",
    "quiet": "dim",
    "title": "bold",
    "heading": "dim",
    "bar": "cyan",
    "warn": "yellow",
    "bad": "bold red",
    "selected": "reverse",
    "key": "bold",
}


def text(line: Line) -> str:
    """Without its styles."""
    return "".join(piece for piece, _ in line)


def clean(words: str) -> str:
    """On one line, and without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in words)


def fit(line: Line, width: int, *, is_right: bool = False) -> Line:
    """Exactly `width` wide: padded, or cut with an ellipsis."""
    length = sum(len(piece) for piece, _ in line)
    if length <= width:
        padding: Line = ((" " * (width - length), ""),) if length < width else ()
        return (*padding, *line) if is_right else (*line, *padding)
    kept: list[Piece] = []
    left = width - 1
    for piece, style in line:
        kept.append((piece[:left], style))
        left -= len(piece)
        if left <= 0:
            break
    return (*kept, ("…", "quiet")) if width > 0 else ()


def ends(left: Line, right: Line, width: int) -> Line:
    """One at each end of the line; where there is no room for both, the left one."""
    room = width - sum(len(piece) for piece, _ in right)
    if room < sum(len(piece) for piece, _ in left) + 2:
        return fit(left, width)
    return (*fit(left, room), *right)


def joined(pieces: Iterable[Line], between: str = "  ") -> Line:
    """Side by side."""
    result: list[Piece] = []
    for number, line in enumerate(pieces):
        if number:
            result.append((between, ""))
        result += line
    return tuple(result)


def restyled(line: Line, style: str) -> Line:
    """All of it in one style."""
    return tuple((piece, style) for piece, _ in line)
