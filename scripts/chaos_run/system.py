"""System: the one that is put to chaos, brought up in a session of its own and watched from outside.

A session, because whoever is left in it afterwards has outlived its system; a temporary folder of its own, because whatever is
in it afterwards was left behind. What is waited for has a limit, which is generous: machines are slow, and busy with much else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from appbackplane.transport import BackplaneError, Client, connect

from . import census
from .components import PARTS

SCRIPTS: Final = Path(__file__).resolve().parents[1]
#: In the folder of a run: what its supervisor says.
SAID: Final = "said"
#: For whatever should take a second or two.
LIMIT_S: Final = 60.0
#: Between two looks at what nobody announces.
LOOK_EVERY_S: Final = 0.05
LIMIT_CALL_S: Final = 10.0
#: A census that has just been taken so often, with the same result, is believed.
STEADY_COUNT: Final = 5
#: So many restarts as the moves make, and more; and short waits, since it is not the backoff that is looked at.
RESTART: Final = '{ max = 1_000_000, within = "1h", backoff = "10ms", backoff_max = "50ms", healthy_after = "50ms" }'

#: Ten times as long as anything here is waited for: what is asked takes 0.3 s at most, so a drain that is not done long before
#: waits for something that does not come. It has to be seen, and not to be ended by its limit.
DRAIN_LIMIT: Final = "10m"


class NotInTime(Exception):
    """What should have happened has not."""


class System:
    """A supervisor in the foreground, and what is known of it."""

    def __init__(self, folder: Path, parts: Mapping[str, str]) -> None:
        """`parts`: name to more lines of its table."""
        self.folder, self.run_dir, self.scratch = folder, folder / "run", folder / "tmp"
        self.scratch.mkdir()
        self.process = brought_up(folder, configuration(parts), TMPDIR=str(self.scratch))
        self.pid = self.process.pid
        self._client: Client | None = None

    def environment(self) -> dict[str, str]:
        """Of everything that is started for this run."""
        return environment_of(self.folder)

    @property
    def client(self) -> Client:
        """Ours, for looking; closed while it is counted."""
        if self._client is None:
            self._client = connect(self.run_dir)
        return self._client

    def status(self, *, statistics: bool = False) -> dict[str, Any]:
        told: dict[str, Any] = self.client.call("supervisor.status", statistics=statistics, timeout=LIMIT_S)
        return told

    def pid_of(self, part: str) -> int | None:
        """Its process, if there is one."""
        return next(entry["pid"] for entry in self.status()["backplanes"] if entry["name"] == part)

    def wait_up(self) -> None:
        """Until all are where they are to be, whatever they are asked meanwhile."""
        self._wait_until_none("all are up again", away, statistics=False)

    def wait_settled(self) -> dict[str, Any]:
        """Until all is where it is to be, and nothing is queued or waited for; the status then."""
        return self._wait_until_none("the system is at rest", unsettled, statistics=True)

    def _wait_until_none(
        self, what: str, obstacles: Callable[[Mapping[str, Any]], list[str]], *, statistics: bool
    ) -> dict[str, Any]:
        told: dict[str, Any] = {}

        def is_so() -> bool:
            told.update(self.status(statistics=statistics))
            return not obstacles(told)

        try:
            wait_for(what, is_so)
        except NotInTime as late:
            raise NotInTime(f"{late}: {'; '.join(obstacles(told))}") from None
        return told

    def limit(self, part: str, percent: int) -> None:
        """Another CPU limit, until its next generation."""
        self.client.call(f"backplane.{part}.limits", cpu_limit=percent, timeout=LIMIT_CALL_S)

    def connect_all(self, parts: list[str]) -> None:
        """Have each part call each other, so that the same connections are there whoever was restarted last."""
        for part in parts:
            for other in parts:
                if part != other:
                    self.client.call(f"{part}.relay", number=1, path=[other], timeout=LIMIT_S)

    def wait_heard(self) -> None:
        """Until each part has heard the present process of each: what was subscribed is subscribed again."""
        pids = {entry["name"]: entry["pid"] for entry in self.status()["backplanes"]}
        for part in pids:
            wait_for(f"{part} hears all others", lambda part=part: self.client.call(f"{part}.heard") == pids)  # type: ignore[misc]

    def count(self) -> dict[str, Any]:
        """A census, with nobody connected from here; of those that have just been let go of, a trace may still be in it."""
        pids = {entry["name"]: entry["pid"] for entry in self.status()["backplanes"]}
        self.let_go()
        return census.of_system(self.pid, pids, self.run_dir, self.scratch)

    def count_steady(self, count: Callable[[], dict[str, Any]] | None = None) -> dict[str, Any]:
        """A census that is the same several times in a row. `count`: how, if not by `count`."""
        take = count or self.count
        found = [take()]

        def is_steady() -> bool:
            found.append(take())
            return len(found) > STEADY_COUNT and not any(
                census.differences(found[-1], one) for one in found[-STEADY_COUNT:]
            )

        wait_for("a census is the same several times in a row", is_steady)
        return found[-1]

    def let_go(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def end(self) -> list[str]:
        """Take it down in order; what is not right about that, or is left behind."""
        group, children = census.group_of(self.run_dir), census.children_of(self.pid)
        self.let_go()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return [f"the supervisor does not go down within {LIMIT_S:g} s"]
        left = [] if code == 0 else [f"the supervisor ended with exit code {code}"]
        try:  # its guardian sees its end, and has a session of its own
            wait_for("its children have ended", lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
        except NotInTime as late:
            left.append(f"{late}: {children}")
        if processes := census.processes_of(self.pid):
            left.append(f"processes outlive the system: {processes}")
        if self.run_dir.exists():
            left.append(f"the run directory is left, with {[path.name for path in self.run_dir.iterdir()]}")
        if groups := census.groups_below(group):
            left.append(f"groups are left: {groups}")
        if files := [str(path) for path in self.scratch.rglob("*")]:
            left.append(f"temporary files are left: {files}")
        return left

    def last_words(self) -> list[str]:
        """What was said, but not as a line of the log: what Python itself says of a failure."""
        return [line for line in (self.folder / SAID).read_text().splitlines() if " | " not in line]

    def kill_all(self) -> None:
        """Whatever has happened: nothing of it goes on."""
        for pid in census.processes_of(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def environment_of(folder: Path) -> dict[str, str]:
    """Of everything that is started for a run in this folder."""
    paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "XDG_STATE_HOME": str(folder / "state")}


def brought_up(folder: Path, toml: str, **environment: str) -> subprocess.Popen[bytes]:
    """A supervisor in the foreground, whose system is up; what it says is in `SAID`. Raises RuntimeError with that."""
    (folder / "system.toml").write_text(toml, encoding="utf-8")
    said = folder / SAID
    with said.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "appbackplane.supervisor", "up", str(folder / "system.toml")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment_of(folder) | environment,
            start_new_session=True,
        )
    try:
        wait_for("the system is up", lambda: "is up, pid" in said.read_text() or process.poll() is not None)
    except NotInTime as late:
        process.kill()
        raise RuntimeError(f"{late}: {said.read_text()}") from None
    if process.poll() is not None:
        raise RuntimeError(f"it does not come up: {said.read_text()}")
    return process


def configuration(parts: Mapping[str, str]) -> str:
    """Its TOML. Each part depends on the next."""
    tables = [f'[system]\nname = "chaos"\nrun_dir = "run"\nrestart = {RESTART}\ndrain_limit = "{DRAIN_LIMIT}"\n']
    names = list(parts)
    for name, below in zip(names, [*names[1:], None], strict=True):
        needs = [below] if below else []
        tables.append(f'[backplane.{name}]\ncomponents = ["chaos_run.components:Part"]\n{parts[name]}\n')
        tables.append(f'[backplane.{name}.settings.Part]\nname = "{name}"\nneeds = {needs}\n')
    return "\n".join(tables)


#: As different from each other as they can be set: threads, a limit held by the kernel, another order, little patience with who
#: says nothing; and when the third dies, those before it, which depend on it, start again with it.
SETTINGS: Final = (
    "threads = 2",
    'threads = 1\npreempt = false\nstuck_after = "2s"',
    'threads = 3\ncpu_limit = 80\nrestart = { strategy = "rest_for_one" }',
    'order = "deadline"',
)
DIFFERENT: Final = dict(zip(PARTS, SETTINGS, strict=True))


@contextmanager
def running(parts: Mapping[str, str] = DIFFERENT) -> Iterator[System]:
    """One that is up. It is killed at the end, unless it has ended."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        system = System(Path(folder), parts)
        try:
            yield system
        finally:
            system.let_go()
            system.kill_all()


