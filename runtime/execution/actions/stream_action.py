"""Stream action: an operation that is a generator sends its items as it yields them, within the window of its reader.

The action runs in slices, and gives way to other work between two of them. Items are packed when they are yielded, because
the generator may change them afterwards. The items of a slice leave as one envelope, after the slice; the sentinel sends what
a long step has left behind (`Engine.overrun`). Beyond the window, or the bound of bytes, the action is in the wait queue
(law 6) until its reader returns credit: a slow reader costs neither memory nor a worker. Like a coroutine that awaits, a
generator keeps its object until it ends.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from types import AsyncGeneratorType
from typing import Any, Final

from appbackplane.transport import codec
from appbackplane.transport.batching import BATCH_BYTES_MAX
from appbackplane.transport.errors import BackplaneError, InternalError, InvalidArgument
from appbackplane.transport.item_sender import BYTES_AHEAD_MAX, ITEM_OVERHEAD_BYTES

from ...objects.action import DONE, WAITING, YIELDED, Outcome
from ...objects.app_object import AppObject
from ..workers.current import current
from .coroutines import STEP_ASIDE, CallRequest, Gather, OneShotEvent, Pause
from .method_action import AWAITABLE, MethodAction, explained

#: A slice of a generator: as long as short actions may run before the link is polled again (engine.py), so that it delays
#: urgent calls no more than they do. Choosing it again costs some 5 us.
SLICE_NS: Final = 50_000
#: How long a wait for credit may take: longer than any deadline.
_UNTIL_DEADLINE_NS: Final = 8 * 86_400 * 1_000_000_000


class _Encoders(threading.local):
    """An encoder a thread: workers pack items without the lead."""

    def __init__(self) -> None:
        self.encoder = codec.Encoder(has_signals=False)


_encoders: Final = _Encoders()


class AwaitedCredit(OneShotEvent):
    """A stream waits until its reader returns credit, at most until its deadline."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_UNTIL_DEADLINE_NS, "its reader, which has not read the items sent so far")


