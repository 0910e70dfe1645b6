"""Log line: one log record as a line of JSON; the same in the log ring buffer, in the file and on a screen.

Written by every backplane and by the supervisor, read by `appbackplane logs` and by any reader of JSON lines. Fields with
their default value are left out. Encoding never fails: a value without a JSON form becomes its repr, and text that is too long
is cut, with a note of its length. About 2 us a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

#: Python's levels and their numbers; `--level` accepts these names.
LEVELS: Final[Mapping[str, int]] = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
#: Characters of a message, of a traceback and of a stack: a few pages. More is data, which belongs elsewhere.
TEXT_LENGTH_MAX: Final = 16_384
#: Bytes of a line. One line may never fill a ring buffer, or it would displace all others. A line that is longer, such as one
#: with a message and a traceback of full length and escaped characters, is shortened.
LINE_BYTES_MAX: Final = 65_536
#: Characters of the repr that replaces a value without a JSON form.
WORDS_LENGTH_MAX: Final = 500


class LogLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One log record, or one line of printed output."""

    #: With a time zone: UTC, unless another program wrote the line.
    time: datetime
    level: str
    #: The backplane that wrote it; "supervisor" for the supervisor.
    backplane: str
    message: str
    generation: int = 0
    #: The name of the logger; "" for printed output.
    logger: str = ""
    #: The action that was running when it was logged.
    component: str = ""
    object: str = ""
    route: str = ""
    trace: str = ""
    #: The name of the thread, if it was logged outside an action.
    thread: str = ""
    #: File and line.
    where: str = ""
    #: The traceback of `exc_info`, and the stack of `stack_info`.
    error: str = ""
    stack: str = ""
    #: "stdout" or "stderr", for printed output.
    stream: str = ""
    #: How many lines are missing here.
    lost: int = 0
    #: Python's number of a level without one of the usual names.
    severity: int = 0
    extra: dict[str, Any] = {}

    @property
    def level_number(self) -> int:
        """The number by which levels are compared."""
        return LEVELS.get(self.level, 0) or self.severity


def encode(line: LogLine) -> bytes:
    """The line as JSON, without a newline, shortened to `LINE_BYTES_MAX` bytes. Never fails."""
    try:
        text = _ENCODER.encode(line)
    except Exception:  # encoding a user's object may raise anything
        line = _in_words(line)
        text = _ENCODER.encode(line)
    return text if len(text) <= LINE_BYTES_MAX else _ENCODER.encode(_shortened(_in_words(line)))


def decode(line: bytes) -> LogLine | None:
    """The line; None: it is not a `LogLine`, or only a part of one."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, ValueError):  # ValueError: no UTF-8
        return None


def cut(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """The text, cut to `length_max` characters with a note of its length."""
    return text if len(text) <= length_max else f"{text[:length_max]} (cut: {len(text):,} characters)"


def words_of(value: Any) -> str:
    """The repr of a value, cut to `WORDS_LENGTH_MAX`. Never fails, even if a user's `__repr__` does."""
    try:
        return cut(repr(value), WORDS_LENGTH_MAX)
    except Exception as error:  # the edge: a user's __repr__
        return f"({type(value).__name__}: its __repr__ failed: {type(error).__name__})"


_ENCODER = msgspec.json.Encoder(enc_hook=words_of, decimal_format="string")
_DECODER = msgspec.json.Decoder(LogLine)


def _in_words(line: LogLine) -> LogLine:
    """The same line with every text encodable, and the keys and values of `extra` as text."""
    texts = {name: _clean(value) for name in line.__struct_fields__ if isinstance(value := getattr(line, name), str)}
    extra = {_clean(cut(str(key), WORDS_LENGTH_MAX)): _clean(words_of(value)) for key, value in line.extra.items()}
    return msgspec.structs.replace(line, extra=extra, **texts)


def _shortened(line: LogLine) -> LogLine:
    """The same line with each text cut to a sixth of the bound, counted in escaped characters of six bytes."""
    length = LINE_BYTES_MAX // 6 // 6
    texts = {
        name: cut(value, length) for name in line.__struct_fields__ if isinstance(value := getattr(line, name), str)
    }
    extra = {"left_out": len(line.extra)} if line.extra else {}
    return msgspec.structs.replace(line, extra=extra, **texts)


def _clean(text: str) -> str:
    """Escape lone surrogates, which cannot be encoded as UTF-8."""
    return text.encode(errors="backslashreplace").decode()
