"""A system that records, a stream that tells of it, and both killed again and again: what must be true afterwards.

    python -m tests.spark.stream.killing [KILLS] [SEED]

The truth is what lies in the segments, read record by record in plain Python; what was told is what lies in the recorded
topic. Half of the drivers die at a random moment, half just when a decision was kept, which is when it is being told; of one
alone the seed says which.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.segments import FIELDS, NAMES_END, RECORD, RECORD_BYTES
from appbackplane.spark.stream.telling import TOPIC
from appbackplane.transport import Client, connect
from appbackplane.transport.errors import BackplaneError
from tests.waiting import EVERY_S, Limit, wait_until

from ..systems import messages, running

HERE = Path(__file__).parent
WINDOW_NS = 2_000_000_000
#: For whatever should take seconds, on a machine that does much else.
LIMIT_S = 120.0
#: Calls that are answered in two and a half seconds: a driver is killed after fewer, by chance.
ANSWERED_MAX = 750
SYSTEM = f"""
[record]
segment = "640KiB"
[topic."{TOPIC}"]
record = true
[backplane.shop]
components = ["shop:Shop"]
restart = {{ max = 1000, within = "60s" }}
[backplane.stock]
components = ["shop:Stock"]
restart = {{ max = 1000, within = "60s" }}
"""
SHOP = """
from appbackplane.runtime import Component, operation

class Shop(Component):
    @operation()
    def buy(self, n: int) -> int:
        if n % 10 == 0:
            raise ValueError("sold out")
        return n

class Stock(Component):
    @operation()
    def take(self, n: int) -> int:
        return n
"""
#: The JVM as it starts soonest; what it loses later nobody waits for.
SOON = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

#: (window, component, operation)
Key = tuple[int, str, str]


class Driver:
    """One `pipeline stream`."""

    def __init__(self, run_dir: Path, checkpoint: Path) -> None:
        self.kept = checkpoint / "windows.msgpack"
        words = [str(HERE / "driver.py"), str(run_dir), str(checkpoint), str(WINDOW_NS // 1_000_000)]
        self.process = subprocess.Popen(
            [sys.executable, *words], env=os.environ | SOON, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=(checkpoint.parent / "driver.err").open("a"),
        )  # fmt: skip

    def wait_kept(self) -> None:
        """Until the next decision is kept, to the millisecond."""
        before = self._mark()
        limit = Limit()
        while self._mark() == before:
            assert self.process.poll() is None, "the driver has ended by itself (see driver.err)"
            limit.check("nothing is decided any more", pause_s=EVERY_S)

    def kill(self) -> None:
        """With its JVM, as by `kill -9 -PGID`."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """As Ctrl-C does it; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_S)

    def _mark(self) -> tuple[int, int]:
        with suppress(FileNotFoundError):
            found = self.kept.stat()
            return found.st_ino, found.st_mtime_ns
        return 0, 0


def recorded(run_dir: Path) -> Counter[Key]:
    """How many actions ended in which window, of what users have written; errors under "!operation"."""
    counts: Counter[Key] = Counter()
    for path in sorted((run_dir / segments.RECORDS).glob("*/*.actions")):
        data = path.read_bytes()
        names = segments.unpack_names(data[segments.HEADER_BYTES : NAMES_END])
        index = 0
        while NAMES_END + (index + 1) * RECORD_BYTES <= len(data):
            words = RECORD.unpack_from(data, NAMES_END + index * RECORD_BYTES)
            if words[-1] != segments.check_of(words, index):
                break
            index += 1
            number, outcome = (
                words[FIELDS[name].word] >> FIELDS[name].shift & (1 << FIELDS[name].bits) - 1
                for name in ("operation", "outcome")
            )
            operation = names[number][1]
            component = operation.rpartition(".")[0]
            if not component.startswith("backplane."):
                window = (words[0] + words[FIELDS["took"].word]) // WINDOW_NS * WINDOW_NS
                counts[window, component, operation] += 1
                counts[window, component, f"!{operation}"] += outcome != 0
    return +counts


def told(run_dir: Path) -> list[dict[str, Any]]:
    """The rows of the recorded topic."""
    return messages(run_dir, TOPIC)