class StreamAction(MethodAction):
    """One run of a generator operation, from the call to its last item."""

    __slots__ = (
        "_ahead", "_ahead_bytes", "_closing", "_count", "_credit", "_ending", "_is_given_up", "_packed", "_step",
        "_window", "sent_count",
    )  # fmt: skip

    def __init__(
        self,
        object: AppObject,
        name: str,
        priority: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        deadline_ns: int | None,
        window: int,
    ) -> None:
        """`window`: how many items it may run ahead of its reader."""
        super().__init__(object, name, priority, function, arguments, deadline_ns)
        self._window = window
        #: How many items it may have yielded in all, and has.
        self._credit = window
        self._count = self.sent_count = 0
        #: Whether items could not be sent: what is yielded from then on is not sent either.
        self._is_given_up = False
        #: Packed items that were not sent yet. The worker appends; the holder of the lead takes (both are atomic).
        self._packed: deque[bytes] = deque()
        #: Of each envelope that its reader has not read: how many items were sent up to its end, and its bytes.
        self._ahead: deque[tuple[int, int]] = deque()
        self._ahead_bytes = 0
        #: Of an async generator: its step under way, and the reasons for which it is being closed, and will be.
        self._step: Any = None
        self._closing: BaseException | None = None
        self._ending: BaseException | None = None

    @property
    def is_async(self) -> bool:
        """Whether the generator may await."""
        generator: Any = self.coroutine
        return type(generator) is AsyncGeneratorType

    def run(self) -> Outcome:  # hot: scripts/bench streams
        """Run for a slice: until time is up, the window is full, an await, or the end."""
        try:
            generator: Any = self.coroutine
            if generator is None:
                if self.thrown is not None:  # cancelled while it was deferred by a state machine
                    raise self.thrown
                if self.spec is not None and self.spec.mark.accepted_in is not None and not self._is_accepted():
                    return DONE
                self.coroutine = generator = self.function(self.object, *self.arguments)
            return self._run_async(generator) if type(generator) is AsyncGeneratorType else self._run_plain(generator)
        except Exception as error:
            self.error = explained(error) if type(error) is RuntimeError else error
            return DONE

    def refuse(self, error: BackplaneError) -> None:
        """End with `error` without running (further); closes the generator."""
        self.error = error
        generator: Any = self.coroutine
        if type(generator) is AsyncGeneratorType:
            if self._step is not None:
                self._step.close()
            with suppress(StopIteration, StopAsyncIteration):
                generator.aclose().send(None)  # up to its first await: nothing goes on here any more
        elif generator is not None:
            generator.close()

    def take(self) -> list[bytes]:
        """The packed items that were not sent yet, up to one frame; they count as ahead of the reader. Needs the lead."""
        taken: list[bytes] = []
        size = 0
        packed = self._packed
        if self._is_given_up:
            packed.clear()
        while packed and (not taken or size + len(packed[0]) + ITEM_OVERHEAD_BYTES <= BATCH_BYTES_MAX):
            item = packed.popleft()
            taken.append(item)
            size += len(item) + ITEM_OVERHEAD_BYTES
        if taken:
            self.sent_count += len(taken)
            self._ahead.append((self.sent_count, size))
            self._ahead_bytes += size
        return taken

    def give_up(self, error: BackplaneError) -> None:
        """Its items cannot be sent: it ends in `error`, and sends no further ones. Needs the lead."""
        self._is_given_up = True
        self.thrown = self.error = error

    def receive_credit(self, credit: int) -> None:
        """Let it have yielded this many items in all. Nobody can have read more than was yielded. Needs the lead."""
        credit = min(credit, self._count + self._window)
        if credit > self._credit:
            self._credit = credit
            read = credit - self._window
            ahead = self._ahead
            while ahead and ahead[0][0] <= read:
                self._ahead_bytes -= ahead.popleft()[1]

    @property
    def has_unsent(self) -> bool:
        """Whether it has items to `take`."""
        return len(self._packed) > 0

    @property
    def has_room(self) -> bool:
        """Whether it may yield one more item."""
        return self._count < self._credit and self._ahead_bytes < BYTES_AHEAD_MAX

    def _run_plain(self, generator: Generator[Any, Any, Any]) -> Outcome:  # hot: scripts/bench streams
        worker = current.worker
        assert worker is not None
        now_ns = worker.host.now_ns
        until_ns = worker.started_ns + SLICE_NS
        thrown, self.thrown = self.thrown, None
        if thrown is not None:  # nobody reads on: it is cancelled, too late, or cannot be sent
            generator.close()
            raise thrown
        size = 0
        try:
            while self._count < self._credit and self._ahead_bytes + size < BYTES_AHEAD_MAX:
                size += self._put(next(generator))
                if self.thrown is not None or now_ns() >= until_ns:
                    return YIELDED
        except StopIteration:
            self.result = self._count
            return DONE
        except _Unsendable as unsendable:
            generator.close()
            raise unsendable.error from unsendable.error.__cause__
        return self._wait()

    def _run_async(self, generator: AsyncGenerator[Any, Any]) -> Outcome:
        worker = current.worker
        assert worker is not None
        until_ns = worker.started_ns + SLICE_NS
        thrown, self.thrown = self.thrown, None
        value, self.inbox = self.inbox, None
        if self._step is not None and thrown is not None and thrown is not self.received:
            self._ending = (
                thrown  # not the error of an awaited call; if it is swallowed, it comes again at the next `yield`
            )
        size = 0
        while True:
            step = self._step
            if step is None:
                if thrown is not None:  # as in `_run_plain`
                    self._closing, step, thrown = thrown, generator.aclose(), None
                elif self._count < self._credit and self._ahead_bytes + size < BYTES_AHEAD_MAX:
                    step = generator.__anext__()
                else:
                    return self._wait()
                self._step, value = step, None
            try:
                instruction = step.send(value) if thrown is None else step.throw(thrown)
            except StopAsyncIteration:
                if (reason := self._closing or self._ending) is not None:
                    raise reason from None
                self.result = self._count
                return DONE
            except StopIteration as stop:
                self._step = None
                if self._closing is not None:
                    raise self._closing from None
                if self._ending is not None:
                    thrown, self._ending = self._ending, None
                    continue
                try:
                    size += self._put(stop.value)
                except _Unsendable as unsendable:
                    thrown, self._closing, self._step = None, unsendable.error, generator.aclose()
                    continue
                if self.thrown is not None or worker.host.now_ns() >= until_ns:
                    return YIELDED
                thrown = None
                continue
            thrown = None
            if instruction is STEP_ASIDE:
                return YIELDED
            if isinstance(instruction, (CallRequest, Pause, Gather)):
                self.request = instruction
                return WAITING
            thrown = TypeError(f"{self.name} awaited {type(instruction).__name__}: {AWAITABLE}")

    def _put(self, item: Any) -> int:  # hot: scripts/bench streams
        """Keep one item for sending. Returns the bytes that it counts."""
        try:
            packed: bytes = _encoders.encoder.item(item)
        except InvalidArgument as problem:
            error = InternalError(f"{self.name} yielded an item that cannot be sent: {problem}")
            error.__cause__ = problem
            raise _Unsendable(error) from None
        self._packed.append(packed)
        self._count += 1  # last: `take` may run now, and a mark that is too high would never be read
        return len(packed) + ITEM_OVERHEAD_BYTES

    def _wait(self) -> Outcome:
        self.request = AwaitedCredit()
        return WAITING


class _Unsendable(Exception):
    def __init__(self, error: InternalError) -> None:
        self.error = error
