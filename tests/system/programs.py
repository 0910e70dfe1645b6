"""Client programs of these tests, each run in a process of its own: `programs.py NAME RUN_DIR WORDS…`.

They say `ready` once they are at it, and one line of JSON at their end. Those without an end of their own go on until
their standard input ends.
"""

from __future__ import annotations

import json
import select
import sys
from collections import deque
from pathlib import Path

from appbackplane.transport import BackplaneError, Client, PendingCall, connect

#: Calls outstanding at a time: what a busy program has, far below what a component admits.
WINDOW = 500


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
    return {"answered": len(answered), "wrong": wrong, "late": client._session.late_count}


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


def steady(client: Client, words: list[str]) -> object:
    """Call ROUTE one time after the other."""
    answers: set[int] = set()
    errors: list[str] = []
    count = 0
    while not _is_over():
        try:
            answers.add(client.call(*words))
        except BackplaneError as error:
            errors.append(repr(error))
        count += 1
        if count == 1:
            _ready()
    return {"count": count, "answers": sorted(answers), "errors": errors}


def crowd(client: Client, words: list[str]) -> object:
    """COUNT clients, each with a call outstanding, a subscription and a message published; then wait to be killed."""
    run_dir, count = Path(words[0]), int(words[1])
    clients = [client, *(connect(run_dir) for _ in range(count - 1))]
    pending = [one.submit("sleeper.hold", seconds=0.05) for one in clients]
    for one in clients:
        one.subscribe("numbers.*")
        one.publish("numbers.next", number=0, filling=b"")
        one.call("sleeper.pid")
    _ready()
    sys.stdin.read()
    return len(pending)


def hearer(client: Client, words: list[str]) -> object:
    """Hear TOPIC until a message comes that is not filled: what was heard, and what the gaps say is missing."""
    count = last = lost = 0
    is_in_order = True
    with client.subscribe(*words) as subscription:
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


def _ready() -> None:
    print("ready", flush=True)


def _is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


PROGRAMS = {"flood": flood, "steady": steady, "crowd": crowd, "hearer": hearer}


def main() -> None:
    """Run one."""
    name, run_dir, *words = sys.argv[1:]
    with connect(Path(run_dir)) as client:
        answer = PROGRAMS[name](client, words)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
