"""Figure 9 of seed 003: ten handlers of one message, as handlers of a dispatcher and as those of a reactor.

The device is a socket that has frames faster than they are handled, each a batch of readings in JSON. The reactor is the
pattern as it is written down (Schmidt): one thread that selects, reads, decodes, looks its handlers up and calls them. The
dispatcher has its source do the first three, in a thread of its own, with the same selector and decoder. What is read and
decoded beside the handlers is by what seed 003 has its dispatcher outperform the reactor, though the source is locked.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, message

HANDLERS = 10
#: How long a handler idles. Below, the kernel's timer slack of 50 µs would be what is measured.
IDLE_S = 0.001
FRAME_BYTES_MAX = 1 << 17
#: What a device sends with each message: 65 KB, which take 140 µs to decode, a seventieth of what the handlers take.
READINGS = tuple(20 + number * 0.37 for number in range(8_000))
#: Where threads are what is measured. One source decodes for 32 of them, who wait for it in the beginning.
FEW_READINGS = READINGS[:10]


class Sample(Message):
    """What the device says. Ten handlers look at it."""

    number: int
    values: tuple[float, ...]


@message(category=91, id=1)
class Idle(Sample):
    """Its handlers wait."""


@message(category=91, id=2)
class Locked(Sample):
    """So do these, and hold the source meanwhile."""


class Source:
    """The datum that a locked source is."""


class Done:
    """Knows when so many have been handled."""

    def __init__(self) -> None:
        self._handled: list[int] = []
        self._count = 0
        self.event = threading.Event()

    def expect(self, count: int) -> None:
        self._handled, self._count = [], count
        self.event.clear()

    def tell(self, number: int) -> None:
        """One more. From any thread."""
        self._handled.append(number)
        if len(self._handled) == self._count:
            self.event.set()


class Ten(Dispatcher):
    """Ten handlers for each of two messages."""

    component_name = "ten"

    def setup(self) -> None:
        self.done = Done()
        source = DataProtector(Source())
        for number in range(HANDLERS):
            is_last = number == HANDLERS - 1
            self.register(self._idle(is_last))
            self.register(self._locked(is_last), source)

    def _idle(self, is_last: bool) -> Callable[[Idle], None]:
        done = self.done

        def handle(message: Idle) -> None:
            time.sleep(IDLE_S)
            if is_last:
                done.tell(message.number)

        return handle

    def _locked(self, is_last: bool) -> Callable[[Locked, Source], None]:
        done = self.done

        def handle(message: Locked, source: Source) -> None:
            time.sleep(IDLE_S)
            if is_last:
                done.tell(message.number)

        return handle


class Device:
    """A socket with frames in it, and who reads them."""

    def __init__(self, kind: type[Sample], count: int) -> None:
        self._far, self._near = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._near.setblocking(False)
        self._decoder = msgspec.json.Decoder(kind)
        readings = READINGS if kind is Locked else FEW_READINGS
        self._frames = [msgspec.json.encode(kind(number, readings)) for number in range(count)]
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        for frame in self._frames:
            self._far.send(frame)

    def read(self, take: Callable[[Sample], None]) -> None:
        """Select, read and decode until all have come."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._near, selectors.EVENT_READ)
            for _ in self._frames:
                selector.select()
                take(self._decoder.decode(self._near.recv(FRAME_BYTES_MAX)))

    def close(self) -> None:
        self._thread.join()
        self._far.close()
        self._near.close()


@contextmanager
def device(kind: type[Sample], count: int) -> Iterator[Device]:
    made = Device(kind, count)
    try:
        yield made
    finally:
        made.close()


def dispatched_s(ten: Ten, kind: type[Sample], count: int) -> float:
    """How long the dispatcher takes for so many messages."""
    with device(kind, count) as source:
        ten.done.expect(count)
        gate = threading.Lock()
        gate.acquire()

        def read() -> None:
            gate.acquire()
            source.read(ten.dispatch)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()  # which a source has done long before
        began = time.perf_counter()
        gate.release()
        ten.done.event.wait()
        spent = time.perf_counter() - began
        reader.join()
        return spent


def reacted_s(kind: type[Sample], count: int) -> float:
    """How long a reactor takes."""
    done = Done()
    done.expect(count)
    handlers: dict[type[Sample], Sequence[Callable[[Sample], None]]] = {
        kind: [partial(_react, done, number == HANDLERS - 1) for number in range(HANDLERS)]
    }

    def take(message: Sample) -> None:
        for handler in handlers[type(message)]:
            handler(message)

    with device(kind, count) as source:
        began = time.perf_counter()
        source.read(take)
        spent = time.perf_counter() - began
        assert done.event.is_set()
        return spent


def _react(done: Done, is_last: bool, message: Sample) -> None:
    time.sleep(IDLE_S)
    if is_last:
        done.tell(message.number)
