"""xoscar: an actor in a sub-pool of its own. It is asyncio's, so a loop runs in a thread here, as its users have it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import xoscar
from xoscar.backends.allocate_strategy import ProcessIndex

from ..harness.bulk import compute


class Server(xoscar.Actor):
    async def echo(self, text: str) -> str:
        return text

    async def work(self, seconds: float) -> None:
        compute(seconds)


class Client:
    def __init__(self, loop: asyncio.AbstractEventLoop, actor: Any) -> None:
        self._loop, self._actor = loop, actor

    def submit(self, text: str) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(self._actor.echo(text), self._loop)

    def submit_work(self, seconds: float) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(self._actor.work(seconds), self._loop)


async def let_go() -> None:
    """End what it leaves running in the loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def serving() -> Iterator[Client]:
    """A pool of one process beside this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def done(step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result()

    pool = done(xoscar.create_actor_pool("127.0.0.1:0", n_process=1))
    try:
        place = ProcessIndex(1)
        actor = done(xoscar.create_actor(Server, uid="server", address=pool.external_address, allocate_strategy=place))
        yield Client(loop, actor)
    finally:
        done(pool.stop())
        done(let_go())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
