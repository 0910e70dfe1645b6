"""Log text: a line of the log as a person reads it, in colour on a terminal. Pure.

Log data may hold anything: control characters are escaped, so that a terminal obeys none of them. Further lines of a message,
a traceback and a stack are indented, so that a line that begins at the margin is always a line of the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import tzinfo

from appbackplane.runtime.observation.log_line import LogLine

_RESET, _DIM = "\x1b[0m", "\x1b[2m"
_COLOURS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}
#: Control characters of both sets, to their escapes; the tab is none.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0))}
_LEVEL_WIDTH = len("CRITICAL")


def shown(line: LogLine, *, in_colour: bool = False) -> list[str]:
    """The form of `up`, beside the backplane's name: no time, because it is now."""
    words = _said(line)
    head = f"{line.level} {line.logger}: {words[0]}" if line.logger else words[0]
    return [_coloured(text, line.level, in_colour) for text in (head, *_below(line, words, ""))]


def told(line: LogLine, zone: tzinfo | None = None, *, name_width: int = 0, in_colour: bool = False) -> list[str]:
    """The form of `logs`: time, level, backplane, message. `zone`: the reader's; None: this machine's."""
    words = _said(line)
    time = _plain(line.time.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3])
    level = f"{_plain(line.level):<{_LEVEL_WIDTH}}"
    who = f"{_plain(line.backplane):<{name_width}}"
    source = f"{_plain(line.logger or line.stream)}: " if line.logger or line.stream else ""
    about = " ".join(filter(None, (line.route, line.object and f"on {line.object}")))
    if not in_colour:
        head = f"{time} {level} {who} {source}{words[0]}{_plain(about and f' ({about})')}"
        return [head.rstrip(), *_below(line, words, "    ")]
    colour = _COLOURS.get(line.level, "")
    head = (
        f"{_DIM}{time}{_RESET} {colour}{level}{_RESET} {who} {_DIM}{source}{_RESET}{colour}{words[0]}{_RESET}"
        f"{_DIM}{_plain(about and f' ({about})')}{_RESET}"
    )
    return [head, *(_coloured(text, line.level, in_colour) for text in _below(line, words, "    "))]


def _said(line: LogLine) -> list[str]:
    """Lines of the message, the first with its extra fields."""
    first, *more = [_plain(text) for text in line.message.split("\n")]
    fields = " ".join(f"{_plain(str(key))}={_plain(_value(value))}" for key, value in line.extra.items())
    return [f"{first} {fields}".strip() if fields else first, *more]


def _below(line: LogLine, words: list[str], indent: str) -> Iterator[str]:
    for text in words[1:]:
        yield indent + text
    for part in (line.error, line.stack):
        for text in part.split("\n") if part else ():
            yield indent + _plain(text)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _coloured(text: str, level: str, in_colour: bool) -> str:
    colour = _COLOURS.get(level, "") if in_colour else ""
    return f"{colour}{text}{_RESET}" if colour else text


def _plain(text: str) -> str:
    return text.translate(_CONTROLS)
