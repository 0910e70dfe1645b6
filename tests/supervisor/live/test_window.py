"""The live view on a terminal, as a person has it: the real command over a pty, and a small terminal that reads it.

Nothing is slept for: what is on the screen is waited for, and the terminal is looked at again afterwards.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.launching import COMMAND
from tests.supervisor.conftest import LIMIT_S, RunningSystem
from tests.waiting import Limit

#: Makes its standard input its controlling terminal, so that Ctrl-C and a new size reach it, and becomes the command.
LEAD = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
_SEQUENCE = re.compile(rb"\x1b\[([?\d;]*)([A-Za-z])")


class Terminal:
    """What a terminal of this size shows of the sequences that the view uses; any other is an error."""

    def __init__(self, words: list[str], width: int, height: int, variables: Mapping[str, str]) -> None:
        self.width, self.height = width, height
        self.lines = [""] * height
        self.is_alternate = self.is_cursor_hidden = False
        #: Whether what it shows is too wide: so it may be for a moment, until the program has heard of a new size.
        self.wraps = False
        self._at = (0, 0)
        self._rest = b""
        self.fd, child_fd = pty.openpty()
        self._resize()
        self.settings = termios.tcgetattr(child_fd)
        environment = {**os.environ, "TERM": "xterm-256color", **variables}
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEAD, *words],
            stdin=child_fd,
            stdout=child_fd,
            stderr=child_fd,
            env=environment,
            start_new_session=True,
        )
        os.close(child_fd)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.lines = [""] * height
        self._resize()

    def wait_for(self, is_so: Callable[[list[str]], bool]) -> list[str]:
        """The screen, once it is so. A terminal may hand out half of a picture: who looks for two things waits for both."""
        limit = Limit()
        while self.wraps or not is_so(self.lines):
            limit.check("\n".join(self.lines))
            assert self._read(limit.left_s), "\n".join(self.lines)
        return self.lines

    def wait_end(self) -> int:
        """Until the program has ended. Its exit code."""
        limit = Limit()
        while self._read(limit.left_s):
            limit.check("\n".join(self.lines))
        return self.process.wait(LIMIT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        os.close(self.fd)

    def _resize(self) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", self.height, self.width, 0, 0))

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self.fd, 65_536)
        except OSError:  # its other end has been closed
            return False
        self._show(self._rest + data)
        return True

    def _show(self, data: bytes) -> None:
        self._rest = b""
        while data:
            if data[:1] == b"\x1b":
                sequence = _SEQUENCE.match(data)
                if sequence is None:
                    self._rest = data
                    return
                self._obey(sequence[1].decode(), sequence[2].decode())
                data = data[sequence.end() :]
                continue
            piece, mark, rest = data.partition(b"\x1b")
            try:
                self._put(piece.decode())
            except UnicodeDecodeError:  # a character that is not whole yet
                self._rest = data
                return
            data = mark + rest

    def _obey(self, numbers: str, what: str) -> None:
        row, column = self._at
        if what == "H":
            self._at = (int(numbers.split(";")[0] or 1) - 1, 0)
        elif what == "K" and row < self.height:  # a line that was on its way while the terminal became smaller
            self.lines[row] = self.lines[row][:column]
        elif what == "J":
            self.lines, self.wraps = [""] * self.height, False
        elif numbers == "?1049":
            self.is_alternate = what == "h"
        elif numbers == "?25":
            self.is_cursor_hidden = what == "l"
        else:
            assert what in "mK", (numbers, what)

    def _put(self, text: str) -> None:
        for char in text:
            row, column = self._at
            if char in "\r\n":
                self._at = (row, 0) if char == "\r" else (min(row + 1, self.height - 1), column)
            elif row < self.height:
                self.wraps |= self.is_alternate and column >= self.width
                self.lines[row] = self.lines[row][:column].ljust(column) + char + self.lines[row][column + 1 :]
                self._at = (row, column + 1)


Top = Callable[..., Terminal]


@pytest.fixture
def top(kept: RunningSystem) -> Iterator[Top]:
    """Starts `top` on a terminal."""
    terminals: list[Terminal] = []

    def begin(*words: str, width: int = 80, height: int = 24, of: RunningSystem = kept, **variables: str) -> Terminal:
        program = [*COMMAND, "top", "-s", str(of.toml), "--interval", "0.2", *words]
        terminals.append(Terminal(program, width, height, variables))
        return terminals[-1]

    yield begin
    for terminal in terminals:
        terminal.close()


def has(text: str) -> Callable[[list[str]], bool]:
    return lambda lines: text in "\n".join(lines)


def rows(lines: list[str]) -> list[str]:
    """The backplanes, as they are shown."""
    return [line.split()[0] for line in lines if line.split()[:1] in (["query"], ["index"])]


def test_it_shows_the_system_and_leaves_the_terminal_as_it_was(top: Top) -> None:
    """A view that leaves a terminal without echo or cursor is started once."""
    terminal = top()
    terminal.wait_for(has("q quit"))
    lines = terminal.wait_for(lambda lines: rows(lines) == ["query", "index"])
    assert lines[0].startswith(" demo  up")
    assert (terminal.is_alternate, terminal.is_cursor_hidden) == (True, True)
    terminal.type("q")
    assert terminal.wait_end() == 0
    assert (terminal.is_alternate, terminal.is_cursor_hidden) == (False, False)
    assert termios.tcgetattr(terminal.fd) == terminal.settings


def test_a_terminal_that_the_host_does_not_know_shows_all_the_same(top: Top) -> None:
    """Over ssh: a new terminal's TERM has no terminfo entry on the server, and LC_ALL may be C. The bars are not ASCII."""
    terminal = top(TERM="xterm-nobody-has-heard-of", LC_ALL="C")
    terminal.wait_for(lambda lines: rows(lines) == ["query", "index"] and has("····")(lines))
    terminal.type("q")
    assert terminal.wait_end() == 0