def sums(rows: list[dict[str, Any]]) -> Counter[Key]:
    """As `recorded`."""
    counts: Counter[Key] = Counter()
    for row in rows:
        counts[row["window_ns"], row["component"], row["operation"]] += row["count"]
        counts[row["window_ns"], row["component"], f"!{row['operation']}"] += row["errors"]
    return +counts


class Load(threading.Thread):
    """Calls, some 300 a second, whatever dies meanwhile."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(daemon=True)
        self._run_dir, self._is_over = run_dir, threading.Event()
        self.answered = 0

    def run(self) -> None:
        with connect(self._run_dir, timeout=LIMIT_S) as client:
            n = 0
            while not self._is_over.wait(0.03):
                calls = []
                for _ in range(10):
                    n += 1
                    with suppress(BackplaneError):
                        calls.append(client.submit("shop.buy" if n % 3 else "stock.take", n=n, timeout=1.0))
                for call in calls:
                    with suppress(BackplaneError):
                        call.result()
                        self.answered += 1

    def end(self) -> None:
        self._is_over.set()
        self.join(LIMIT_S)


def pid_of(client: Client, name: str) -> int:
    return next(
        each["pid"] for each in client.call("supervisor.status", timeout=LIMIT_S)["backplanes"] if each["name"] == name
    )


def kill_backplane(client: Client, chance: random.Random) -> bool:
    """One of both, if it runs at this moment."""
    pid = pid_of(client, chance.choice(["shop", "stock"]))
    if pid:
        os.kill(pid, signal.SIGKILL)
    return bool(pid)


def kill_all_the_time(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill, end, and compare; what it came to."""
    chance = random.Random(seed)
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    with running(folder, SYSTEM, shop=SHOP) as run_dir, connect(run_dir, timeout=LIMIT_S) as client:
        load = Load(run_dir)
        load.start()
        began_s = time.monotonic()
        backplanes = 0
        for number in range(kills):
            driver = Driver(run_dir, checkpoint)
            for _ in range(chance.randint(1, 3)):
                driver.wait_kept()
                backplanes += kill_backplane(client, chance)
            if (number + seed) % 2:
                answered = load.answered + chance.randrange(ANSWERED_MAX)
                wait_until(lambda answered=answered: load.answered >= answered)  # type: ignore[misc]
            else:
                driver.wait_kept()
            driver.kill()
        driver = Driver(run_dir, checkpoint)
        driver.wait_kept()
        backplanes += kill_backplane(client, chance)
        driver.wait_kept()
        load.end()
        limit = Limit()
        while sums(told(run_dir)) != (truth := recorded(run_dir)) and limit.left_s:
            assert driver.process.poll() is None, "the driver has ended by itself (see driver.err)"
            limit.check("what is told is not what was recorded", pause_s=20 * EVERY_S)
        code = driver.end()
        rows = told(run_dir)
    on_time = Counter((row["window_ns"], row["component"], row["operation"]) for row in rows if not row["late"])
    ever = Counter((row["window_ns"], row["component"], row["operation"], row["step"]) for row in rows)
    return {
        "seed": seed,
        "drivers_killed": kills,
        "backplanes_killed": backplanes,
        "seconds": round(time.monotonic() - began_s, 1),
        "actions": sum(count for key, count in truth.items() if key[2][0] != "!"),
        "answered": load.answered,
        "windows": len(on_time),
        "late": sum(row["late"] for row in rows),
        "twice": [key for key, count in (on_time | ever).items() if count > 1],
        "differs": [(key, truth[key], sums(rows)[key]) for key in truth | sums(rows) if truth[key] != sums(rows)[key]],
        "exit": code,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ab-") as place:
        count, start = (
            int(word) for word in [*sys.argv[1:], *("10", str(random.randrange(1 << 30)))[len(sys.argv) - 1 :]]
        )
        try:
            found = kill_all_the_time(Path(place), count, start)
        finally:
            print((Path(place) / "driver.err").read_text()[-3000:], file=sys.stderr)
        print(json.dumps(found, indent=1))
        sys.exit(bool(found["twice"] or found["differs"] or found["exit"]))
