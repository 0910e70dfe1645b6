"""Supervisor client: asks the supervisor on behalf of actions, as the command line does.

It lives on an event loop in a thread of its own. An action that waits for an answer occupies no worker of its backplane.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Any, Final, Protocol

from appbackplane.transport.async_client import AsyncClient, connect_async
from appbackplane.transport.errors import BackplaneError, DeadlineExceeded, Unavailable

from ...execution.actions.coroutines import OneShotEvent
from ...objects.platform import Platform

#: Seconds for the first connection. The supervisor has started this process, so only a very busy machine needs them.
CONNECT_S: Final = 30.0
#: Added to the time of a question, because the message of the supervisor, or of the client, is better than ours.
ANSWER_S: Final = 2.0
log = logging.getLogger(__name__)


class SupervisorAnswer:
    """An answer that an action awaits, by `wait`; another thread puts it in."""

    def __init__(self, route: str, timeout_s: float) -> None:
        self.route, self.timeout_s = route, timeout_s
        self.event = OneShotEvent(round((timeout_s + ANSWER_S) * 1e9), f"the supervisor's answer to {route}")
        self.value: Any = None
        self.error: BackplaneError | None = None

    async def wait(self) -> Any:
        """The answer. Raises the supervisor's error, or `DeadlineExceeded`."""
        await self.event
        if self.error is not None:
            raise self.error
        if not self.event.is_set:
            raise DeadlineExceeded(f"the supervisor did not answer {self.route} within {self.timeout_s:g} s")
        return self.value


class SupervisorPort(Protocol):
    """The part of `SupervisorClient` that the component uses."""

    def start(self) -> None: ...
    def stop(self, limit_s: float) -> None: ...
    def ask(self, answer: SupervisorAnswer, body: dict[str, Any]) -> None: ...


class SupervisorClient:
    """The client and its thread. One for each component that needs it; it holds ten descriptors."""

    def __init__(self, platform: Platform, name: str) -> None:
        """`name`: of the thread."""
        self._platform = platform
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: AsyncClient | None = None
        self._stopping = asyncio.Event()
        #: The questions under way: a loop keeps weak references to its tasks alone.
        self._asking: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the thread, which connects."""
        self._thread.start()

    def stop(self, limit_s: float) -> None:
        """Close the connection, and wait at most `limit_s` seconds for the thread. Open questions get `Unavailable`."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(limit_s)

    def ask(self, answer: SupervisorAnswer, body: dict[str, Any]) -> None:
        """Ask for an answer. From any thread. Raises `Unavailable` while there is no connection."""
        loop = self._loop
        if loop is None or self._client is None or loop.is_closed():
            raise Unavailable("not connected to the supervisor yet", retry_after=1.0)
        loop.call_soon_threadsafe(self._begin, answer, body)

    def _begin(self, answer: SupervisorAnswer, body: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._answer(answer, body))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _answer(self, answer: SupervisorAnswer, body: dict[str, Any]) -> None:
        answer.error = Unavailable(f"{answer.route}: the connection to the supervisor has been closed")
        try:
            if self._client is not None:
                answer.value = await self._client.call(
                    answer.route, arguments=body, timeout=answer.timeout_s + ANSWER_S / 2, priority=0, retry=False
                )
                answer.error = None
        except BackplaneError as error:
            answer.error = error
        finally:  # the end of the loop cancels it
            self._platform.set(answer.event)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:  # the edge of the thread: nobody else would tell
            log.exception("the connection to the supervisor has ended")

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with await connect_async(self._platform.run_dir, timeout=CONNECT_S) as client:
            self._client = client
            await self._stopping.wait()
            self._client = None
