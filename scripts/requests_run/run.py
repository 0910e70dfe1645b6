"""Run: bring a system up, have the requests executed while workers are killed, wait until it is at rest, and count."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from chaos_run.system import LIMIT_S, SAID, brought_up

from appbackplane.transport import BackplaneError, Client, connect

from .account import Account, account_of
from .plan import TREE
from .records import FOLDER, SEED, read

WORKERS: Final = 4
#: So many live on, as many as the hierarchy has levels: on a busy machine they are killed sooner than they come up again, and
#: with fewer those that are left only wait for what nobody executes.
KEPT: Final = 3
#: Nothing has ended for so long: it will not end.
STANDSTILL_S: Final = 120.0
LOOK_EVERY_S: Final = 0.2

TOML: Final = """
[system]
name = "requests"
run_dir = "run"
restart = {{ max = 1_000_000, within = "1h", backoff = "10ms", backoff_max = "50ms", healthy_after = "50ms" }}
[backplane.k]
components = ["requests_run.components:Load"]
[backplane.k.settings.Load.policy]
kind = "{kind}"
workers = {workers}
mode = "lanes"
lanes = [0, 25, 25]
ready = 400
rejoin = 4000
ageing = true
"""
PROCESSES: Final = """
[backplane.worker]
components = ["appbackplane.runtime.requests:RequestWorker"]
replicas = {workers}
[backplane.worker.settings.RequestWorker]
kernel = "requests_run.components:Load"
"""


class Stuck(Exception): ...


class Killer(threading.Thread):
    """Kills a worker now and then, drawn from a seed."""

    def __init__(self, run_dir: Path, every_s: float, seed: int) -> None:
        super().__init__(name="killer", daemon=True)
        self._run_dir, self._every_s, self._dice = run_dir, every_s, random.Random(seed)
        self.is_over = threading.Event()
        self.kills = 0

    def run(self) -> None:
        with connect(self._run_dir) as client:
            while not self.is_over.wait(self._dice.uniform(0.5, 1.5) * self._every_s):
                with suppress(BackplaneError, ProcessLookupError):
                    pids = workers_of(client)
                    if len(pids) > KEPT:
                        os.kill(self._dice.choice(pids), signal.SIGKILL)
                        self.kills += 1


def workers_of(client: Client) -> list[int]:
    told = client.call("supervisor.status", timeout=LIMIT_S)
    return [entry["pid"] for entry in told["backplanes"] if is_worker(entry)]


def is_worker(entry: Mapping[str, Any]) -> bool:
    """Whether it executes: one that comes up has nothing to lose."""
    return entry["replica_of"] == "worker" and entry["pid"] is not None and entry["state"] == "up"


def run(requests: int, seed: int, kind: str, kill_every_s: float, say: Callable[[str], None] = print) -> Account:
    """One run. `kill_every_s`: on average; 0: nobody is killed."""
    roots = -(-requests // TREE)
    with tempfile.TemporaryDirectory(prefix="ab-") as name:
        folder = Path(name)
        process = _start(folder, seed, kind)
        try:
            return _measure(folder, process, roots, seed, kind, kill_every_s if kind == "processes" else 0.0, say)
        finally:
            process.terminate()
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _start(folder: Path, seed: int, kind: str) -> subprocess.Popen[bytes]:
    (folder / "records").mkdir()
    toml = TOML.format(kind=kind, workers=WORKERS)
    if kind == "processes":
        toml += PROCESSES.format(workers=WORKERS)
    return brought_up(folder, toml, **{FOLDER: str(folder / "records"), SEED: str(seed)})


def _measure(
    folder: Path, process: subprocess.Popen[bytes], roots: int, seed: int, kind: str, kill_every_s: float,
    say: Callable[[str], None],
) -> Account:  # fmt: skip
    run_dir = folder / "run"
    killer = Killer(run_dir, kill_every_s, seed)
    problems: list[str] = []
    with connect(run_dir) as client:
        began_s = time.monotonic()
        # A quick machine would be done before the first kill: the last root is posted after it.
        fed = client.submit("load.feed", roots=roots, is_last_held=bool(kill_every_s), timeout=86_400.0)
        if kill_every_s:
            killer.start()
        try:
            told = _wait_fed(client, fed.done, roots, killer if kill_every_s else None, say)
        except Stuck as stuck:
            problems.append(str(stuck))
            told = client.call("load.told", timeout=LIMIT_S)
        took_s = time.monotonic() - began_s
        killer.is_over.set()
        if kill_every_s:
            killer.join(LIMIT_S)
        if fed.done() and (error := fed.exception()) is not None:
            problems.append(f"who posts the roots ended in {error!r}")
        if not problems:
            told = _wait_at_rest(client)
    account = account_of(kind, seed, killer.kills, read(folder / "records"), told)
    account.seconds = took_s
    account.problems += problems
    said = (folder / SAID).read_text().splitlines()
    account.problems += [f"the log says {line!r}" for line in said if " ERROR" in line or "Traceback" in line][:10]
    return account


def _wait_fed(
    client: Client, is_fed: Callable[[], bool], roots: int, killer: Killer | None, say: Callable[[str], None]
) -> dict[str, Any]:
    ended, since_s, said_s = -1, time.monotonic(), time.monotonic()
    told: dict[str, Any] = {}
    while not is_fed():
        time.sleep(LOOK_EVERY_S)
        try:
            if killer is not None and killer.kills:
                client.call("load.release", timeout=LIMIT_S)
                killer = None
            told = client.call("load.told", timeout=LIMIT_S)
        except BackplaneError as error:
            raise Stuck(f"the kernel does not answer: {error}") from error
        now_s = time.monotonic()
        if told["ended_total"] != ended:
            ended, since_s = told["ended_total"], now_s
        elif now_s - since_s > STANDSTILL_S:
            raise Stuck(f"nothing has ended for {STANDSTILL_S:g} s: {told}")
        if now_s - said_s >= 5.0:
            said_s = now_s
            say(f"{told['ended_total']:,} of about {roots * TREE:,} have ended, {told['lost_total']:,} of them lost")
    return told


def _wait_at_rest(client: Client) -> dict[str, Any]:
    """Those whose owners have ended before them are still executed: the last figures."""
    end_s = time.monotonic() + LIMIT_S
    while True:
        told: dict[str, Any] = client.call("load.told", timeout=LIMIT_S)
        if not (told["executing"] or told["owners"] or sum(told["ready"])) or time.monotonic() > end_s:
            return told
        time.sleep(LOOK_EVERY_S)
