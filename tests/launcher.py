"""A process that has imported the command line once, and is `appbackplane` in a fork of its own whenever it is asked.

Imports are two thirds of what a supervisor costs until it is up (0.25 s of CPU), and the tests start five hundred of them. All
else is as when it is typed: arguments, folder, environment, session, standard streams, signals, exit code. The backplanes of a
system are forks, too (zygote.py). Typed as users do it is `appbackplane` in the tests of the command line (test_bad_input.py,
test_end.py, test_up_again.py), of the tutorial, and of the examples; on the other pages of `docs/` it is a fork
(tests/docs/forked.py).

Each message on the socket is a command (JSON, with its three standard streams as descriptors), answered by its pid; or the pid
of one that has ended, answered by its exit code. Until it is asked for, nobody reaps it: its number stays its own. Ends with
the socket. Used through launching.py.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

import setproctitle

from appbackplane.supervisor.processes import spawn
from tests import zygote

#: What `up`, most verbs and many backplanes import when they run; `__main__` would be the command line at once.
PACKAGES = ("appbackplane.supervisor.commands", "appbackplane.supervisor.configuration")
LATE = (
    *("appbackplane.supervisor.run", "appbackplane.runtime.otel", "tomllib", "importlib.metadata", "bz2", "lzma"),
    *("traceback", "difflib", "email.parser", "encodings.unicode_escape"),
    *("appbackplane.runtime.dispatcher", "appbackplane.runtime.requests", "appbackplane.runtime.things.mashups"),
    *("appbackplane.runtime.things.system", "appbackplane.runtime.things.web", "multiprocessing.pool"),
)


def be(typed: dict[str, Any], streams: list[int]) -> NoReturn:
    """The command, in a fork, which ends as an interpreter does: every exception leaves `serve`."""
    if typed["is_in_new_session"]:
        os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(typed["folder"])
    os.environ.clear()
    os.environ.update(typed["environment"])
    if typed["words"][:1] == ["up"]:
        stand_in = SimpleNamespace(Popen=zygote.Zygote().popen, PIPE=subprocess.PIPE)
        setattr(spawn, "subprocess", stand_in)  # noqa: B010
    sys.argv = ["", *typed["words"]]
    if typed["script"]:
        sys.argv[0] = typed["script"]
        sys.path[0] = os.path.dirname(typed["script"])
        runpy.run_path(typed["script"], run_name="__main__")
    else:
        sys.path[0] = typed["folder"]
        runpy.run_module("appbackplane.supervisor", run_name="__main__", alter_sys=True)
    sys.exit()


def serve(asked: socket.socket) -> None:
    """Until the socket ends."""
    for package in PACKAGES:
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(found.name)
    for name in LATE:
        importlib.import_module(name)
    os.environ["SPT_NOENV"] = "1"
    setproctitle.getproctitle()  # finds the room for a title; later, the environment is elsewhere
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread: no other may hold a lock"
    while True:
        data, fds, _, _ = socket.recv_fds(asked, zygote.MESSAGE_BYTES_MAX, 3)
        if not data:
            return
        message = json.loads(data)
        if "reap" in message:
            _, status = os.waitpid(message["reap"], 0)
            asked.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            asked.detach()  # its descriptor is closed with all others
            be(message, fds)
        for fd in fds:
            os.close(fd)
        asked.send(json.dumps(pid).encode())


if __name__ == "__main__":
    sys.path[0] = ""  # not the folder of the repository, whose names would hide others
    serve(socket.socket(fileno=int(sys.argv[1])))
