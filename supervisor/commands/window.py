"""Window: the terminal of the live view of `top`, and the loop that keeps it.

One thread, one poll: keys, signals, the supervisor's replies and its death. Keys are handled at once, even while the
supervisor hangs. The alternate screen is left in every case, also on ^Z, SIGTERM and an error of ours, so that the former
content is there again. A frame is written in one piece and only where it differs, so nothing flickers.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from appbackplane.transport.errors import BackplaneError, SystemNotRunning

from ..live.figures import SystemFigures, figures
from ..live.line import STYLES, Line
from ..live.navigation import Keys, Navigation, press
from ..live.sample import Sample, sample_of
from ..live.view import names, screen
from ..processes.leftovers import is_dead
from ..processes.signals import SignalPipe, as_events
from .asking import Asker

#: Wait for the rest of an escape sequence: terminals send one at once, a slow line within this.
ESCAPE_MS = 50
#: Share of the interval that backplanes may take to answer, so that a stuck one does not slow the view down.
SHARE = 0.5
LIMIT_S_MAX = 0.4
#: Pause before a dead or mute supervisor is looked for again.
AGAIN_S = 1.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_SIGNALS = (signal.SIGWINCH, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTSTP)


class TopScreen:
    """Shows one system until the user quits."""

    def __init__(self, connect: Callable[[], Asker], navigation: Navigation, interval_s: float) -> None:
        """`connect` raises `Unavailable` while the system does not run."""
        self._connect, self._navigation, self._interval_s = connect, navigation, interval_s
        self._asker: Asker | None = None
        self._before: Sample | None = None
        self._figures: SystemFigures | None = None
        self._remark = ""
        self._keys = Keys()
        self._drawn: list[str] = []
        self._asks_at_s = self._answer_due_s = 0.0
        self._is_waiting = False
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._console = Console(file=sys.stdout)

    def run(self) -> None:
        """Show the system until `q`, Ctrl-C or SIGTERM."""
        with as_events(_SIGNALS) as signals:
            settings = termios.tcgetattr(self._input)
            try:
                self._enter()
                self._loop(signals, settings)
            finally:
                self._leave(settings)
                self._hang_up()

    def _loop(self, signals: SignalPipe, settings: list[Any]) -> None:
        while True:
            self._look()
            self._draw()
            poll = select.poll()
            for fd in (self._input, signals.fd, *self._links()):
                poll.register(fd, select.POLLIN)
            ready = [fd for fd, _ in poll.poll(self._timeout_ms())]
            if signals.fd in ready:
                for number in signals.read():
                    if number is signal.SIGTSTP:
                        self._leave(settings)
                        os.kill(os.getpid(), signal.SIGSTOP)
                        self._enter()
                    elif number is signal.SIGWINCH:
                        self._drawn = []
                    else:
                        return
            pressed = self._keys.settle() if not ready and self._keys.is_unsure else []
            if self._input in ready:
                data = os.read(self._input, 1024)
                if not data:  # the terminal has gone
                    return
                pressed += self._keys.feed(data)
            for key in pressed:
                following = press(self._navigation, key, names(self._figures, self._navigation))
                if following is None:
                    return
                self._navigation = following

    # Asking

    def _look(self) -> None:
        """Send a request when it is due, take a reply, and notice a supervisor that does not reply."""
        now_s = time.monotonic()
        try:
            if self._asker is None and now_s >= self._asks_at_s:
                self._asker = self._connect()
                self._is_waiting = False
            if self._asker is not None:
                self._take(self._asker, now_s)
                if not self._is_waiting and now_s >= self._asks_at_s:
                    limit_s = min(LIMIT_S_MAX, SHARE * self._interval_s)
                    self._asker.send("supervisor.status", {"buckets": True, "limit": limit_s}, limit_s + AGAIN_S)
                    self._is_waiting = True
                    self._asks_at_s = max(now_s, self._asks_at_s + self._interval_s)
                    self._answer_due_s = now_s + limit_s + AGAIN_S
        except BackplaneError as error:
            self._hang_up()
            self._remark = "does not run: waiting for it" if isinstance(error, SystemNotRunning) else error.message
            self._asks_at_s = now_s + AGAIN_S

    def _take(self, asker: Asker, now_s: float) -> None:
        answer = asker.take()
        if answer is not None:
            now = sample_of(answer)
            self._figures, self._before = figures(self._before, now), now
            self._is_waiting, self._remark = False, ""
        elif self._is_waiting and now_s >= self._answer_due_s:
            self._is_waiting = False
            self._remark = "the supervisor does not answer"
        if is_dead(asker.pidfd):
            self._hang_up()
            self._before = None
            self._remark = "has ended: waiting for it"
            self._asks_at_s = now_s + AGAIN_S

    def _links(self) -> Sequence[int]:
        return () if self._asker is None else (self._asker.fileno(), self._asker.pidfd)

    def _hang_up(self) -> None:
        if self._asker is not None:
            self._asker.close()
            self._asker = None
        self._is_waiting = False

    def _timeout_ms(self) -> int:
        if self._keys.is_unsure:
            return ESCAPE_MS
        due_s = self._answer_due_s if self._is_waiting else self._asks_at_s
        return max(0, min(60_000, round((due_s - time.monotonic()) * 1e3) + 1))

    # The terminal

    def _enter(self) -> None:
        tty.setcbreak(self._input)
        self._drawn = []
        _write(self._output, _ENTER)

    def _leave(self, settings: list[Any]) -> None:
        _write(self._output, _LEAVE)
        termios.tcsetattr(self._input, termios.TCSADRAIN, settings)

    def _draw(self) -> None:
        width, height = os.get_terminal_size(self._output)
        lines = screen(self._figures, self._navigation, width, height, self._remark, self._interval_s)
        drawn = [in_colour(self._console, line) for line in lines]
        if drawn == self._drawn:
            return
        is_whole = len(drawn) != len(self._drawn)
        changed = [
            f"\x1b[{number + 1};1H{line}\x1b[K"
            for number, line in enumerate(drawn)
            if is_whole or line != self._drawn[number]
        ]
        self._drawn = drawn
        _write(self._output, ("\x1b[2J" if is_whole else "") + "".join(changed))


def in_colour(console: Console, line: Line) -> str:
    """The line in the terminal's escape sequences; without colours where it has none, or NO_COLOR is set."""
    rich = Text.assemble(*((piece, STYLES[style]) for piece, style in line))
    with console.capture() as capture:
        console.print(rich, end="", soft_wrap=True, highlight=False)
    return capture.get()


def _write(fd: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(fd, data) :]
