"""Log line: what is kept of one thing that was said, as one line of JSON; the same in the ring, in the file and on a screen.

Written by every backplane and by the supervisor, read by `appbackplane logs` and by whatever else reads JSON lines. What is
not known is left out. Encoding never fails: what has no place in JSON is said in words, what is too long is cut, and says so.
About 2 us a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

#: Python's, by number: what `--level` takes.
LEVELS: Final[Mapping[str, int]] = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
#: Characters of a message, of a traceback and of a stack: a page or two. More is data, which belongs elsewhere.
TEXT_LENGTH_MAX: Final = 16_384
#: Bytes of a line: a message, a traceback and what else was said, all as long as they may be, with every character escaped.
#: One line may never fill a ring, or those behind it would be lost for it.
LINE_BYTES_MAX: Final = 65_536
#: Of a field's value that has no place in JSON, and is said in words.
WORDS_LENGTH_MAX: Final = 500


class LogLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing that was said."""

    #: With its zone: UTC, unless somebody else has written it.
    time: datetime
    level: str
    #: Which one said it; "supervisor" for itself.
    backplane: str
    message: str
    generation: int = 0
    #: The name of the logger; "" for what was printed.
    logger: str = ""
    #: Of the action in which it was said.
    component: str = ""
    object: str = ""
    route: str = ""
    trace: str = ""
    #: Of the thread, where it was said outside an action.
    thread: str = ""
    #: File and line.
    where: str = ""
    #: The traceback of `exc_info`, and the stack of `stack_info`.
    error: str = ""
    stack: str = ""
    #: "stdout" or "stderr", for what was printed.
    stream: str = ""
    #: How many lines are missing here.
    lost: int = 0
    #: Python's number of a level that has none of the usual names.
    severity: int = 0
    extra: dict[str, Any] = {}

    @property
    def level_number(self) -> int:
        """By which levels are compared."""
        return LEVELS.get(self.level, 0) or self.severity


def encode(line: LogLine) -> bytes:
    """As JSON, without a newline; at most `LINE_BYTES_MAX` bytes."""
    try:
        text = _ENCODER.encode(line)
    except Exception:  # whatever a user's object makes of being encoded
        line = _in_words(line)
        text = _ENCODER.encode(line)
    return text if len(text) <= LINE_BYTES_MAX else _ENCODER.encode(_shortened(_in_words(line)))


def decode(line: bytes) -> LogLine | None:
    """None: it is no line of ours, or only a part of one."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, ValueError):  # ValueError: no UTF-8
        return None


def cut(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """As much of it as is kept."""
    return text if len(text) <= length_max else f"{text[:length_max]} (cut: {len(text):,} characters)"


def words_of(value: Any) -> str:
    """What a value is called; asking a user's object may fail."""
    try:
        return cut(repr(value), WORDS_LENGTH_MAX)
    except Exception as error:  # the edge: a user's __repr__
        return f"({type(value).__name__}: its __repr__ failed: {type(error).__name__})"


_ENCODER = msgspec.json.Encoder(enc_hook=words_of, decimal_format="string")
_DECODER = msgspec.json.Decoder(LogLine)


def _in_words(line: LogLine) -> LogLine:
    """Everything that may be strange is text that can be written."""
    texts = {name: _clean(value) for name in line.__struct_fields__ if isinstance(value := getattr(line, name), str)}
    extra = {_clean(cut(str(key), WORDS_LENGTH_MAX)): _clean(words_of(value)) for key, value in line.extra.items()}
    return msgspec.structs.replace(line, extra=extra, **texts)


def _shortened(line: LogLine) -> LogLine:
    """A third for each text: escaped, a character may be six bytes."""
    length = LINE_BYTES_MAX // 6 // 6
    texts = {
        name: cut(value, length) for name in line.__struct_fields__ if isinstance(value := getattr(line, name), str)
    }
    extra = {"left_out": len(line.extra)} if line.extra else {}
    return msgspec.structs.replace(line, extra=extra, **texts)


def _clean(text: str) -> str:
    """Half of a pair of surrogates is no character."""
    return text.encode(errors="backslashreplace").decode()
