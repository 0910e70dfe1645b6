"""Client programs of these tests, each run in a process of its own: `programs.py NAME RUN_DIR WORDS…`.

They say `ready` once they are at it, and one line of JSON at their end. Those without an end of their own go on until
their standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
import threading
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path

import psutil

from appbackplane.transport import AsyncClient, BackplaneError, Client, PendingCall, connect, connect_async

#: As long as LIMIT_S of tests/waiting.py, which these programs cannot import.
LIMIT_S = 120.0
#: Calls outstanding at a time: what a busy program has, far below what a component admits.
WINDOW = 500
#: As LIMIT_S of tests/waiting.py, which a program does not find: it exists only to end a hang.
LIMIT_S = 120.0


def flood(client: Client, words: list[str]) -> object:
    """Book the numbers FIRST to FIRST + COUNT, half of them here and half there, at all priorities in turn."""
    first, count = map(int, words)
    outstanding: deque[tuple[int, PendingCall]] = deque()
    wrong: list[str] = []
    answered: set[int] = set()
    for number in range(first, first + count):
        if len(outstanding) == WINDOW:
            _take(outstanding, wrong, answered)
        route = "left.book" if number % 2 else "right.book"
        outstanding.append((number, client.submit(route, priority=number // 2 % 8, number=number)))
    while outstanding:
        _take(outstanding, wrong, answered)
    # An answer that comes for a call which has ended is no end of a call: only the session's own count tells of it.
    return {"answered": len(answered), "wrong": wrong, "late": client._calling.session.core.calls.late_count}


def _take(outstanding: deque[tuple[int, PendingCall]], wrong: list[str], answered: set[int]) -> None:
    number, call = outstanding.popleft()
    try:
        answer = call.result()
    except BackplaneError as error:
        wrong.append(f"{number}: {error!r}")
    else:
        if answer != number or number in answered:
            wrong.append(f"{number}: {answer}")
        answered.add(answer)


def payer(client: Client, words: list[str]) -> object:
    """Pay COUNT orders, each under a key of its own, and never look at an answer."""
    for number in range(int(words[0])):
        client.submit("cashier.pay", number=number, idempotency_key=f"order-{number}")
    client.flush()
    print("ready", flush=True)
    sys.stdin.read()
    return None


def steady(client: Client, words: list[str]) -> object:
    """Call ROUTE one time after the other, with PAUSE seconds in between (default: 0)."""
    route, pause_s = words[0], float(words[1]) if words[1:] else 0.0
    answers: set[int] = set()
    errors: list[str] = []
    count = 0
    while not _is_over():
        try:
            answers.add(client.call(route))
        except BackplaneError as error:
            errors.append(repr(error))
        count += 1
        if count == 1:
            _ready()
        threading.Event().wait(pause_s)
    return {"count": count, "answers": sorted(answers), "errors": errors}


def pipelined(client: Client, words: list[str]) -> object:
    """Call ROUTE, with COUNT calls outstanding all the time; PAUSE seconds behind each answer (default: 0)."""
    route, window, pause_s = words[0], int(words[1]), float(words[2]) if words[2:] else 0.0
    outstanding: deque[PendingCall] = deque()
    errors: list[str] = []
    count = replies = 0
    while outstanding or not _is_over():
        while len(outstanding) < window and not _is_over():
            outstanding.append(client.submit(route))
            count += 1
        try:
            if outstanding:
                outstanding.popleft().result()
                replies += 1
        except BackplaneError as error:
            errors.append(repr(error))
        if count == window:
            _ready()
        if not _is_over():
            threading.Event().wait(pause_s)
    return {"count": count, "replies": replies, "errors": errors}


def concurrent(client: Client, words: list[str]) -> object:
    """Call ROUTE from COUNT tasks of an event loop, each with PAUSE seconds in between (default: 0)."""
    route, tasks_count, pause_s = words[0], int(words[1]), float(words[2]) if words[2:] else 0.0
    errors: list[str] = []
    counts = [0, 0]

    async def call_on(client: AsyncClient) -> None:
        while not _is_over():
            counts[0] += 1
            try:
                await client.call(route)
                counts[1] += 1
            except BackplaneError as error:
                errors.append(repr(error))
            if counts[1] == 1:
                _ready()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), pause_s)

    async def run() -> None:
        async with await connect_async(sys.argv[2], timeout=LIMIT_S) as asynchronous:
            await asyncio.gather(*(call_on(asynchronous) for _ in range(tasks_count)))

    asyncio.run(run())
    return {"count": counts[0], "replies": counts[1], "errors": errors}


def crowd(client: Client, words: list[str]) -> object:
    """COUNT clients, each with a call outstanding, a subscription and a message published; then wait to be killed."""
    run_dir, count = Path(words[0]), int(words[1])
    clients = [client, *(connect(run_dir, timeout=LIMIT_S) for _ in range(count - 1))]
    pending = [one.submit("sleeper.hold", seconds=0.05) for one in clients]
    for one in clients:
        one.subscribe("numbers.*", timeout=LIMIT_S)
        one.publish("numbers.next", number=0, filling=b"")
        one.call("sleeper.pid")
    _ready()
    sys.stdin.read()
    return len(pending)


def hearer(client: Client, words: list[str]) -> object:
    """Hear TOPIC until a message comes that is not filled: what was heard, and what the gaps say is missing."""
    count = last = lost = 0
    is_in_order = True
    with client.subscribe(*words, timeout=LIMIT_S) as subscription:
        _ready()
        for message in subscription:
            count += 1
            lost += message.lost
            is_in_order = is_in_order and last < message.body["number"]
            last = message.body["number"]
            if not message.body["filling"]:
                break
        return {
            "count": count, "last": last, "is_in_order": is_in_order,
            "lost": lost, "lost_count": subscription.lost_count,
        }  # fmt: skip


def outrun(client: Client, words: list[str]) -> object:
    """Submit calls of `mill.grind` with SIZE bytes for SECONDS and wait for none; in another thread, ask how many were ground.

    With ENOUGH, on until so many were ground, and those who ask have patience. What became of them, those answers, and what
    memory was needed (MiB): at first, and at most later on.
    """
    size, seconds, enough = int(words[0]), float(words[1]), int(words[2]) if words[2:] else 0
    is_late, is_over = after(seconds / 2), after(seconds)
    ends: Counter[str] = Counter()
    pending: deque[PendingCall] = deque()
    ground: list[int] = []
    early_mib, late_mib = _memory_mib(), 0.0

    def look() -> None:
        while not is_over.is_set():
            try:
                ground.append(client.call("mill.tell", timeout=LIMIT_S if enough else seconds))
            except BackplaneError as error:
                ends[f"ask: {type(error).__name__}"] += 1
            select.select([], [], [], 0.02)

    asking = threading.Thread(target=look)
    asking.start()
    grain, is_ready = bytes(size), False
    while not is_over.is_set() or ends["ground"] < enough:
        try:
            pending.append(client.submit("mill.grind", grain=grain, timeout=1.0))
        except BackplaneError as error:
            ends[f"submit: {type(error).__name__}"] += 1
        while pending and pending[0].done():
            error = pending.popleft().exception()
            ends["ground" if error is None else type(error).__name__] += 1
        if not is_late.is_set():
            early_mib = max(early_mib, _memory_mib())
        else:
            late_mib = max(late_mib, _memory_mib())
            if not is_ready:
                is_ready = True
                _ready()
    asking.join()
    outstanding = client._calling.session.outstanding_count
    return {
        "ends": ends, "ground": ground, "early_mib": early_mib, "late_mib": late_mib,
        "outstanding": outstanding,
    }  # fmt: skip


def after(seconds: float) -> threading.Event:
    """An event that is set then."""
    event = threading.Event()
    timer = threading.Timer(seconds, event.set)
    timer.daemon = True
    timer.start()
    return event


def hurry(client: Client, words: list[str]) -> object:
    """Once told to, submit COUNT calls of ROUTE with a number each and SECONDS of patience; then wait to be killed."""
    route, count, seconds = words[0], int(words[1]), float(words[2])
    client.call("ledger.total")
    _ready()
    sys.stdin.readline()
    pending = [client.submit(route, number=number, timeout=seconds) for number in range(count)]
    client.flush()
    _ready()
    sys.stdin.read()
    return len(pending)


def heap(client: Client, words: list[str]) -> object:
    """COUNT calls of `mill.grind` and then CASTS casts of it, SECONDS each; then wait to be killed."""
    count, casts, seconds = int(words[0]), int(words[1]), float(words[2])
    pending = [client.submit("mill.grind", seconds=seconds) for _ in range(count)]
    for _ in range(casts):
        client.cast("mill.grind", seconds=seconds)
    _wait_taken(client, count + casts)
    _ready()
    sys.stdin.read()
    return len(pending)


def _wait_taken(client: Client, count: int) -> None:
    while True:
        told = client.call("backplane.mill.statistics")
        if told["components"]["mill"]["outstanding"] + told["operations"]["mill.grind"]["count"] >= count:
            return


def engage(client: Client, words: list[str]) -> object:
    """Have work done that takes a minute, here and through somebody else, and some that is put off; then wait to be killed."""
    pending = [
        client.submit("worker.work", key="place-0", name="a"),
        client.submit("agent.have_done", arguments={"name": "b", "key": "place-1"}),
        client.submit("worker.walk", key="gate", who="nobody"),
    ]
    client.call("worker.ended")
    _ready()
    sys.stdin.read()
    return len(pending)


def abroad(client: Client, words: list[str]) -> object:
    """Have work done on node `b`, which takes the SECONDS that this waits; then wait to be killed."""
    seconds = float(words[0])
    pending = client.submit("b/worker.work", key="place-0", name="a", seconds=seconds, timeout=seconds)
    client.flush()
    _ready()
    sys.stdin.read()
    return pending.done()


def hold(client: Client, words: list[str]) -> object:
    """Ten calls that nobody answers in SECONDS; how they end."""
    pending = [client.submit("clerks.hold", timeout=float(words[0])) for _ in range(10)]
    _ready()
    return {"ends": Counter(type(call.exception()).__name__ for call in pending)}


def deaf(client: Client, words: list[str]) -> object:
    """Subscribe to TOPIC, and never look; at the end, the memory (MiB), and what is here and what is missing."""
    with client.subscribe(*words, timeout=LIMIT_S) as subscription:
        before_mib = _memory_mib()
        _ready()
        sys.stdin.read()
        grown_mib = _memory_mib() - before_mib
        heard = 0
        while True:
            try:
                subscription.get(timeout=1.0)
            except TimeoutError:
                break
            heard += 1
        return {"grown_mib": grown_mib, "heard": heard, "lost": subscription.lost_count}


def _memory_mib() -> float:
    return psutil.Process().memory_info().rss / (1 << 20)


def _ready() -> None:
    print("ready", flush=True)


def _is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


PROGRAMS = {
    "outrun": outrun, "deaf": deaf, "flood": flood, "steady": steady, "crowd": crowd, "hearer": hearer, "hurry": hurry,
    "hold": hold, "heap": heap, "engage": engage, "pipelined": pipelined, "concurrent": concurrent, "payer": payer,
    "abroad": abroad,
}  # fmt: skip


def main() -> None:
    """Run one."""
    name, run_dir, *words = sys.argv[1:]
    with connect(Path(run_dir), timeout=LIMIT_S) as client:
        answer = PROGRAMS[name](client, words)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
