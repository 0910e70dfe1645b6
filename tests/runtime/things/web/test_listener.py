"""The listener: half-open connections end, and shut nobody out; with sockets of this process on both sides."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from appbackplane.runtime.things.web.listener import CONNECTIONS_MAX, HttpListener, bound_of
from tests.waiting import LIMIT_S

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: More than the kernel takes for a client that reads nothing.
LARGE_BYTES = 64 << 20
#: Of a connection that nothing but the test ends.
LONG_S = 1_000.0


class Site:
    """A server behind a listener: `/` answers at once, `/hold` when it is released."""

    def __init__(
        self, *, idle_s: float = LONG_S, connections_max: int = 100, tls: ssl.SSLContext | None = None
    ) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listener = HttpListener(self.listening, idle_s=idle_s, connections_max=lambda: connections_max, tls=tls)
        self.held, self.release = asyncio.Queue[None](), asyncio.Event()
        self.answered = asyncio.Event()

    def close_idle(self) -> None:
        """Close connections without a request soon. Not from the beginning: a busy machine reads a request later than that."""
        self.listener.idle_s = 0.05

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Site]:
        """As the gateway does."""

        @web.middleware
        async def tell(request: web.Request, handler: object) -> web.StreamResponse:
            self.listener.has_request(request.protocol)
            try:
                if request.path == "/hold":
                    self.held.put_nowait(None)
                    await self.release.wait()
                return web.Response(body=b"here" if request.path != "/large" else bytes(LARGE_BYTES))
            finally:
                self.listener.has_answered(request.protocol)
                self.answered.set()

        runner = web.AppRunner(web.Application(middlewares=[tell]), handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        assert runner.server is not None
        self.listener.start(runner.server)
        try:
            async with asyncio.timeout(LIMIT_S):
                yield self
        finally:
            self.listener.stop()
            self.release.set()
            await runner.cleanup()
            self.listening.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client."""
        return await asyncio.open_connection("127.0.0.1", self.listening.getsockname()[1])


async def asked(client: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes = GET) -> bytes:
    """The status line of the answer; b"" if the connection is closed."""
    reader, writer = client
    try:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(4)
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    return head.partition(b"\r\n")[0]


async def ended(client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Return when the server has closed it."""
    with suppress(ConnectionError):
        assert await client[0].read() == b""


@pytest.mark.parametrize(
    "said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", GET + b"GET / HTTP/1.1\r\n"]
)
def test_a_connection_without_a_whole_request_is_closed(said: bytes) -> None:
    """Whether it says nothing, or begins a head and never ends it, also behind a request that was answered."""

    async def main() -> None:
        async with Site().serving() as site:
            client = await site.connect()
            if said.startswith(GET):
                assert await asked(client) == b"HTTP/1.1 200 OK"
                client[1].write(said.removeprefix(GET))
            else:
                client[1].write(said)
            site.close_idle()
            await ended(client)
            assert site.listener._count == 0 and not site.listener._waiting

    asyncio.run(main())


def test_a_client_that_sends_a_byte_now_and_then_is_closed() -> None:
    """Each byte is no new beginning, or a head would take for ever."""

    async def main() -> None:
        async with Site(idle_s=0.2).serving() as site:
            reader, writer = await site.connect()
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            closing = asyncio.create_task(ended((reader, writer)))
            while not closing.done():
                writer.write(b"x")
                await asyncio.wait([closing], timeout=0.02)
            await closing

    asyncio.run(main())


def test_a_request_may_take_longer_than_a_head() -> None:
    """A long poll waits for minutes; the limit is for clients that do not say what they want."""

    async def main() -> None:
        async with Site().serving() as site:
            client, mute = await site.connect(), await site.connect()
            asking = asyncio.create_task(asked(client, GET.replace(b" / ", b" /hold ")))
            await site.held.get()
            site.close_idle()
            await ended(mute)
            await ended(await site.connect())
            assert not asking.done()
            site.release.set()
            assert await asking == b"HTTP/1.1 200 OK"

    asyncio.run(main())


def test_a_client_that_does_not_read_its_answer_is_closed() -> None:
    """Or it could have the gateway keep as many large answers as it likes."""

    async def main() -> None:
        async with Site().serving() as site:
            with socket.create_connection(site.listening.getsockname()) as mute:
                mute.sendall(GET.replace(b" / ", b" /large "))
                await site.answered.wait()
                assert site.listener._count == 1
                site.close_idle()
                while site.listener._count:
                    await asyncio.sleep(0)

    asyncio.run(main())


def test_connections_that_wait_make_room_for_new_ones() -> None:
    """A thousand mute connections cost the one who opens them, and nobody else."""

    async def main() -> None:
        async with Site(connections_max=3).serving() as site:
            mute = [await site.connect() for _ in range(20)]
            for _ in range(3):
                client = await site.connect()
                assert await asked(client) == b"HTTP/1.1 200 OK"
                client[1].close()
            for each in mute[:-3]:
                await ended(each)
            assert site.listener._count <= 3

    asyncio.run(main())


def test_when_all_are_busy_others_wait_until_one_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """They are neither refused nor forgotten, and the log says it once."""

    async def main() -> None:
        async with Site(connections_max=2).serving() as site:
            busy = [await site.connect() for _ in range(2)]
            asking = [asyncio.create_task(asked(each, GET.replace(b" / ", b" /hold "))) for each in busy]
            for _ in busy:
                await site.held.get()
            later = [asyncio.create_task(asked(await site.connect())) for _ in range(3)]
            while "requests are under way on all connections (2;" not in caplog.text:
                await asyncio.sleep(0)
            assert not any(each.done() for each in later)
            site.release.set()
            assert set(await asyncio.gather(*asking, *later)) == {b"HTTP/1.1 200 OK"}

    asyncio.run(main())
    assert caplog.text.count("requests are under way") == 1


def test_a_client_that_speaks_no_tls_makes_room_too() -> None:
    """One that begins a handshake and never ends it has no request, either."""

    async def main() -> None:
        async with Site(connections_max=2, tls=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)).serving() as site:
            mute = [await site.connect() for _ in range(6)]
            for each in mute[:-2]:
                await ended(each)
            plain = await site.connect()
            assert await asked(plain) == b""
            assert site.listener._count <= 2

    asyncio.run(main())


def test_some_descriptors_are_left_to_the_process() -> None:
    """To its own files, and to the links of the system."""
    assert [bound_of(each) for each in (1, 4, 1_024, 4_096, 1 << 30)] == [1, 3, 768, 3_584, CONNECTIONS_MAX]
