"""Backplanes of test systems as forks of a process that has imported them: a zygote.

Imports are most of what a backplane costs until it is up, and the tests start two thousand of them. The launcher forks a
zygote beside each supervisor (launcher.py), before the supervisor has threads. Asked by `Zygote.popen`, which stands in for
`subprocess.Popen` in supervisor/processes/spawn.py, it forks twice and reaps the first: so the second is adopted by the
supervisor, which is its parent then, as of a child that it has started. All else is as after exec: group, session, environment
(also as /proc shows it), title, standard streams, descriptors, signals. Not forked are backplanes that start in a cgroup, for
which the supervisor enters it, and stand-ins. Typed as users do, `appbackplane` has no zygote.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO, cast

from appbackplane.runtime import process
from appbackplane.supervisor.processes import spawn

#: A request, with an environment in it: Linux takes twice as much in one message.
MESSAGE_BYTES_MAX = 100_000
#: Standard streams, and more than a supervisor passes on.
FDS_MAX = 16
#: Room in the launcher's memory for the environment of a fork: the kernel shows this memory as /proc/PID/environ.
ROOM = ("APPBACKPLANE_TESTS_ROOM", "x" * 16_000)
#: As COMM of a zygote, by which tests tell it from what belongs to a system.
NAME = "test-zygote"
#: The groups of the calling thread: the supervisor enters that of a backplane to start it.
CGROUPS = Path("/proc/thread-self/cgroup")
_PR_SET_NAME = 15
#: Fields of /proc/PID/stat, counted after the command's name.
_ENVIRONMENT_START, _ENVIRONMENT_END = 47, 48


class Zygote:
    """The supervisor's end. Main thread only."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._command, self._cgroups = spawn.COMMAND, CGROUPS.read_bytes()
        if os.fork() == 0:
            self._socket.close()
            _serve(theirs)
        theirs.close()

    def popen(self, words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """As `subprocess.Popen`. Raises OSError."""
        if (*words[:-1],) != (*self._command,) or CGROUPS.read_bytes() != self._cgroups:
            return subprocess.Popen(words, **options)
        assert options["process_group"] == 0
        (stdout, their_stdout), (stderr, their_stderr) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        try:
            request = {"environment": options["env"], "passed": options["pass_fds"]}
            streams = (options["stdin"], their_stdout, their_stderr)
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*streams, *options["pass_fds"]])
        finally:
            os.close(their_stdout)
            os.close(their_stderr)
        pid = int(self._socket.recv(MESSAGE_BYTES_MAX))
        return cast("subprocess.Popen[bytes]", _Forked(pid, open(stdout, "rb", 0), open(stderr, "rb", 0)))


class _Forked:
    """The parts of a Popen that spawn.py uses."""

    def __init__(self, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr

    def wait(self) -> int:
        """Until it has ended. Its exit code; below 0 is a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _serve(asked: socket.socket) -> NoReturn:
    os.setpgid(0, 0)  # signals to the supervisor's group are not for us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, NAME.encode(), 0, 0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    while True:
        data, fds, _, _ = socket.recv_fds(asked, MESSAGE_BYTES_MAX, FDS_MAX)
        if not data:
            os._exit(0)
        request = json.loads(data)
        is_adopted, adopts = os.pipe()
        told, tells = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                os.close(adopts)
                os.read(is_adopted, 1)  # ends with the first fork's parent
                _be(request["environment"], fds, request["passed"])
            os.setpgid(pid, 0)
            os.write(tells, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        asked.send(os.read(told, 100))
        for fd in (is_adopted, adopts, told, tells, *fds):
            os.close(fd)


def _be(environment: Mapping[str, str], fds: Sequence[int], passed: Sequence[int]) -> NoReturn:
    """A backplane process, as its interpreter would be when it begins with `process.main`."""
    above = max(*fds, *passed) + 1
    for number, fd in zip((0, 1, 2, *passed), [_above(fd, above) for fd in fds], strict=True):
        os.dup2(fd, number)
    _close_all_but(passed)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    _show_environment(environment)
    del sys.path[0]  # as by -P
    sys.stdout, sys.stderr = _unbuffered(sys.stdout, 1), _unbuffered(sys.stderr, 2)
    sys.argv = [str(process.__file__)]
    sys.modules["__main__"] = process
    process.end(process.main())


def _unbuffered(stream: TextIO, fd: int) -> TextIO:
    """As by PYTHONUNBUFFERED."""
    return io.TextIOWrapper(io.FileIO(fd, "wb", closefd=False), stream.encoding, stream.errors, write_through=True)


def _above(fd: int, above: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD, above)


def _close_all_but(passed: Sequence[int]) -> None:
    last = 2
    for fd in sorted(passed):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def _show_environment(environment: Mapping[str, str]) -> None:
    """Overwrite the environment that the kernel gave the launcher. The interpreter and the C library have copies of it."""
    stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(stat[_ENVIRONMENT_START]), int(stat[_ENVIRONMENT_END])
    shown = b"".join(f"{name}={value}\0".encode() for name, value in environment.items())
    assert len(shown) <= end - start, "the environment of a backplane is larger than the launcher's: give ROOM more"
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)
