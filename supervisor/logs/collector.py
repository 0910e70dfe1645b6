"""Log collector: gathers every line of a system into the log and, in the foreground, onto the terminal.

Three sources: log rings of the components (a ring each, watch.py), output of the processes (two pipes each, pipes.py), and
lines of the supervisor itself. Nothing here blocks: a full ring, a full disk and a stopped terminal lose lines, which are
counted and reported. Lines of a ring are written unchanged; they are decoded only to be shown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from appbackplane.runtime.execution.logs.log_ring import RingReader
from appbackplane.runtime.observation.log_line import LogLine, decode, encode
from appbackplane.transport.addressing import RUN_LINK, SUPERVISOR
from appbackplane.transport.errors import FailedPrecondition

from ..configuration.config import Config
from .file import LogFile
from .folder import LINK, NAMES, check, default_folder
from .output import Output
from .pipes import LogPipe
from .text import shown
from .watch import LogWatch

#: Marks of lines that may tell why a process died.
_ERRORS = (b'"level":"ERROR"', b'"level":"CRITICAL"')
#: An older line does not explain a death.
_LAST_WORDS_NS = 10_000_000_000
#: Length of the last words, which stand in a sentence that a person reads.
LAST_WORDS_MAX = 500
_LOGGER = "appbackplane.log"
#: Printed lines have no level; those on standard error are most often trouble.
_PRINTED_AS = {"stdout": "INFO", "stderr": "WARNING"}


def folder_of(config: Config) -> Path:
    """Folder of this system's log."""
    given = config.system.log.dir
    if given is not None:
        return Path(config.import_dir) / Path(given).expanduser()
    return default_folder(config.system.name, Path(config.run_dir))


def check_folder(config: Config) -> None:
    """Raises `FailedPrecondition` where the system's log could not be written. Makes nothing."""
    folder, link = folder_of(config), Path(config.run_dir) / LINK
    if os.path.abspath(folder) == os.path.abspath(link):
        raise FailedPrecondition(
            f"log folder {folder}: the run directory has a link to the log there: choose another `dir`"
        )
    check(folder)


def open_log(config: Config) -> LogFile:
    """Open the system's log file, and link to its folder. Raises `FailedPrecondition`."""
    check_folder(config)
    system, run_dir, folder = config.system, Path(config.run_dir), folder_of(config)
    file = LogFile(folder, system.log.file_size, system.log.files)
    usual = default_folder(system.name, run_dir)
    with suppress(OSError):  # only for `logs` of a system that is down and known by name alone
        if folder.resolve() != usual.resolve():
            usual.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _link(usual, folder)
    with suppress(OSError):  # only for users whose environment leads to another run directory
        _link(folder / RUN_LINK, run_dir)
    _link(run_dir / LINK, folder)
    return file


@dataclass(slots=True)
class Ears:
    """The ring, the pipes and the last words of one process."""

    backplane: str
    generation: int
    ring: RingReader
    watch: LogWatch
    pipes: tuple[tuple[str, LogPipe], ...] = ()
    #: Last line that may tell of an error, and when it came; last line on standard output.
    words: str = ""
    words_ns: int = 0
    printed: str = ""


