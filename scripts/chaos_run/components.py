"""What the system under chaos runs: short calls, long ones, waiting ones, chains across backplanes, topics and timers.

Each part is a component of a backplane of its own. What may never happen is looked for here, too, where it would happen: work
done twice or out of order in one process is logged as an error that begins with BROKEN (log_check.py looks for it).
"""

from __future__ import annotations

import logging
import os
import random
import time

from appbackplane.runtime import AppObject, Component, every, operation, pause, subscribe

#: Objects a part: enough that calls of one client meet, and that several wait at a time.
WORKERS_COUNT = 6
PARTS = ("north", "east", "south", "west")
#: Where every part publishes.
BEAT = "chaos.beat"
#: Where clients do.
WORD = "chaos.word"
#: How long a hook takes at most, how often one fails, and what it says then.
HOOK_S_MAX, HOOK_FAILS, HOOK_FAILED = 0.1, 0.1, "chaos: a hook fails"
logger = logging.getLogger(__name__)


def broken(text: str) -> RuntimeError:
    """A promise of the runtime is: said in the log, for whoever is not there to hear the error."""
    logger.error("BROKEN %s", text)
    return RuntimeError(f"BROKEN {text}")


class Worker(AppObject):
    def __init__(self, part: str) -> None:
        self.part = part
        self.last_noted: dict[str, int] = {}

    @operation(priority=2)
    def echo(self, number: int) -> int:
        return number

    @operation(priority=3)
    def note(self, client: str, number: int) -> int:
        """What came; each client's numbers grow. A number that comes again, or late, is a broken promise (law 1)."""
        last = self.last_noted.get(client, -1)
        if number <= last:
            raise broken(f"{self.part}: {client} noted {number} after {last}")
        self.last_noted[client] = number
        return number

    @operation(priority=4)
    def weigh(self, number: int, load: bytes) -> int:
        """What came, with much that is of no use."""
        assert load == bytes(len(load))
        return number

    @operation(priority=5)
    def grind(self, number: int, milliseconds: int) -> int:
        """Needs the CPU for long, and never steps aside."""
        end_ns = time.thread_time_ns() + milliseconds * 1_000_000
        while time.thread_time_ns() < end_ns:
            sum(range(1000))
        return number

    @operation(priority=4)
    def block(self, number: int, milliseconds: int) -> int:
        """Keeps its thread, and does nothing with it."""
        time.sleep(milliseconds / 1e3)
        return number

    @operation(priority=4)
    async def hold(self, number: int, milliseconds: int) -> int:
        """Keeps its caller, and nobody else."""
        await pause(milliseconds / 1e3)
        return number

    @operation(priority=2)
    async def relay(self, number: int, path: list[str]) -> int:
        """A chain of calls, through each part of the path in turn."""
        if not path:
            return number
        answer = await self.call(f"{path[0]}.relay", number=number, path=path[1:])
        if answer != number:
            raise broken(f"{self.part}: {path[0]} answered {answer} to {number}")
        return number

    @operation(priority=2)
    async def ask_twice(self, number: int, other: str) -> int:
        """One call while another one's reply is awaited: the object is back in between."""
        for _ in range(2):
            answer = await self.call(f"{other}.echo", number=number)
            if answer != number:
                raise broken(f"{self.part}: {other} answered {answer} to {number}")
        return number


class Herald(AppObject):
    """Publishes, and hears what the others publish."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.published = 0
        self.last_heard: dict[str, tuple[int, int]] = {}
        self.last_words: dict[str, int] = {}

    @every(0.1)
    def beat(self) -> None:
        """Ten a second."""
        self.published += 1
        self.publish(BEAT, origin=self.part, pid=os.getpid(), number=self.published)

    @subscribe(BEAT)
    def on_beat(self, origin: str, pid: int, number: int) -> None:
        """From one process, numbers grow (what a process says after another has taken its place is nobody's promise)."""
        last_pid, last = self.last_heard.get(origin, (0, 0))
        if pid == last_pid and number <= last:
            raise broken(f"{self.part}: beat {number} of {origin} after {last}")
        self.last_heard[origin] = (pid, number)

    @subscribe(WORD)
    def on_word(self, client: str, number: int) -> None:
        """What clients publish; the same holds of it."""
        last = self.last_words.get(client, -1)
        if number <= last:
            raise broken(f"{self.part}: word {number} of {client} after {last}")
        self.last_words[client] = number

    @operation(priority=1)
    def heard(self) -> dict[str, int]:
        """Who was heard last of each part, by its process."""
        return {origin: pid for origin, (pid, _) in self.last_heard.items()}


class Part(Component):
    """One of the four. Its name, and which of them it depends on, are given by its settings."""

    def __init__(self, name: str, needs: list[str]) -> None:
        self.component_name = self.part = name
        self.depends_on = tuple(needs)

    def setup(self) -> None:
        """A key each, so that a client can ask one of them again and again."""
        for number in range(WORKERS_COUNT):
            self.add(Worker(self.part), key=f"worker-{number}")
        self.add(Herald(self.part))

    async def on_initializing(self) -> None:
        """Takes a moment, so that some die of it; and fails now and then: it is tried again."""
        await pause(random.uniform(0.0, HOOK_S_MAX))
        if random.random() < HOOK_FAILS:
            raise RuntimeError(HOOK_FAILED)

    async def on_down(self) -> None:
        """Takes a moment, too."""
        await pause(random.uniform(0.0, HOOK_S_MAX))
