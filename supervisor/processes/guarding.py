"""Guarding: the supervisor's side of its guardian (guardian.py): starts it, restarts it when it dies, dismisses it at the end.

The guardian has a session of its own, so that signals to ours (Ctrl-C, kill of the group) do not take both. It is in no
backplane's group, where it would be slowed down as well. A millisecond to spawn.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from ..poller import Poller
from .guardian import DISMISSED

_COMMAND = (sys.executable, "-P", "-m", f"{__package__}.guardian")
#: Pause before a restart, counted from the last start: a guardian that dies soon is killed by something each time, which must
#: fill neither the log nor the CPU. It doubles each time, up to a minute.
_PAUSE_MIN_NS, _PAUSE_MAX_NS = 1_000_000_000, 60_000_000_000
#: Longest wait for a dismissed guardian, which has nothing to do then.
_PATIENCE_S = 1.0


class Guarding:
    """Keeps the guardian of one system alive. Main thread only."""

    def __init__(
        self, system: str, mark: str, cgroup: str | None, nice: int, say: Callable[..., None], now_ns: Callable[[], int]
    ) -> None:
        #: Watched by backplanes: it ends when the supervisor is dead, and the guardian is dead too or ready for their end.
        self.lifeline_fd, self._lifeline_end_fd = os.pipe2(os.O_CLOEXEC)
        self._words = (
            *_COMMAND, system, str(os.getpid()), str(nice), str(self._lifeline_end_fd), cgroup or "",
        )  # fmt: skip
        self._mark = mark
        self._say, self._now_ns = say, now_ns
        self._poller: Poller | None = None
        self._pause_ns = _PAUSE_MIN_NS
        #: When the next one is started; None: one lives.
        self.due_ns: int | None = None
        self._start()

    @property
    def pid(self) -> int:
        """Pid of the living guardian, or of the last one."""
        return self._popen.pid

    def watch(self, poller: Poller) -> None:
        """Have its death wake the poll."""
        self._poller = poller
        poller.watch(self._pidfd, self._on_death)

    def turn(self, now_ns: int) -> None:
        """Start another guardian when that is due."""
        if self.due_ns is None or now_ns < self.due_ns:
            return
        assert self._poller is not None
        try:
            self._start()
        except OSError as error:
            self.due_ns = now_ns + _PAUSE_MAX_NS
            self._say(f"warning: no guardian: {error.strerror}; tried again in a minute", "WARNING")
            return
        self.watch(self._poller)
        self._say("another guardian was started")

    def close(self) -> None:
        """Dismiss the guardian: no process is left to guard."""
        if self.lifeline_fd >= 0:
            os.close(self._lifeline_end_fd)
            os.close(self.lifeline_fd)
            self.lifeline_fd = -1
        if self._pidfd < 0:
            return
        if self._poller is not None:
            self._poller.unwatch(self._pidfd)
        with suppress(BrokenPipeError):
            os.write(self._pipe_fd, DISMISSED)
        os.close(self._pipe_fd)
        try:
            self._popen.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._bury()

    def _start(self) -> None:
        self._started_ns, self.due_ns = self._now_ns(), None
        read_fd, self._pipe_fd = os.pipe2(os.O_CLOEXEC)
        # Before the spawn: we may be killed at any time after it.
        os.write(self._pipe_fd, f"{self._mark}\n".encode())
        try:
            self._popen = subprocess.Popen(
                self._words,
                stdin=read_fd,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(self._lifeline_end_fd,),
            )
        except OSError:
            os.close(self._pipe_fd)
            raise
        finally:
            os.close(read_fd)
        self._pidfd = os.pidfd_open(self._popen.pid)

    def _on_death(self) -> None:
        assert self._poller is not None
        self._poller.unwatch(self._pidfd)
        os.close(self._pipe_fd)
        code = self._popen.wait()
        self._bury()
        lived_ns = self._now_ns() - self._started_ns
        self.due_ns = self._started_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _PAUSE_MAX_NS) if lived_ns < _PAUSE_MAX_NS else _PAUSE_MIN_NS
        self._say(f"warning: the guardian died (exit code {code})", "WARNING")

    def _bury(self) -> None:
        os.close(self._pidfd)
        self._pidfd = -1
