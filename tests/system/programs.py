"""Client programs of these tests, each run in a process of its own: `programs.py NAME RUN_DIR WORDS…`.

They print one line of JSON at their end.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path

from appbackplane.transport import Client, PendingCall, connect

#: Calls outstanding at a time: what a busy program has, far below what a component admits.
WINDOW = 500


def flood(client: Client, words: list[str]) -> object:
    """Book the numbers FIRST to FIRST + COUNT, half of them here and half there, at all priorities in turn."""
    first, count = map(int, words)
    outstanding: deque[tuple[int, PendingCall]] = deque()
    wrong, answered = [], set()
    for number in range(first, first + count):
        if len(outstanding) == WINDOW:
            _take(outstanding, wrong, answered)
        route = "left.book" if number % 2 else "right.book"
        outstanding.append((number, client.submit(route, priority=number // 2 % 8, number=number)))
    while outstanding:
        _take(outstanding, wrong, answered)
    return {"answered": len(answered), "wrong": wrong, "late": client._session.late_count}


def _take(outstanding: deque[tuple[int, PendingCall]], wrong: list[str], answered: set[int]) -> None:
    number, call = outstanding.popleft()
    try:
        answer = call.result()
    except Exception as error:
        wrong.append(f"{number}: {error!r}")
    else:
        if answer != number or number in answered:
            wrong.append(f"{number}: {answer}")
        answered.add(answer)


PROGRAMS = {"flood": flood}


def main() -> None:
    """Run one."""
    name, run_dir, *words = sys.argv[1:]
    with connect(Path(run_dir)) as client:
        answer = PROGRAMS[name](client, words)
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
