"""Line: a line of a view as pieces of text, each with its style. Pure, and independent of any terminal.

Styles are few words (`STYLES`): views name a meaning, and one table gives its look. Data from outside (names, last words of
a process) passes through `clean`: an escape sequence in it would otherwise reach the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Text and its style.
Piece = tuple[str, str]
Line = tuple[Piece, ...]

#: Look of each style on a terminal with colours (rich's syntax). Calm: the normal state has none.
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
    """The line's text without styles."""
    return "".join(piece for piece, _ in line)


def clean(words: str) -> str:
    """`words` on one line, with a blank for each character that a terminal would obey."""
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
    """`left` and `right` at the ends of a line; without room for both, `left` alone."""
    room = width - sum(len(piece) for piece, _ in right)
    if room < sum(len(piece) for piece, _ in left) + 2:
        return fit(left, width)
    return (*fit(left, room), *right)


def joined(pieces: Iterable[Line], between: str = "  ") -> Line:
    """Lines side by side, as one."""
    result: list[Piece] = []
    for number, line in enumerate(pieces):
        if number:
            result.append((between, ""))
        result += line
    return tuple(result)


def restyled(line: Line, style: str) -> Line:
    """The whole line in one style."""
    return tuple((piece, style) for piece, _ in line)
