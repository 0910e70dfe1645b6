"""Figure 9 of seed 003: ten handlers of one message, as handlers of a dispatcher and as those of a reactor.

The device is a socket that holds a frame a message; whoever reads it gets the frames in their order. The reactor is the pattern
as it is written down (Schmidt): one thread that selects, reads, decodes, looks its handlers up and calls them. The dispatcher has
the same frames read by a source, which posts a handle for each and decodes it when its turn has come.
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

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Handle, Message, message

HANDLERS = 10
#: How long a handler idles. Below, the kernel's timer slack of 50 µs would be what is measured.
IDLE_S = 0.001
#: Rounds of a loop that a handler computes: about as long as it would idle.
LOOPS = 12_000
FRAME_BYTES_MAX = 1 << 16
#: What a device sends with each message.
SAMPLES = tuple(range(100))


class Sample(Message):
    """What the device says. Ten handlers look at it."""

    number: int
    values: tuple[int, ...]


@message(category=91, id=1)
class Idle(Sample):
    """Its handlers wait."""


@message(category=91, id=2)
class Locked(Sample):
    """So do these, and hold the source meanwhile."""


@message(category=91, id=3)
class Busy(Sample):
    """Its handlers compute."""


class Source:
    """The datum that a locked source is."""


class Done:
    """Knows when so many have been handled."""

    def __init__(self) -> None:
        self._handled: list[int] = []
        self._count = 0
        self.event = threading.Event()

    def expect(self, count: int) -> None:
        """From now on."""
        self._handled, self._count = [], count
        self.event.clear()

    def tell(self, number: int) -> None:
        """One more. From any thread."""
        self._handled.append(number)
        if len(self._handled) == self._count:
            self.event.set()


def compute() -> None:
    """Pure computation: the same amount each time, however long it takes."""
    total = 0
    for number in range(LOOPS):
        total += number


def work(kind: type[Sample]) -> None:
    """What one handler does with one message."""
    if kind is Busy:
        compute()
    else:
        time.sleep(IDLE_S)


class Ten(Dispatcher):
    """Ten handlers for each of three messages."""

    component_name = "ten"

    def setup(self) -> None:
        self.done = Done()
        source = DataProtector(Source())
        for number in range(HANDLERS):
            is_last = number == HANDLERS - 1
            self.register(self._idle(is_last))
            self.register(self._busy(is_last))
            self.register(self._locked(is_last), source)

    def _idle(self, is_last: bool) -> Callable[[Idle], None]:
        done = self.done

        def handle(message: Idle) -> None:
            work(Idle)
            if is_last:
                done.tell(message.number)

        return handle

    def _busy(self, is_last: bool) -> Callable[[Busy], None]:
        done = self.done

        def handle(message: Busy) -> None:
            work(Busy)
            if is_last:
                done.tell(message.number)

        return handle

    def _locked(self, is_last: bool) -> Callable[[Locked, Source], None]:
        done = self.done

        def handle(message: Locked, source: Source) -> None:
            work(Locked)
            if is_last:
                done.tell(message.number)

        return handle


class Frame(Handle):
    """Decoded when its turn has come, before any lock: beside the handlers of the one before it."""

    __slots__ = ("frame",)

    def __init__(self, kind: type[Sample], frame: bytes) -> None:
        super().__init__(kind.__message__)
        self.frame = frame

    def resolve(self) -> Message:
        return msgspec.msgpack.decode(self.frame, type=self.spec.type)


class Device:
    """A socket with frames in it."""

    def __init__(self) -> None:
        self._far, self.near = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.near.setblocking(False)

    def emit(self, kind: type[Sample], count: int) -> None:
        """So many messages, at once."""
        for number in range(count):
            self._far.send(msgspec.msgpack.encode(kind(number, SAMPLES)))

    def read(self, take: Callable[[bytes], None], count: int) -> None:
        """Select and read until so many have come."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.near, selectors.EVENT_READ)
            while count:
                for _ in selector.select():
                    take(self.near.recv(FRAME_BYTES_MAX))
                    count -= 1

    def close(self) -> None:
        """Both ends."""
        self._far.close()
        self.near.close()


@contextmanager
def device() -> Iterator[Device]:
    """One."""
    made = Device()
    try:
        yield made
    finally:
        made.close()


def dispatched_s(ten: Ten, kind: type[Sample], count: int) -> float:
    """How long the dispatcher takes for so many messages."""
    with device() as source:
        ten.done.expect(count)
        reader = threading.Thread(
            target=source.read, args=(lambda frame: ten.dispatch(Frame(kind, frame)), count), daemon=True
        )
        source.emit(kind, count)
        began = time.perf_counter()
        reader.start()
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

    def take(frame: bytes) -> None:
        found = msgspec.msgpack.decode(frame, type=kind)
        for handler in handlers[type(found)]:
            handler(found)

    with device() as source:
        source.emit(kind, count)
        began = time.perf_counter()
        source.read(take, count)
        assert done.event.is_set()
        return time.perf_counter() - began


def _react(done: Done, is_last: bool, message: Sample) -> None:
    work(type(message))
    if is_last:
        done.tell(message.number)
