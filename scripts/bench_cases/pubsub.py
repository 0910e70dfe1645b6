"""pubsub: messages delivered a second from one publisher to four subscribers in four processes, 100 bytes each.

The publisher is an object in a fifth backplane, and a message counts once a subscriber's method has seen it. Against PUB in
this process and SUB in four others, raw pyzmq with msgpack, without any limit at which they would drop. A surprise would be
a lost message.

    python -m bench_cases.pubsub ENDPOINT
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgpack
import zmq

from appbackplane.runtime import Component, operation, subscribe

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.parts import numbered
from .harness.processes import hear, program, say
from .harness.systems import System, running

SUBSCRIBERS = 4
MESSAGES, QUICK_MESSAGES = 10_000, 5_000
TOPIC = "bench.news"
TEXT = "x" * 100


class Subscriber(Component):
    max_requests = 10 * MESSAGES

    def setup(self) -> None:
        self.heard = 0

    @subscribe(TOPIC, priority=4)
    def on_news(self, text: str) -> None:
        self.heard += 1

    @operation(priority=4)
    def count(self) -> int:
        """How many since it was last asked. Queued behind what it hears."""
        heard, self.heard = self.heard, 0
        return heard


class Publisher(Component):
    @operation(priority=4)
    async def tell(self, messages: int) -> list[int]:
        """All of them, and then ask how many came: what one object says to another arrives in order."""
        for _ in range(messages):
            self.publish(TOPIC, text=TEXT)
        return [await self.call(f"subscriber{n}.count") for n in range(SUBSCRIBERS)]


globals().update(numbered(Subscriber, SUBSCRIBERS))


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    messages = QUICK_MESSAGES if is_quick else MESSAGES
    tables = {f"s{n}": f'components = ["{__name__}:Subscriber{n}"]' for n in range(SUBSCRIBERS)}
    tables["publisher"] = f'components = ["{__name__}:Publisher"]'
    with running(tables) as system, raw_publisher() as raw:
        yield Sides(lambda: publish(system, messages), lambda: raw.publish(messages))


def publish(system: System, messages: int) -> Figures:
    """All messages, and then the question how many came, which waits behind them."""
    began = time.perf_counter()
    heard = system.client.call("publisher.tell", messages=messages)
    return found(heard, messages, time.perf_counter() - began)


def found(heard: list[int], messages: int, spent: float) -> Figures:
    """Delivered a second, and how many were not."""
    return {"delivered_per_s": sum(heard) / spent, "lost": SUBSCRIBERS * messages - sum(heard)}


class RawPublisher:
    """PUB, and what its subscribers say."""

    def __init__(self, socket: zmq.Socket[bytes], children: list) -> None:
        self._socket, self._children = socket, children

    def publish(self, messages: int) -> Figures:
        for child in self._children:
            say(child, str(messages))
        for child in self._children:
            hear(child)
        pack, send = msgpack.Packer().pack, self._socket.send
        began = time.perf_counter()
        for number in range(messages):
            send(b"bench.news\0" + pack((number, TOPIC, {"text": TEXT})))
        heard = [int(hear(child)) for child in self._children]
        return found(heard, messages, time.perf_counter() - began)


@contextmanager
def raw_publisher() -> Iterator[RawPublisher]:
    """All subscribed."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ab-"))
        endpoint = f"ipc://{folder}/news.sock"
        socket = context.socket(zmq.XPUB)
        socket.set_hwm(0)
        socket.bind(endpoint)
        children = [stack.enter_context(program("pubsub", endpoint)) for _ in range(SUBSCRIBERS)]
        for _ in children:
            socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # each subscription is told, not only the first of its kind
            socket.recv()
        yield RawPublisher(socket, children)
    context.destroy(linger=0)


def listen(endpoint: str) -> None:
    """A raw subscriber: told how many will come, it says how many came."""
    socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.SUB)
    socket.set_hwm(0)
    socket.subscribe(b"bench.news\0")
    socket.connect(endpoint)
    for line in sys.stdin:
        print("ready", flush=True)
        heard = 0
        while heard < int(line):
            number, _topic, body = msgpack.unpackb(socket.recv()[11:])
            assert number == heard
            assert body["text"]
            heard += 1
        print(heard, flush=True)


CASE = Case(
    name="pubsub",
    what="1 publisher, 4 subscribers in 4 backplanes, 100 B; reference: raw pyzmq PUB/SUB",
    requirements=(
        Requirement("delivered/s ratio", ratio("delivered_per_s"), at_least=1.0),
        Requirement("lost", lambda ours, _: ours["lost"], at_most=0),
    ),
    open=both,
    rounds=10,
    quick_rounds=3,
)

if __name__ == "__main__":
    listen(sys.argv[1])
