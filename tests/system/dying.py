"""Components for the tests of the supervisor's death: each is in another state when it comes. Copied beside the TOML."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from appbackplane.runtime import AppObject, Component, operation

PIDS = Path(__file__).with_name("pids")

if os.environ.get("DYING_IMPORT"):
    print("imports", flush=True)
    threading.Event().wait()


class Hand(AppObject):
    """Gets into the state that is asked for, says so, and stays in it."""

    @operation()
    def sleeps(self) -> None:
        print("in sleeps", flush=True)
        threading.Event().wait()

    @operation()
    def works(self) -> None:
        print("in works", flush=True)
        while True:
            pass

    @operation()
    def keeps_the_gil(self) -> None:
        print("in keeps_the_gil", flush=True)
        ctypes.PyDLL(None).sleep(600)

    @operation()
    def is_stopped(self) -> None:
        print("in is_stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

    @operation()
    def ignores_alarms(self) -> None:
        """Users' signals are theirs."""
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        print("in ignores_alarms", flush=True)
        while True:
            pass

    @operation()
    def has_children(self) -> None:
        """Each further away than the one before; the last would not even tell its parents."""
        sleep = [sys.executable, "-c", "import signal; signal.pause()"]
        sh = f"'{sys.executable}' -c 'import signal; signal.pause()' & echo $! >> '{PIDS}'"
        children = [
            subprocess.Popen(sleep),
            subprocess.Popen(sleep, start_new_session=True),
            subprocess.Popen(sleep, start_new_session=True, env={}),
        ]
        with PIDS.open("a") as file:
            file.writelines(f"{child.pid}\n" for child in children)
        subprocess.run(["sh", "-c", sh], start_new_session=True, check=False)
        print("in has_children", flush=True)
        threading.Event().wait()

    @operation()
    def finishes(self, path: str) -> str:
        """What is lost if it is cut short."""
        print("in finishes", flush=True)
        select.select([os.pidfd_open(os.getppid())], [], [])
        end_s = time.thread_time() + 0.02  # a small part of what a busy machine gives it in the time that it has
        while time.thread_time() < end_s:
            pass
        Path(path).write_text("whole")
        return "whole"


class Dying(Component):
    """Its hooks may take for ever."""

    def __init__(self, hangs_in: str = "") -> None:
        self.hangs_in = hangs_in

    def setup(self) -> None:
        self.add(Hand(), key="hand")

    def on_primary(self) -> None:
        self._hook("primary")

    def on_down(self) -> None:
        self._hook("down")

    def _hook(self, name: str) -> None:
        if self.hangs_in == name:
            print(f"in {name}", flush=True)
            threading.Event().wait()