def is_away(entry: Mapping[str, Any]) -> bool:
    """Whether a backplane is not where it is to be, by its entry of a status."""
    return entry["state"] != "up" or set(entry["components"].values()) != {"primary"}


def away(told: Mapping[str, Any]) -> list[str]:
    """Who is, and where, by its status."""
    return [
        f"{entry['name']} is {entry['state']}, {entry['components']}, {entry['reason']}"
        for entry in told["backplanes"]
        if is_away(entry)
    ]


def unsettled(told: Mapping[str, Any]) -> list[str]:
    """What keeps it from being at rest, by its status with statistics."""
    lines = [*([] if told["state"] == "up" else [f"it is {told['state']}"]), *away(told)]
    for entry in told["backplanes"]:
        name, statistics = entry["name"], entry["statistics"]
        if is_away(entry):
            continue
        if statistics is None:
            lines.append(f"{name} does not say what it does")
        else:
            queues = statistics["queues"]
            busy = {what: count for what, count in queues.items() if what in ("actions", "waiting") and count}
            held = {
                component: account["outstanding"]
                for component, account in statistics["components"].items()
                if account["outstanding"]
            }
            if busy or held or statistics["links"]["outstanding"]:
                lines.append(f"{name}: queues {busy}, outstanding {held}, links {statistics['links']}")
    return lines


def wait_for(what: str, is_so: Callable[[], bool], limit_s: float = LIMIT_S, every_s: float = LOOK_EVERY_S) -> None:
    """Look until it is so. Raises `NotInTime`."""
    end_s = time.monotonic() + limit_s
    while True:
        try:
            if is_so():
                return
            because = ""
        except BackplaneError as error:
            because = f" ({error})"
        if time.monotonic() > end_s:
            raise NotInTime(f"not within {limit_s:g} s: {what}{because}")
        time.sleep(every_s)
