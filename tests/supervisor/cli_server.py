"""A process that is the command line as often as it is told to be: each command in a fork of its own.

Imported once, so that a table of hundreds of commands is a matter of seconds; all else is as when it is typed: arguments,
folder, environment, user, standard streams, exit code. Each line on standard input is one command, each line on standard
output what became of it, both JSON (test_bad_input.py).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
from typing import Any, NoReturn

from appbackplane import runtime, transport
from appbackplane.supervisor.commands import main
from appbackplane.supervisor.commands.cli import VERBS

#: What most verbs import when they run; a stranger (`uid`) may not read where it lies.
LATE = (
    *(each.name for of in (transport, runtime) for each in pkgutil.walk_packages(of.__path__, f"{of.__name__}.")),
    *("appbackplane.supervisor.run", "appbackplane.supervisor.configuration.config"),
    *("encodings.unicode_escape", "importlib.readers", "importlib.resources", "traceback", "difflib", "email.parser"),
)


def be(typed: dict[str, Any], out: int, err: int) -> NoReturn:
    """The command line, in a fork."""
    os.chdir(typed["folder"])
    os.environ.clear()
    os.environ.update(typed["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(err, 2)
    match typed["stdout"]:
        case "kept":
            os.dup2(out, 1)
        case "closed":
            os.close(1)
            sys.stdout = None  # as the interpreter finds it at its start
        case "broken":
            read_fd, write_fd = os.pipe()
            os.dup2(write_fd, 1)
            os.close(read_fd)
            os.close(write_fd)
        case "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    if typed["uid"] is not None:
        os.setgroups([])
        os.setgid(typed["uid"])
        os.setuid(typed["uid"])
    signal.alarm(round(typed["limit_s"]))
    sys.argv = ["appbackplane", *typed["words"]]
    code = 70  # what ends in no way of its own
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    finally:
        # As the interpreter does at its end, where it says "Exception ignored" and makes it 120.
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            os.write(2, f"at exit: {error!r}\n".encode())
            code = 120
        os._exit(code)


def serve() -> None:
    """Until standard input ends."""
    for verb in VERBS:
        importlib.import_module(f"appbackplane.supervisor.commands.{verb}")
    for name in LATE:
        importlib.import_module(name)
    for line in sys.stdin:
        typed = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                be(typed, out.fileno(), err.fileno())
            _, status = os.waitpid(pid, 0)
            said = [os.pread(file.fileno(), 1 << 20, 0).decode(errors="backslashreplace") for file in (out, err)]
            code = os.waitstatus_to_exitcode(status)
        ended = {"code": code, "out": said[0], "err": said[1]}
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    serve()
