"""Answers that are read late: their backplane, or the whole system, has ended in order meanwhile. None is lost.

Each call is a frame of its own: more of them than a socket and a link read ahead by themselves.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.transport import Client, connect, connect_async
from tests.waiting import wait_until

from .conftest import LIMIT_S, RunningSystem

Start = Callable[..., RunningSystem]
#: A thousand and more: half for each of two replicas.
COUNT = 1_200

MODULE = '''
"""Who answers slowly enough for each answer to leave alone; and who asks, and has no time to listen."""
import pathlib, time
from appbackplane.runtime import AppObject, Component, operation

HERE = pathlib.Path(__file__).parent

class Index(Component):
    @operation(priority=6)
    def double(self, number: int) -> int:
        time.sleep(0.001)
        while (HERE / "hold").exists():
            time.sleep(0.001)
        return 2 * number

class Asker(AppObject):
    @operation(priority=5)
    async def ask(self, number: int) -> int:
        return await self.call("index.double", number=number, timeout=600, retry=False)

class Query(Component):
    pass

class Asking(Component):
    def setup(self) -> None:
        for number in range(600):
            self.add(Asker(), key=str(number))

    @operation(priority=7)
    def block(self) -> None:
        (HERE / "blocked").touch()
        (HERE / "go").read_bytes()  # a pipe
'''


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def begin(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningSystem]]:
    """Starts it in the current folder, and takes it down."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    systems: list[RunningSystem] = []

    def begin(index: str) -> RunningSystem:
        systems.append(start('drain_limit = "600s"\nstop_limit = "600s"', index, module=MODULE))
        systems[0].wait_up()
        return systems[0]

    yield begin
    if systems[0].process.poll() is None:
        systems[0].signal(signal.SIGTERM)
        assert systems[0].wait_down() == 0


ORDERS = (("restart", "--rolling", "index"), ("restart", "index"), ("down",))


@pytest.mark.parametrize("words", ORDERS, ids=" ".join)
def test_clients_that_read_later_get_all_answers(begin: Callable[..., RunningSystem], words: tuple[str, ...]) -> None:
    """Of 1,000 calls 872 ended in PEER_DOWN although their work was done: their answers stayed in a socket, or on the link. A
    blocking client; and one on asyncio, whose loop is busy with something else.
    """
    system = begin("replicas = 2")
    expected = [2 * n for n in range(COUNT)]

    async def work(client: Client) -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as other:
            blocking = [
                client.submit("index.double", number=n, timeout=10 * LIMIT_S, retry=False) for n in range(COUNT)
            ]
            waiting = [other.submit("index.double", number=n, timeout=10 * LIMIT_S, retry=False) for n in range(COUNT)]
            for name in ("index-1", "index-2"):
                client.call(f"backplane.{name}.statistics", timeout=LIMIT_S)
                await other.call(f"backplane.{name}.statistics", timeout=LIMIT_S)
            assert run(*words, "--timeout=600").exit_code == 0
            assert list(await asyncio.wait_for(asyncio.gather(*waiting), LIMIT_S)) == expected
            assert [call.result(LIMIT_S) for call in blocking] == expected

    with connect(system.run_dir, timeout=LIMIT_S) as client:
        asyncio.run(work(client))


def test_so_does_a_backplane_whose_threads_are_busy(begin: Callable[..., RunningSystem], tmp_path: Path) -> None:
    """Its sentinel hears that the other one has ended, while nobody has looked at what that answered."""
    os.mkfifo(tmp_path / "go")
    (tmp_path / "hold").touch()
    system = begin('[backplane.asking]\ncomponents = ["demo:Asking"]\npreempt = false')
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        asked = [
            client.submit("asking.ask", key=str(n), number=n, timeout=10 * LIMIT_S, retry=False) for n in range(600)
        ]
        statistics = "backplane.asking.statistics"
        wait_until(lambda: client.call(statistics, timeout=LIMIT_S)["queues"]["waiting"] == 600)
        client.call("backplane.index.statistics", timeout=LIMIT_S)
        blocked = client.submit("asking.block", timeout=10 * LIMIT_S, retry=False)
        wait_until((tmp_path / "blocked").exists)
        (tmp_path / "hold").unlink()
        assert run("restart", "index", "--timeout=600").exit_code == 0
        (tmp_path / "go").write_bytes(b"go")
        blocked.result(LIMIT_S)
        assert [call.result(LIMIT_S) for call in asked] == [2 * n for n in range(600)]
