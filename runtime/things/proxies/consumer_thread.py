"""Consumer thread: an event loop in a thread of its own, in which the things elsewhere are asked and their streams are read."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

from appbackplane.transport.errors import Unavailable

from .consumed_description import Form

#: Seconds before a stream is opened again: at first, and at most. Half of it at random, so that a thing that comes back is not
#: asked by all at once.
AGAIN_S: Final = 0.5
AGAIN_S_MAX: Final = 30.0
#: Seconds that the end of the thread is waited for.
STOP_S: Final = 3.0
#: In the place of a message: some may have been missed.
MISSED: Final = object()
log = logging.getLogger("appbackplane.proxies")


class ProtocolBinding(Protocol):
    """How one thing is spoken to: W3C's protocol binding. Its methods run in the consumer's thread."""

    async def request(self, form: Form, body: Any, limit_s: float) -> Any:
        """The value that answers a request. `limit_s`: seconds for all of it. Raises `BackplaneError`."""

    def messages(self, form: Form) -> AsyncIterator[Any]:
        """What a stream says, or `MISSED`. Raises whatever ends it."""


class ConsumerThread:
    """The thread. `begin` may be called from any other."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.loop = asyncio.new_event_loop()
        #: Called in the thread when it ends.
        self.closing: list[Callable[[], Awaitable[None]]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """End everything, and wait at most `limit_s` seconds for the thread."""
        self._call_soon(self._stopping.set)
        self._thread.join(limit_s)

    def begin(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """Run something in the thread. Returns what cancels it. Raises `Unavailable` when the thread has ended."""
        begun: list[asyncio.Task[None]] = []

        def run() -> None:
            task = self.loop.create_task(work)
            begun.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            for task in begun:
                task.cancel()

        try:
            self.loop.call_soon_threadsafe(run)
        except RuntimeError:
            work.close()
            raise Unavailable("the things elsewhere are not asked any more: this process goes down") from None
        return lambda: self._call_soon(cancel)

    async def follow(self, form: Form, binding: ProtocolBinding, heard: Callable[[Any], None]) -> None:
        """In the thread: pass the messages of a stream on until the task is cancelled; a stream that ends is opened again."""
        again_s, is_reported = AGAIN_S, False
        while True:
            begun_s = self.loop.time()
            problem = "it has ended"
            try:
                async for message in binding.messages(form):
                    heard(message)
            except Exception as error:  # the edge: whatever a thing elsewhere sends, its other streams go on
                problem = str(error) or type(error).__name__
            if self.loop.time() - begun_s > AGAIN_S_MAX:
                again_s, is_reported = AGAIN_S, False
            if not is_reported:
                is_reported = True
                log.warning("the stream %s is read again in a moment: %s", form.url, problem)
            await self.pause(again_s * random.uniform(0.5, 1.0))
            again_s = min(2 * again_s, AGAIN_S_MAX)

    async def pause(self, seconds: float) -> None:
        """In the thread: return after some time, or when it is to end, which cancels all tasks."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _call_soon(self, function: Callable[[], Any]) -> None:
        with suppress(RuntimeError):  # it has ended by itself
            self.loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        try:
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._main())
        finally:
            self.loop.close()

    async def _main(self) -> None:
        await self._stopping.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(close() for close in self.closing), return_exceptions=True)
