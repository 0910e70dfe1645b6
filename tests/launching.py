"""Starts the command line as a fork of one process that has imported it (launcher.py), and is to it what a Popen is.

One such process a worker of pytest-xdist, from the first command on; it ends with the worker.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.zygote import MESSAGE_BYTES_MAX, ROOM

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = "tests.launcher"
#: The command as it is typed: what a fork of the launcher is instead.
COMMAND = (sys.executable, "-m", "appbackplane.supervisor")


class Launched:
    """A process, from its start until its exit code is asked for."""

    def __init__(self, launcher: Launcher, pid: int, args: Sequence[str], stderr: IO[bytes] | None) -> None:
        self.pid, self.args, self.stderr = pid, [*args], stderr
        self.returncode: int | None = None
        self._launcher, self._lock = launcher, threading.Lock()
        self._pidfd = os.pidfd_open(pid)  # nobody reaps it before we ask

    def poll(self) -> int | None:
        """The exit code; None: it has not ended."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended. Raises TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def fileno(self) -> int:
        """Readable when it has ended; valid until its exit code is asked for."""
        return self._pidfd

    def send_signal(self, number: int) -> None:
        """If it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """-9."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._pidfd, timeout_s):
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._launcher.ask({"reap": self.pid})
                    os.close(self._pidfd)
        return self.returncode


class Launcher:
    """The process that is forked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                # The last word is room for the titles of backplanes.
                [sys.executable, "-m", LAUNCHER, str(theirs.fileno()), "-" * 100],
                cwd=ROOT,
                env={**os.environ, **dict([ROOM])},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self._interpreter = _of_interpreter(os.environ)

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter that starts in this environment would be the same as this one."""
        return _of_interpreter(environment) == self._interpreter

    def ask(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> int:
        """One message, and the number that answers it."""
        data = json.dumps(message).encode()
        assert len(data) < MESSAGE_BYTES_MAX
        with self._lock:
            socket.send_fds(self._socket, [data], fds)
            answer = self._socket.recv(MESSAGE_BYTES_MAX)
        assert answer, "the launcher has ended: its message is above"
        return int(json.loads(answer))


@functools.cache
def _launcher() -> Launcher:
    return Launcher()


def launch(
    *words: str,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    script: Path | None = None,
    prefix: Sequence[str] = (),
    is_in_new_session: bool = False,
) -> Launched | subprocess.Popen[bytes]:
    """Start `appbackplane` with these words, with a pipe as its standard error, and without input and output.

    `script`: a program that is the command line with something changed. A command with words before it (`prefix`) is an
    interpreter of its own, and so is one whose environment the interpreter itself would read at its start.
    """
    environment = dict(os.environ if environment is None else environment)
    command = [*prefix, sys.executable, str(script)] if script else [*prefix, *COMMAND]
    if prefix or not _launcher().serves(environment):
        return subprocess.Popen(
            [*command, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=is_in_new_session,
        )
    typed = {"words": words, "environment": environment, "folder": str(folder or Path.cwd())}
    typed |= {"script": str(script) if script else "", "is_in_new_session": is_in_new_session}
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    with open(os.devnull, "r+b", buffering=0) as null, open(write_fd, "wb", buffering=0) as stderr:
        pid = _launcher().ask(typed, [stream.fileno() for stream in (null, null, stderr)])
    return Launched(_launcher(), pid, [*command, *words], open(read_fd, "rb"))


def run(
    *words: str, environment: Mapping[str, str], folder: Path, given: str | None, limit_s: float
) -> subprocess.CompletedProcess[str]:
    """`appbackplane` with these words, to its end. `given`: its standard input. Raises TimeoutExpired."""
    command = [*COMMAND, *words]
    if not _launcher().serves(environment):
        return subprocess.run(
            command, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=limit_s, check=False
        )  # fmt: skip
    typed = {"words": words, "environment": dict(environment), "folder": str(folder), "script": ""}
    typed |= {"is_in_new_session": False}
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write((given or "").encode())
        stdin.seek(0)
        files = stdin, stdout, stderr
        process = Launched(_launcher(), _launcher().ask(typed, [file.fileno() for file in files]), command, None)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (stdout, stderr)]
    return subprocess.CompletedProcess(command, code, *said)


def is_forked_in(environment: Mapping[str, str]) -> bool:
    """Whether a command with this environment can be a fork."""
    return _launcher().serves(environment)


def start(
    script: Path, words: Sequence[str], environment: Mapping[str, str], folder: Path, streams: Sequence[int]
) -> Launched:
    """A fork that runs `script` with these words, on these standard streams, which stay open here."""
    typed = {"words": words, "environment": dict(environment), "folder": str(folder), "script": str(script)}
    pid = _launcher().ask(typed | {"is_in_new_session": False}, streams)
    return Launched(_launcher(), pid, [str(script), *words], None)


def _of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LC_", "LANG"))}


def _is_readable(fd: int, timeout_s: float | None) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(None if timeout_s is None else timeout_s * 1e3))
