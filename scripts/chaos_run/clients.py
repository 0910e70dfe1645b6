"""The clients, each in a process of its own: `python -m chaos_run.clients NAME RUN_DIR SEED [light]`.

`threads`: a thread a call, several at a time. `bursts`: hundreds of calls under way at once. `tasks`: asyncio. Each also hears
a topic. They say `ready`, go on until a line comes on standard input, wait until each of their calls has ended, and say how in
one line of JSON. `flood` asks for much, reads nothing, and waits to be killed.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from appbackplane.transport import (
    AsyncClient,
    BackplaneError,
    Busy,
    Cancelled,
    Client,
    Message,
    PendingCall,
    Subscription,
    connect,
    connect_async,
)

from .census import of_process
from .components import BEAT, PARTS, WORD
from .tally import LATE_S_MAX, LOADS_BYTES, PATIENCE_S, Question, Tally, questions

THREADS_COUNT, TASKS_COUNT, BURST = 8, 40, 300
#: Between two bursts, and after a refusal: a client that spins takes the CPU that a restart needs.
PAUSE_S = 0.03
LIGHT = "light"
#: Between two looks at calls that are under way.
LOOK_EVERY_S = 0.005
PUBLISH_EVERY = 10
#: For an end that does not come though its deadline has.
GIVE_UP_S = PATIENCE_S + LATE_S_MAX


class Hearing:
    """What one client has heard: from one process, numbers grow."""

    def __init__(self, tally: Tally) -> None:
        self.heard = self.lost = 0
        #: Who has been heard since the last time that this was emptied.
        self.origins: set[str] = set()
        self._tally = tally
        self._last: dict[int, int] = {}

    def take(self, message: Message) -> None:
        self.heard += 1
        self.lost += message.lost
        self.origins.add(message.body["origin"])
        pid, number = message.body["pid"], message.body["number"]
        last = self._last.pop(pid, 0)
        if number <= last:
            self._tally.note(f"{BEAT} of {message.body['origin']}: {number} after {last}")
        self._last[pid] = number
        while len(self._last) > 10 * len(PARTS):  # of processes that have died long ago
            del self._last[next(iter(self._last))]

    @property
    def unheard(self) -> list[str]:
        """Parts that have not been heard since."""
        return sorted({*PARTS} - self.origins)

    def conclude(self, unconfirmed: Collection[str]) -> None:
        """Who should have been heard by now, when all are up again, and was not: its subscription was lost. `unconfirmed`:
        those that have not confirmed one.
        """
        for part in self.unheard:
            how = "was not confirmed" if part in unconfirmed else "was confirmed"
            self._tally.note(f"{BEAT}: nothing is heard of {part} any more (the subscription {how})")


def hear_all(subscription: Subscription, hearing: Hearing) -> None:
    """At the end, when nobody is killed any more: until each part has been heard once more."""
    hearing.origins.clear()
    end_s = time.monotonic() + GIVE_UP_S
    while hearing.unheard and time.monotonic() < end_s:
        try:
            hearing.take(subscription.get(timeout=0.5))
        except TimeoutError:
            continue
    hearing.conclude(subscription.unconfirmed)


#: Calls without an end, by their place: when they began, and what was asked.
UnderWay = dict[int, tuple[float, Question]]


# Blocking, one call a thread


def threads(run_dir: Path, seed: int, stop: threading.Event) -> dict[str, Any]:
    with connect(run_dir) as client:
        tallies = [Tally() for _ in range(THREADS_COUNT + 1)]
        hearing = Hearing(tallies[-1])
        begun: UnderWay = {}

        def work(number: int) -> None:
            name = f"threads-{seed}-{number}"
            for question in questions(name, random.Random(f"{seed}/{number}"), loads()):
                if stop.is_set():
                    return
                if not ask(client, question, tallies[number], begun, number):
                    stop.wait(PAUSE_S)

        workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS_COUNT)]
        with client.subscribe(BEAT) as subscription:
            for worker in workers:
                worker.start()
            ready()
            while not stop.is_set():
                try:
                    hearing.take(subscription.get(timeout=0.5))
                except TimeoutError:
                    continue
            hear_all(subscription, hearing)
        end_s = time.monotonic() + GIVE_UP_S
        for worker in workers:
            worker.join(max(0.0, end_s - time.monotonic()))
        return report(tallies, hearing, begun, client._calling.session.core.calls.late_count)


def ask(client: Client, question: Question, tally: Tally, begun: UnderWay, place: int) -> bool:
    """One call, to its end. False: it was refused."""
    began_s = time.monotonic()
    begun[place] = (began_s, question)
    tally.begin()
    answer, error = None, None
    try:
        pending = submit(client, question)
        if question.is_taken_back:
            pending.cancel()
        answer = pending.result()
    except BackplaneError as failure:
        error = failure
    del begun[place]
    tally.end(question, answer, error, time.monotonic() - began_s)
    return error is None


def submit(client: Client, question: Question) -> PendingCall:
    """Begin it, and publish its number now and then."""
    if question.number % PUBLISH_EVERY == 0:
        with suppress(Busy):  # one of them has no room: it will see the gap
            client.publish(WORD, client=f"{os.getpid()}-{threading.get_ident()}", number=question.number)
    return client.submit(
        question.route,
        key=question.key,
        timeout=question.timeout,
        retry=question.is_repeatable,
        number=question.number,
        **question.arguments,
    )


# Blocking, hundreds of calls at a time


def bursts(run_dir: Path, seed: int, stop: threading.Event) -> dict[str, Any]:
    with connect(run_dir) as client:
        tally = Tally()
        begun: UnderWay = {}
        hearing = Hearing(tally)
        under_way: dict[int, PendingCall] = {}
        asked = questions(f"bursts-{seed}", random.Random(seed), loads())
        with client.subscribe(BEAT) as subscription:
            ready()
            while not stop.is_set():
                for place in range(BURST):
                    question = next(asked)
                    began_s = time.monotonic()
                    tally.begin()
                    try:
                        pending = submit(client, question)
                    except BackplaneError as error:
                        tally.end(question, None, error, time.monotonic() - began_s)
                        continue
                    begun[place] = (began_s, question)
                    under_way[place] = pending
                    if question.is_taken_back:
                        pending.cancel()
                while under_way and not is_overdue(begun):
                    collect(under_way, begun, tally)
                    time.sleep(LOOK_EVERY_S)
                while (message := subscription.try_get()) is not None:
                    hearing.take(message)
                stop.wait(PAUSE_S)
            hear_all(subscription, hearing)
        return report([tally], hearing, begun, client._calling.session.core.calls.late_count)


def collect(under_way: dict[int, PendingCall], begun: UnderWay, tally: Tally) -> None:
    """Count those that have ended."""
    for place, pending in list(under_way.items()):
        if pending.done():
            began_s, question = begun.pop(place)
            error = under_way.pop(place).exception()
            tally.end(question, None if error else pending.result(), error, time.monotonic() - began_s)


def is_overdue(begun: UnderWay) -> bool:
    """Whether there is one that should have ended long ago: it is not waited for any more."""
    oldest_s = min((began_s for began_s, _ in begun.values()), default=None)
    return oldest_s is not None and time.monotonic() - oldest_s > GIVE_UP_S


# asyncio


def tasks(run_dir: Path, seed: int, stop: threading.Event) -> dict[str, Any]:
    return asyncio.run(run_tasks(run_dir, seed, stop))


async def run_tasks(run_dir: Path, seed: int, stop: threading.Event) -> dict[str, Any]:
    tally = Tally()
    begun: UnderWay = {}
    hearing = Hearing(tally)
    asked = questions(f"tasks-{seed}", random.Random(seed), loads())
    client = await connect_async(run_dir)
    try:
        subscription = await client.subscribe(BEAT)

        async def hear() -> None:
            async for message in subscription:
                hearing.take(message)

        hearer = asyncio.create_task(hear())
        workers = [asyncio.create_task(work(client, asked, tally, begun, n, stop)) for n in range(TASKS_COUNT)]
        ready()
        await asyncio.to_thread(stop.wait)
        await asyncio.wait(workers, timeout=GIVE_UP_S)
        hearing.origins.clear()
        end_s = time.monotonic() + GIVE_UP_S
        while hearing.unheard and time.monotonic() < end_s:
            await asyncio.sleep(0.1)
        hearing.conclude(subscription.unconfirmed)
        for worker in workers:
            if worker.done():
                worker.result()
        hearer.cancel()
        return report([tally], hearing, begun, client._session.core.calls.late_count)
    finally:
        await client.close()


async def work(
    client: AsyncClient, asked: Any, tally: Tally, begun: UnderWay, place: int, stop: threading.Event
) -> None:
    while not stop.is_set():
        question = next(asked)
        began_s = time.monotonic()
        begun[place] = (began_s, question)
        tally.begin()
        answer: Any = None
        error: BackplaneError | None = None
        try:
            # Begun at once, without a chance for another task to come before: their numbers are to arrive in order.
            future = client.submit(
                question.route,
                key=question.key,
                timeout=question.timeout,
                retry=question.is_repeatable,
                number=question.number,
                **question.arguments,
            )
            if question.is_taken_back:
                future.cancel()
            answer = await future
        except asyncio.CancelledError:
            if not question.is_taken_back:
                raise
            error = Cancelled("by us")
        except BackplaneError as failure:
            error = failure
        del begun[place]
        tally.end(question, answer, error, time.monotonic() - began_s)
        await asyncio.sleep(PAUSE_S if error else 0)


# Floods


def flood(run_dir: Path, seed: int, stop: threading.Event) -> dict[str, Any]:
    """Much is asked, and no answer read: as many casts as there is room for, of what is done soon."""
    client = connect(run_dir)
    client.subscribe(BEAT)
    ready()
    for question in questions(f"flood-{seed}", random.Random(seed), loads()):
        if stop.is_set():
            break
        if question.route.rpartition(".")[2] not in ("echo", "note", "relay"):
            continue
        try:
            client.cast(question.route, key=question.key, number=question.number, **question.arguments)
        except BackplaneError:
            stop.wait(PAUSE_S)
    return {}


def report(tallies: list[Tally], hearing: Hearing, begun: UnderWay, late: int) -> dict[str, Any]:
    """What a client says at its end."""
    whole = Tally()
    for tally in tallies:
        whole.issued += tally.issued
        whole.ended += tally.ended
        whole.problems += tally.problems
        for operation, ends in tally.ends.items():
            for how, count in ends.items():
                whole.ends.setdefault(operation, type(ends)())[how] += count
    whole.problems += [f"{question}: no end" for _, question in begun.values()]
    if whole.issued != whole.ended:
        whole.note(f"{whole.issued} calls were made, {whole.ended} have ended")
    if late > whole.excused_late:
        whole.note(
            f"{late} answers came for calls that had ended, of which {whole.excused_late} had none: some came twice"
        )
    return {**whole.to_map(), "late": late, "heard": hearing.heard, "lost": hearing.lost, "holds": of_process("self")}


PROGRAMS: dict[str, Callable[[Path, int, threading.Event], dict[str, Any]]] = {
    "threads": threads, "bursts": bursts, "tasks": tasks, "flood": flood,
}  # fmt: skip


def loads() -> tuple[int, ...]:
    """Bytes of heavy calls; LIGHT ones are small: what large bodies leave in an allocator would hide what is looked for."""
    return LOADS_BYTES[:1] if LIGHT in sys.argv[4:] else LOADS_BYTES


def ready() -> None:
    print("ready", flush=True)


def main() -> None:
    name, run_dir, seed = sys.argv[1:4]
    faulthandler.register(signal.SIGUSR1)
    stop = threading.Event()

    def wait_for_word() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=wait_for_word, daemon=True).start()
    print(json.dumps(PROGRAMS[name](Path(run_dir), int(seed), stop)), flush=True)


if __name__ == "__main__":
    main()