def test_keys_lead_to_the_operations_and_back(top: Top) -> None:
    """Arrows, enter, esc, help and the order."""
    terminal = top()
    terminal.wait_for(has("── query"))
    terminal.type("\x1b[B")
    terminal.wait_for(has("── index"))
    terminal.type("\r")
    terminal.wait_for(has("demo › index"))
    terminal.type("?")
    terminal.wait_for(has("any key back"))
    terminal.type("x")
    terminal.wait_for(has("esc back"))
    terminal.type("\x1b")
    terminal.wait_for(has("── index"))
    terminal.type("s")
    terminal.wait_for(lambda lines: has("sort: name")(lines) and rows(lines) == ["index", "query"])
    terminal.type("\x03")
    assert terminal.wait_end() == 0


def test_it_follows_the_size_of_the_terminal(top: Top) -> None:
    """Wider, and everything; narrower, and nothing that wraps."""
    terminal = top(width=80)
    assert not has("BOOSTS")(terminal.wait_for(has("QUEUED")))
    terminal.resize(180, 50)
    terminal.wait_for(has("BOOSTS"))
    terminal.resize(50, 10)
    terminal.wait_for(lambda lines: has("STATE")(lines) and not has("QUEUED")(lines))


def test_a_system_that_ends_is_waited_for(top: Top, start: Callable[..., RunningSystem]) -> None:
    """Somebody keeps it open while a system is restarted: the view says so, and goes on."""
    first = start()
    first.wait_up()
    terminal = top(of=first)
    terminal.wait_for(has("── query"))
    first.signal(signal.SIGKILL)
    first.process.wait(LIMIT_S)
    terminal.wait_for(has("waiting for it"))
    again = start()
    terminal.wait_for(lambda lines: not has("waiting for it")(lines) and rows(lines) == ["query", "index"])
    terminal.type("q")
    assert terminal.wait_end() == 0
    again.signal(signal.SIGTERM)
    assert again.wait_down() == 0


def test_it_begins_with_the_operations_of_one(top: Top) -> None:
    """Where somebody asked for them."""
    terminal = top("--backplane", "index", "--sort", "rate")
    terminal.wait_for(lambda lines: has("demo › index")(lines) and has("sort: rate")(lines))


def test_what_is_not_there_is_said_at_once_and_not_in_a_view(top: Top, tmp_path: Path) -> None:
    """A mistyped name is not waited for."""
    terminal = top("--backplane", "nobody")
    assert terminal.wait_end() == 1
    assert terminal.lines[0].startswith("appbackplane: no backplane 'nobody' in 'demo': one of query, index")
    assert not terminal.is_alternate
