"""Agent: does the moves. Whoever it stops goes on later, by a timer of its own; and it looks after the clients.

A move whose target is not there (it is on its way up) is counted as missed. A kind of move that only missed is made once at the
end, so that a slow machine has the same kinds as a quick one. Nothing here judges what comes of a move.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from appbackplane.transport import BackplaneError

from .components import PARTS
from .moves import LONG_S, STOP_S, SUPERVISOR_STOP_S, Move
from .system import NotInTime, System, wait_for
from .tally import LATE_S_MAX, PATIENCE_S

#: How long a client may take until it has counted all its ends.
CLIENT_S_MAX = PATIENCE_S + 4 * LATE_S_MAX
FLOOD_S = 2.0
#: Percent of one core; 0: no limit.
LIMITS = (0, 50, 80, 150)
#: For orders: what was not done by then is given up by whoever asked for it.
ENDS = ("--timeout", "30")
#: Until the successor of one that was killed is there, to be killed amid its imports.
YOUNG_S_MAX = 10.0
#: How old that one is at most: amid its imports, its registration, or its first hook.
YOUNG_AGE_S = 0.5


class ClientProcess:
    def __init__(self, system: System, name: str, seed: int, *more: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chaos_run.clients", name, str(system.run_dir), str(seed), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=system.environment(),
        )

    def kill(self) -> None:
        """It may not say a word."""
        self.process.kill()
        self.process.communicate()

    def finish(self) -> dict[str, Any]:
        """Ask it to end; what it says."""
        try:
            said, _ = self.process.communicate("stop\n", timeout=CLIENT_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR1)  # its stacks, on standard error
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
            self.kill()
            return {"problems": [f"client {self.name} does not come to its end within {CLIENT_S_MAX:g} s"]}
        lines = said.splitlines()
        if self.process.returncode or not lines or not lines[-1].startswith("{"):
            return {"problems": [f"client {self.name} ended with exit code {self.process.returncode}"]}
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer


class Agent:
    def __init__(self, system: System, clients: Sequence[str], seed: int) -> None:
        self.system = system
        self.done: Counter[str] = Counter()
        self._seed, self._generation, self._dice = seed, 0, random.Random(seed)
        self._clients = {name: self._start(name) for name in clients}
        self._floods: list[ClientProcess] = []
        #: What is to be done later, by threads of their own: who stops the supervisor waits for it with the next question.
        self._later: list[threading.Timer] = []
        self._commands: list[tuple[str, subprocess.Popen[str]]] = []
        self._began_s = time.monotonic()

    def play(self, moves: Sequence[Move], seconds: float) -> None:
        """Do them all, each when it is due, and what follows from them; returns when time is over and all goes on again."""
        self._began_s = time.monotonic()
        for move in moves:
            self._wait_until(move.at_s)
            self._do(move)
        self._wait_until(seconds)
        self._wait_going_on()
        drawn = {move.kind: move for move in moves}
        for kind in [kind for kind in drawn if not self.done[kind]]:
            self.system.wait_up()
            self._do(drawn[kind])
            self._wait_going_on()

    def finish(self) -> dict[str, dict[str, Any]]:
        """End the clients; what each says."""
        for flood in self._floods:
            flood.kill()
        return {name: client.finish() for name, client in self._clients.items()}

    def commands_said(self) -> list[str]:
        """What went wrong with verbs that were called, once they have all ended."""
        lines = []
        for words, process in self._commands:
            _, said = process.communicate(timeout=CLIENT_S_MAX)
            if process.returncode:
                self.done[f"{words.partition(' ')[0]} refused"] += 1
            if process.returncode not in (0, 1) or "Traceback" in said:
                lines.append(f"{words} ended with {process.returncode}: {said.strip()}")
        return lines

    def _wait_until(self, at_s: float) -> None:
        time.sleep(max(0.0, self._began_s + at_s - time.monotonic()))

    def _wait_going_on(self) -> None:
        for timer in self._later:
            timer.join()

    def _after(self, seconds: float, what: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, what)
        timer.start()
        self._later = [*(one for one in self._later if one.is_alive()), timer]

    def _do(self, move: Move) -> None:
        try:
            is_done = self._doers[move.kind](self, move.target)
        except BackplaneError as error:  # the supervisor itself is stopped just now, or says why not
            is_done = False
            self.done[f"{move.kind}: {type(error).__name__}"] += 1
        self.done[move.kind if is_done else f"{move.kind} missed"] += 1

    # Moves. True: done.

    def _kill_all(self, _: str) -> bool:
        pids = [entry["pid"] for entry in self.system.status()["backplanes"] if entry["pid"] is not None]
        return any([send(pid, signal.SIGKILL) for pid in pids])

    def _limit(self, part: str) -> bool:
        self.system.limit(part, self._dice.choice(LIMITS))
        return True

    def _kill_young(self, part: str) -> bool:
        before = self.system.pid_of(part)
        if before is None or not send(before, signal.SIGKILL):
            return False
        found: list[int] = []

        def is_there() -> bool:
            pid = self.system.pid_of(part)
            if pid is not None and pid != before:
                found.append(pid)
            return bool(found)

        try:
            wait_for(f"{part} has a successor", is_there, YOUNG_S_MAX)
        except NotInTime:  # it waits for others that start again with it
            return False
        time.sleep(self._dice.uniform(0.0, YOUNG_AGE_S))
        return send(found[0], signal.SIGKILL)

    def _kill_client(self, name: str) -> bool:
        self._clients[name].kill()
        self._clients[name] = self._start(name)
        return True

    def _flood(self, _: str) -> bool:
        flood = self._start("flood")
        self._floods.append(flood)

        def end() -> None:
            self._floods.remove(flood)
            flood.kill()

        self._after(FLOOD_S, end)
        return True

    def _command(self, *words: str) -> bool:
        process = subprocess.Popen(
            [sys.executable, "-m", "appbackplane.supervisor", *words, *ENDS, "-s", str(self.system.run_dir)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.system.environment(),
        )
        self._commands.append((" ".join(words[:2]), process))
        return True

    def _send(self, part: str, number: signal.Signals) -> bool:
        pid = self.system.pid_of(part)
        return pid is not None and send(pid, number)

    def _stop_for(self, pid: int | None, seconds: float) -> bool:
        if pid is None or not send(pid, signal.SIGSTOP):
            return False
        self._after(seconds, lambda: send(pid, signal.SIGCONT))
        return True

    def _start(self, name: str) -> ClientProcess:
        self._generation += 1
        return ClientProcess(self.system, name, self._seed * 1000 + self._generation)

    _doers: ClassVar[dict[str, Callable[[Agent, str], bool]]] = {
        "kill": lambda self, part: self._send(part, signal.SIGKILL),
        "terminate": lambda self, part: self._send(part, signal.SIGTERM),
        "kill all": _kill_all,
        "kill young": _kill_young,
        "limit": _limit,
        "stop": lambda self, part: self._stop_for(self.system.pid_of(part), STOP_S),
        "stop long": lambda self, part: self._stop_for(self.system.pid_of(part), LONG_S),
        "restart": lambda self, part: self._command("restart", part),
        "rolling": lambda self, _: self._command("restart", "--rolling", "--force", *PARTS),
        "stop supervisor": lambda self, _: self._stop_for(self.system.pid, SUPERVISOR_STOP_S),
        "stop supervisor long": lambda self, _: self._stop_for(self.system.pid, LONG_S),
        "kill client": _kill_client,
        "stop client": lambda self, name: self._stop_for(self._clients[name].process.pid, STOP_S),
        "flood": _flood,
    }


def send(pid: int, number: signal.Signals) -> bool:
    """False: it has gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
