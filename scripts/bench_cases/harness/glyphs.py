"""Glyphs: letters made of lines and arcs, so that a PNG has words in it without a font or a library that draws one.

Each is its width and its strokes, in units of which a capital is six high, y upwards from the base line. A stroke is points,
"x,y x,y …", or part of an ellipse, "@x,y,rx,ry,from,to" in degrees, counter-clockwise if `to` is the greater.
"""

from __future__ import annotations

import math

Point = tuple[float, float]
#: Of a capital.
HEIGHT = 6.0
#: Between two letters, and the width of a blank.
GAP, BLANK = 1.5, 2.2
#: Of an arc, for each step. 15 degrees are not seen as corners at the sizes of a chart.
STEP = 15.0

_BOWL = "@2,2,2,2,0,360"
_HUMP = "0,4 0,0; @1.8,2.2,1.8,1.8,180,0; 3.6,2.2 3.6,0"
_TABLE = {
    "a": (4, f"{_BOWL}; 4,4 4,0"), "b": (4, f"0,6 0,0; {_BOWL}"), "c": (3.5, "@2,2,2,2,45,315"),
    "d": (4, f"4,6 4,0; {_BOWL}"), "e": (4, "0,2 4,2; @2,2,2,2,0,315"),
    "f": (2.4, "@2.2,4.8,1.2,1.2,70,180; 1,4.8 1,0; 0,4 2.4,4"),
    "g": (4, f"{_BOWL}; 4,4 4,-0.2; @2,-0.2,2,1.8,0,-145"), "h": (3.6, "0,6 0,0; @1.8,2.2,1.8,1.8,180,0; 3.6,2.2 3.6,0"),
    "i": (0, "0,4 0,0; 0,5.6 0,5.8"), "j": (1, "1,4 1,-0.8; @0,-0.8,1,1.1,0,-90; 1,5.6 1,5.8"),
    "k": (3.4, "0,6 0,0; 3.2,4 0,1.4; 1.2,2.4 3.4,0"), "l": (0, "0,6 0,0"),
    "m": (6, "0,4 0,0; @1.5,2.5,1.5,1.5,180,0; 3,2.5 3,0; @4.5,2.5,1.5,1.5,180,0; 6,2.5 6,0"), "n": (3.6, _HUMP),
    "o": (4, _BOWL), "p": (4, f"0,4 0,-2; {_BOWL}"), "q": (4, f"4,4 4,-2; {_BOWL}"),
    "r": (2.3, "0,4 0,0; @1.6,2.4,1.6,1.6,180,60"), "s": (2.8, "@1.4,3,1.3,1,30,270; @1.4,1,1.4,1,90,-150"),
    "t": (2.5, "1,5.4 1,1.2; @2.2,1.2,1.2,1.2,180,290; 0,4 2.3,4"),
    "u": (3.6, "0,4 0,1.8; @1.8,1.8,1.8,1.8,180,360; 3.6,4 3.6,0"),
    "v": (3.6, "0,4 1.8,0 3.6,4"), "w": (5.6, "0,4 1.4,0 2.8,4 4.2,0 5.6,4"), "x": (3.4, "0,4 3.4,0; 3.4,4 0,0"),
    "y": (3.6, "0,4 1.8,0; 3.6,4 1.8,0 1,-1.8"), "z": (3.2, "0,4 3.2,4 0,0 3.2,0"),
    "A": (4.6, "0,0 2.3,6 4.6,0; 0.8,2 3.8,2"), "C": (5, "@3,3,3,3,45,315"), "F": (3.2, "0,0 0,6 3.2,6; 0,3.1 2.7,3.1"),
    "I": (0, "0,0 0,6"), "L": (3, "0,6 0,0 3,0"), "N": (4.2, "0,0 0,6 4.2,0 4.2,6"),
    "P": (3.6, "0,0 0,6 2,6; @2,4.4,1.6,1.6,90,-90; 2,2.8 0,2.8"), "T": (4.4, "0,6 4.4,6; 2.2,6 2.2,0"),
    "U": (4.2, "0,6 0,2.1; @2.1,2.1,2.1,2.1,180,360; 4.2,2.1 4.2,6"),
    "0": (3.8, "@1.9,3,1.9,3,0,360"), "1": (1.7, "0,4.8 1.6,6 1.6,0"),
    "2": (3.6, "@1.8,4.2,1.8,1.8,165,-35; 3.27,3.17 0,0 3.6,0"),
    "3": (3.6, "@1.8,4.5,1.6,1.5,150,-90; @1.8,1.5,1.8,1.5,90,-155"), "4": (3.9, "2.9,0 2.9,6 0,1.7 3.9,1.7"),
    "5": (3.6, "3.3,6 0.6,6 0.35,3.1; @1.8,1.9,1.8,1.9,140,-145"), "6": (3.6, "@1.8,1.8,1.8,1.8,0,360; 0.2,2.6 2.4,6"),
    "7": (3.6, "0,6 3.6,6 1.2,0"), "8": (3.6, "@1.8,4.5,1.5,1.5,0,360; @1.8,1.5,1.8,1.5,0,360"),
    "9": (3.6, "@1.8,4.2,1.8,1.8,0,360; 3.4,3.4 1.2,0"),
    ".": (0, "0,0 0,0.2"), ",": (0.6, "0.6,0.3 0,-1.2"), ":": (0, "0,0 0,0.2; 0,3.6 0,3.8"), "-": (2.2, "0,2.4 2.2,2.4"),
    "/": (2.6, "0,-0.8 2.6,6.4"), "(": (1.2, "@2.4,2.6,2.4,4,120,240"), ")": (1.2, "@-1.2,2.6,2.4,4,60,-60"),
    "×": (3, "0,3.6 3,0.6; 3,3.6 0,0.6"), "%": (5, "@1.2,4.8,1.2,1.2,0,360; @3.8,1.2,1.2,1.2,0,360; 0.6,0 4.4,6"),
}  # fmt: skip


def strokes(text: str) -> tuple[float, list[list[Point]]]:
    """The width of a line of text, and the lines that it is drawn with. Raises KeyError for what has no glyph."""
    at, found = 0.0, []
    for letter in text:
        if letter == " ":
            at += BLANK + GAP
            continue
        width, drawn = _TABLE[letter]
        for stroke in drawn.split(";"):
            found.append([(at + x, y) for x, y in _points(stroke.strip())])
        at += width + GAP
    return max(0.0, at - GAP), found


def _points(stroke: str) -> list[Point]:
    if not stroke.startswith("@"):
        return [(float(x), float(y)) for x, y in (point.split(",") for point in stroke.split())]
    x, y, rx, ry, begin, end = map(float, stroke[1:].split(","))
    steps = max(1, round(abs(end - begin) / STEP))
    angles = [math.radians(begin + (end - begin) * step / steps) for step in range(steps + 1)]
    return [(x + rx * math.cos(angle), y + ry * math.sin(angle)) for angle in angles]
