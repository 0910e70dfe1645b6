"""Recording, with real processes: all that was done is there once, after kill -9 too, and reading it needs no system."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack

from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.segments import FIELDS, NAMES_END, RECORD, RECORD_BYTES
from tests.figures import IS_LONG

from .conftest import LIMIT_S, System, Up, ask_until, wait_dead

RECORDED = """
[record]
segment = "640KiB"
[topic."numbers.next"]
record = true
[backplane.tower]
components = ["components:Sender"]
"""
#: That are killed.
GENERATIONS = 3 if IS_LONG else 2


def read(run_dir: Path, backplane: str) -> list[tuple[str, str, dict[str, int]]]:
    """(operation, object, fields) of all that is recorded, and each is whole."""
    found = []
    for path in sorted(segments.actions_folder(run_dir, backplane).glob("*.actions")):
        data = path.read_bytes()
        header, sealed = segments.unpack_header(data)
        assert header.backplane == backplane
        names = segments.unpack_names(data[segments.HEADER_BYTES : NAMES_END])
        index = 0
        while NAMES_END + (index + 1) * RECORD_BYTES <= len(data):
            words = RECORD.unpack_from(data, NAMES_END + index * RECORD_BYTES)
            if words[-1] != segments.check_of(words, index):
                break
            fields = {
                name: words[field.word]
                if field.bits == 64
                else words[field.word] >> field.shift & (1 << field.bits) - 1
                for name, field in FIELDS.items()
            }
            found.append((names[fields["operation"]][1], names[fields["object"]][1], fields))
            index += 1
        assert sealed in (-1, index)
        assert not any(data[NAMES_END + (index + 1) * RECORD_BYTES :]), "records after the end"
    return found


def sent(run_dir: Path) -> list[int]:
    """What is recorded of the topic, in its order."""
    numbers = []
    for path in sorted(segments.messages_folder(run_dir, "tower", "numbers.next").glob("*.messages")):
        data, at = path.read_bytes(), segments.HEADER_BYTES
        while (message := segments.unpack_message(data, at)) is not None:
            numbers.append(msgpack.unpackb(message[2])["number"])
            at = message[3]
    return numbers


def served(system: System, count: int) -> None:
    """Have the sender send so much."""
    with system.connect() as client:
        client.call("sender.send", count=count, timeout=LIMIT_S)


def test_every_action_is_recorded_once_and_every_message_of_a_recorded_topic(up: Up) -> None:
    """Over several segments; read when the system is down, as one does the next morning."""
    system = up(RECORDED)
    with system.connect() as client:
        handles = [client.submit("sender.send", count=1, timeout=LIMIT_S) for _ in range(9_000)]
        for handle in handles:
            handle.result(LIMIT_S)
        told = client.call("backplane.tower.statistics")["recording"]
        assert (told["actions"]["lost"], told["actions"]["problem"]) == (0, None)
        assert told["numbers.next"]["recorded"] == 9_000
    assert system.command("down").returncode == 0
    system.process.wait(LIMIT_S)
    found = Counter(operation for operation, _, _ in read(system.run_dir, "tower"))
    assert found["sender.send"] == 9_000
    assert sent(system.run_dir) == list(range(1, 9_001))
    folder = segments.actions_folder(system.run_dir, "tower")
    assert len(list(folder.glob("*.actions"))) > 2
    assert not list(system.run_dir.rglob("*.tmp")), "what was made for later is left"


def test_what_a_killed_backplane_recorded_is_whole_and_the_next_goes_on_behind_it(up: Up) -> None:
    """kill -9 in the middle of writing: what is there is read, what was torn is not, and what was answered is there."""
    system = up(RECORDED)
    answered = 0
    for generation in range(GENERATIONS):
        with system.connect() as client:
            client.call("sender.send", count=0, timeout=LIMIT_S)  # waits until it serves; `submit` does not
            handles = [client.submit("sender.send", count=1, timeout=LIMIT_S) for _ in range(3_000)]
            handles[500 + 700 * generation].result(LIMIT_S)
            pid = system.pids()["tower"]
            os.kill(pid, signal.SIGKILL)
            wait_dead(pid)
            answered += sum(handle.exception(LIMIT_S) is None for handle in handles)
            ask_until(client, "backplane.tower.statistics", lambda told: told["recording"]["actions"]["recorded"] < 500)
    found = read(system.run_dir, "tower")
    kept = [fields for operation, _, fields in found if operation == "sender.send"]
    assert answered <= len(kept) <= GENERATIONS * 3_001
    assert len({fields["span"] for fields in kept}) == len(kept), "recorded twice"
    numbers = sent(system.run_dir)
    assert len(numbers) >= answered
    assert sum(number == 1 for number in numbers) == GENERATIONS, "each generation counts from one"


def test_limits_stand_in_the_header_and_follow_a_change(up: Up) -> None:
    """Who judges afterwards whether threads were enough has to know how many there were then."""
    system = up(RECORDED)
    served(system, 1)
    assert system.command("scale", "tower", "--threads", "3").returncode == 0
    served(system, 1)

    def limits(of: str) -> list[Any]:
        paths = sorted(segments.actions_folder(system.run_dir, "tower").glob("*.actions"))
        return [segments.unpack_header(path.read_bytes())[0].limits.get(of) for path in paths]

    # A call is answered before it is recorded: what is asked meanwhile is recorded behind it.
    with system.connect() as client:
        ask_until(client, "sender.send", lambda _: limits("threads")[-1] == 3, count=1)
        assert limits("threads")[0] == 1
        client.call("backplane.tower.limits", cpu_limit=70)
        client.call("backplane.tower.quotas", quotas=[0, 9])
        client.call("backplane.tower.threads", count=2)
        ask_until(client, "sender.send", lambda _: limits("threads")[-1] == 2, count=1)
        assert (limits("cpu_limit")[-1], limits("quotas")[-1]) == (70, [0, 9])
        # Who holds the CPU limit says the supervisor, after it was asked: a change of its own.
        ask_until(client, "sender.send", lambda _: limits("cpu_limit_by")[-1] is not None, count=1)
        files_count = len(limits("threads"))
        client.call("backplane.tower.threads", count=2)
        for _ in range(3):
            served(system, 1)
        assert len(limits("threads")) == files_count, "nothing has changed"