class Logs:
    """Collects all lines of one system."""

    def __init__(self, config: Config, file: LogFile, output: Output | None, now_ns: Callable[[], int]) -> None:
        """`output`: shows lines; None: none are shown."""
        self._file, self._output, self._now_ns = file, output, now_ns
        self._in_colour = output is not None and output.is_terminal and "NO_COLOR" not in os.environ
        self._ring_bytes = config.system.log.ring
        self._name_width = max(len(name) for name in (SUPERVISOR, *config.backplane))
        self._ears: dict[str, Ears] = {}
        #: Backplane to (lines that found room in its ring, lines that did not), of its dead generations.
        self._before: dict[str, tuple[int, int]] = {}
        self._names: dict[str, list[str]] = {name: [] for name in config.backplane}
        self._told_unwritten = 0
        self._is_refused = False

    def configure(self, config: Config) -> None:
        """Apply new settings; a new ring size holds for processes spawned from now on."""
        settings = config.system.log
        self._ring_bytes = settings.ring
        self._file.keep(settings.file_size, settings.files)
        self._name_width = max(len(name) for name in (SUPERVISOR, *config.backplane))
        self._names = {name: self._names.get(name, []) for name in config.backplane}

    # Sources

    def listen(self, backplane: str, generation: int) -> Ears:
        """Make the ring of a process that is about to be spawned and inherits its descriptors. Raises OSError."""
        ring = RingReader(self._ring_bytes)
        self._ears[backplane] = ears = Ears(backplane, generation, ring, LogWatch(ring, self._now_ns()))
        return ears

    def know(self, backplane: str, components: Iterable[str]) -> None:
        """Note the components of a backplane, so that `logs` can report an unknown name."""
        if self._names.get(backplane) != (components := list(components)):
            self._names[backplane] = components
            with suppress(OSError):  # a full disk is reported elsewhere; without this file, a wrong name is not
                self._file.put(NAMES, json.dumps(self._names).encode())

    def forget(self, ears: Ears) -> None:
        """The process was not spawned: close its ring."""
        del self._ears[ears.backplane]
        ears.ring.close()

    def bury(self, ears: Ears) -> str:
        """The process is dead: take its remaining lines, and return its last words."""
        now_ns = self._now_ns()
        for raws in ears.watch.rest():
            self._take(ears, raws, now_ns)
        self._tell_lost(ears, ears.watch.unreported, now_ns)
        for stream, pipe in ears.pipes:
            self._printed(ears, stream, pipe.finish())
        written, lost = self._before.get(ears.backplane, (0, 0))
        self._before[ears.backplane] = (written + ears.ring.written_count, lost + ears.ring.lost_count)
        del self._ears[ears.backplane]
        ears.ring.close()
        return ears.words if ears.words and now_ns - ears.words_ns < _LAST_WORDS_NS else ears.printed

    # Lines

    def on_print(self, ears: Ears, stream: str, pipe: LogPipe) -> bool:
        """Read printed lines. False: the pipe is closed, and there will be no more."""
        lines = pipe.read()
        self._printed(ears, stream, lines or [])
        return lines is not None

    def say(self, text: str, level: str = "INFO") -> None:
        """Log and show a line of the supervisor itself."""
        line = LogLine(time=_now(), level=level, backplane=SUPERVISOR, message=text)
        self._keep([encode(line)])
        self._show(SUPERVISOR, text.split("\n"))

    def turn(self, now_ns: int) -> None:
        """Read the rings that are due, and write waiting output."""
        for ears in self._ears.values():
            if ears.watch.look_at_ns is not None and ears.watch.look_at_ns <= now_ns:
                self._take(ears, ears.watch.look(now_ns), now_ns)
                self._tell_lost(ears, ears.watch.newly_lost(now_ns), now_ns)
        if self._output is not None:
            self._output.write()

    def next_wake_ns(self) -> int | None:
        """When `turn` is due next; None: no ring is."""
        due = [ears.watch.look_at_ns for ears in self._ears.values() if ears.watch.look_at_ns is not None]
        return min(due, default=None)

    def waits_for_fd(self) -> int | None:
        """Descriptor of the output, while lines wait for room in it."""
        return self._output.fd if self._output else None

    def describe(self, backplane: str) -> dict[str, Any]:
        """For a backplane's status: its lines since the system came up."""
        written, lost = self._before.get(backplane, (0, 0))
        if (ears := self._ears.get(backplane)) is not None:
            written, lost = written + ears.ring.written_count, lost + ears.ring.lost_count
        return {"log": {"lines": written, "lost": lost}}

    def describe_file(self) -> dict[str, Any]:
        """For the status: the log folder, the unwritten lines, and why they are."""
        return {
            "folder": str(self._file.folder),
            "unwritten": self._file.lost_count,
            "problem": self._file.problem or None,
        }

    def close(self, limit_ms: int) -> None:
        """Write waiting output for `limit_ms` at most, then close the log."""
        if self._output is not None:
            self._output.write(limit_ms)
        self._file.close()

    # Destinations

    def _printed(self, ears: Ears, stream: str, texts: Sequence[str]) -> None:
        if not texts:
            return
        now, level = _now(), _PRINTED_AS[stream]
        name, generation = ears.backplane, ears.generation
        self._keep(
            [
                encode(
                    LogLine(time=now, level=level, backplane=name, message=text, generation=generation, stream=stream)
                )
                for text in texts
            ]
        )
        self._show(name, texts)
        spoken = next((text.strip() for text in reversed(texts) if text.strip()), "")[:LAST_WORDS_MAX]
        if spoken and stream == "stderr":
            ears.words, ears.words_ns = spoken, self._now_ns()
        elif spoken:
            ears.printed = spoken

    def _take(self, ears: Ears, raws: list[bytes], now_ns: int) -> None:
        if not raws:
            return
        self._keep(raws)
        if self._output is not None and not self._output.count_if_full(len(raws)):
            for raw in raws:
                line = decode(raw)
                if line is not None:
                    self._show(ears.backplane, shown(line, in_colour=self._in_colour))
        bad = next((raw for raw in reversed(raws) if any(level in raw for level in _ERRORS)), None)
        if bad is not None and (line := decode(bad)) is not None:
            ears.words, ears.words_ns = _words_of(line), now_ns

    def _tell_lost(self, ears: Ears, lost: int, now_ns: int) -> None:
        if lost:
            ears.watch.reported(lost, now_ns)
            text = f"{lost:,} lines of {ears.backplane} were lost: they came faster than they were read"
            line = LogLine(
                time=_now(), level="WARNING", backplane=ears.backplane, message=text, generation=ears.generation,
                logger=_LOGGER, lost=lost,
            )  # fmt: skip
            self._keep([encode(line)])
            self._show(ears.backplane, shown(line, in_colour=self._in_colour))

    def _keep(self, raws: list[bytes]) -> None:
        before = self._file.lost_count
        self._file.write(b"\n".join(raws) + b"\n")
        if self._file.lost_count > before:
            if not self._is_refused:
                self._is_refused = True
                text = f"warning: the log cannot be written: {self._file.problem} ({self._file.folder})"
                self._show(SUPERVISOR, [text])
        elif self._is_refused:
            self._is_refused = False
            lost, self._told_unwritten = self._file.lost_count - self._told_unwritten, self._file.lost_count
            text = f"{lost:,} lines are missing here: the log could not be written: {self._file.problem}"
            line = LogLine(
                time=_now(), level="WARNING", backplane=SUPERVISOR, message=text, logger=_LOGGER, lost=lost
            )  # fmt: skip
            self._keep([encode(line)])

    def _show(self, name: str, texts: Sequence[str]) -> None:
        if self._output is not None:
            for text in texts:
                self._output.say(f"{name:<{self._name_width}} | {text}")


def _words_of(line: LogLine) -> str:
    """The last line; of a traceback, the line that names the error."""
    texts = [text.strip() for text in f"{line.message}\n{line.error}".split("\n") if text.strip()]
    return texts[-1][:LAST_WORDS_MAX] if texts else ""


def _link(link: Path, folder: Path) -> None:
    """Replace a link; a user's own file at this path stays, and raises OSError."""
    if link.is_symlink():
        link.unlink()
    link.symlink_to(folder.resolve())


def _now() -> datetime:
    return datetime.now(UTC)
