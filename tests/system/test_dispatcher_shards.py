"""Shards in processes: two cores at once, a death, topics, timers, and one more by `reload`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import call_message, cast_message
from appbackplane.transport import Client, PeerDown, connect_async
from appbackplane.transport.resolver import home
from tests.waiting import wait_until

from .cameras import Count, Frame, Spin, Tick
from .conftest import HERE, LIMIT_S, System, Up, ask_until, command

#: What is forwarded to a shard that goes down first waits, until the limit, for it to come back.
SHARDS = """
drain_limit = "500ms"
stop_limit = "5s"
[backplane.eye]
components = ["cameras:Cameras"]
replicas = 2
[backplane.desk]
components = ["cameras:Desk"]
"""
TWO = ("eye-1", "eye-2")
THREE = (*TWO, "eye-3")
CAMERAS = range(12)


def at(places: tuple[str, ...], place: str, among: range = range(1_000)) -> list[int]:
    """The cameras that are at home there."""
    return [camera for camera in among if home(places, str(camera)) == place]


@pytest.fixture
def eyes(folder: Path, up: Up) -> System:
    """Two shards, up."""
    shutil.copy(HERE / "cameras.py", folder)
    return up(SHARDS)


def see(client: Client, camera: int, number: int) -> list[int]:
    """Have it see, at its home; all it has seen."""
    _, seen = call_message(client, "cameras", Frame(camera, number))
    found: list[int] = seen
    return found


def spins_count(told: Any) -> int:
    """Calls of `spin` that a shard has, by its statistics."""
    return sum(call["route"] == "cameras.spin" for call in told["oldest"]["calls"])


def wait_for(client: Client, path: Path) -> None:
    """Until a handler has made it."""
    ask_until(client, "supervisor.status", lambda _: path.exists())


def test_handlers_that_compute_do_so_at_once_in_two_shards(eyes: System) -> None:
    """Each ends only when the other has begun: in one process, with one worker, they would wait for ever."""
    files = [str(eyes.folder / name) for name in ("first", "second")]
    pids = eyes.pids()
    with eyes.connect() as client:
        spins = [Spin(at(TWO, "eye-1")[0], files[0], files[1]), Spin(at(TWO, "eye-2")[0], files[1], files[0])]
        # Without a key: wherever they come, they find home.
        pending = [client.submit("cameras.spin", camera=s.camera, begun=s.begun, until=s.until) for s in spins]
        assert [each.result() for each in pending] == [pids[name] for name in TWO]


def test_whoever_sends_and_wherever_it_comes_a_key_has_one_datum(eyes: System) -> None:
    """Clients of both kinds, objects, with the key and without."""
    pids = eyes.pids()
    with eyes.connect() as client:
        for camera in CAMERAS:
            for number in range(3):  # in turn to this one and the other
                client.call("cameras.frame", camera=camera, number=number)
            assert call_message(client, "cameras", Frame(camera, 3)) == [
                pids[home(TWO, str(camera))], [0, 1, 2, 3]
            ]  # fmt: skip
            cast_message(client, "cameras", Frame(camera, 4))
            assert client.call("desk.look", camera=camera, number=5)[-2:] == [5, 6]
            assert sorted(see(client, camera, 7)) == [*range(8)]
        counts = dict(call_message(client, "cameras", Count()) for _ in TWO)
        assert set(counts) == {pids[name] for name in TWO}
        assert sum(counts.values()) == 8 * len(CAMERAS)

    async def ask() -> list[int]:
        async with await connect_async(eyes.run_dir, timeout=LIMIT_S) as client:
            await cast_message(client, "cameras", Frame(0, 8))
            _, seen = await call_message(client, "cameras", Frame(0, 9))
            found: list[int] = seen
            return found

    assert asyncio.run(ask())[-2:] == [8, 9]


def test_a_shard_that_is_killed_is_told_to_callers_and_begins_anew(eyes: System) -> None:
    """Who called it straight, and whose call it was forwarded; what other shards have is as it was."""
    dies, stays = at(TWO, "eye-1")[0], at(TWO, "eye-2")[0]
    begun, never = eyes.folder / "begun", eyes.folder / "never"
    with eyes.connect() as client:
        assert [see(client, camera, 1) for camera in (dies, stays)] == [[1], [1]]
        held = [
            client.submit("cameras.spin", key=key, camera=dies, begun=str(begun), until=str(never))
            for key in (str(dies), None, None)  # of two without a key, one comes to the other shard
        ]
        wait_for(client, begun)
        # All are there: else the one that is forwarded might come to the next process, and begin in it.
        ask_until(client, "backplane.eye-1.statistics", lambda told: spins_count(told) == len(held))
        os.kill(eyes.pids()["eye-1"], signal.SIGKILL)
        for each in held:
            with pytest.raises(PeerDown):
                each.result()
        assert see(client, stays, 2) == [1, 2]
        assert see(client, dies, 3) == [3], "asked again until its home is up; its data begin anew"
        assert client.call("cameras.frame", camera=dies, number=4)[1] == [3, 4]


def test_of_a_topic_each_message_is_handled_once_and_timers_of_all_shards_find_home(eyes: System) -> None:
    """Every shard hears every message; every shard has a clock of its own."""
    pids = eyes.pids()
    with eyes.connect() as client:
        for camera in CAMERAS:
            assert client.publish("frames", camera=camera, number=1) == 2
        assert [see(client, camera, 2) for camera in CAMERAS] == [[1, 2]] * len(CAMERAS)
        clocks = sorted(pids[name] for name in TWO)
        for camera in range(4):
            tick = Tick(camera, clocks[0])
            ask_until(
                client, "cameras.tick", lambda heard: heard == clocks, key=str(camera), camera=camera, pid=tick.pid
            )


def test_one_shard_more_takes_over_its_keys_and_they_begin_anew(eyes: System) -> None:
    """The others keep theirs, data included. When it goes again, what they had of its keys before is not found again."""
    moves = at(THREE, "eye-3", CAMERAS)
    assert 0 < len(moves) < len(CAMERAS)
    with eyes.connect() as client:
        assert [see(client, camera, 1) for camera in CAMERAS] == [[1]] * len(CAMERAS)
        reload(eyes, replicas=3)
        assert "eye-3" in eyes.pids()
    with eyes.connect() as client:
        wait_known(client, eyes, THREE)
        for camera in CAMERAS:
            assert see(client, camera, 2) == ([2] if camera in moves else [1, 2])
            assert client.call("cameras.frame", camera=camera, number=3)[1][-2:] == [2, 3]
        reload(eyes, replicas=2)
    with eyes.connect() as client:
        wait_known(client, eyes, TWO)
        for camera in CAMERAS:
            assert see(client, camera, 4) == ([4] if camera in moves else [1, 2, 3, 4])


def wait_known(client: Client, eyes: System, places: tuple[str, ...]) -> None:
    """Until each shard knows these: it learns of them by itself, and takes the keys of one that it does not know. Asked without
    a key, they take turns.
    """
    stranger = next(camera for camera in at(THREE, "eye-3") if camera not in CAMERAS)
    pids = [eyes.pids()[home(places, str(stranger))]] * len(places)

    def served_by() -> list[int]:
        return [client.call("cameras.frame", camera=stranger, number=0, timeout=LIMIT_S)[0] for _ in places]

    wait_until(lambda: served_by() == pids, lambda: f"shards know others than {places}")


def reload(eyes: System, replicas: int) -> None:
    """With so many."""
    text = eyes.toml.read_text()
    before = next(line for line in text.splitlines() if line.startswith("replicas"))
    eyes.toml.write_text(text.replace(before, f"replicas = {replicas}"))
    done = command(eyes.folder, "reload", str(eyes.toml))
    assert done.returncode == 0, (done, eyes.said[-30:])
