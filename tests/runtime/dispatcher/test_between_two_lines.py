"""What another thread does between two lines of the dispatcher. Each test lets it run exactly there.

A stress test meets these once in a million messages; a system that runs for a year meets them every day.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import Dispatcher, Message, message
from appbackplane.runtime.dispatcher.handles import Handle, ReadyHandle
from appbackplane.runtime.dispatcher.sources import TimerSource
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.testing import VirtualBackplane


@message(category=990, id=1)
class Parcel(Message):
    content: str = "tea"


@message(category=991, id=1)
class Letter(Message):
    pass


@message(category=992, id=1)
class Tick(Message):
    pass


class Post(Dispatcher):
    """Says what has come to its handlers."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.has_stored, self.has_read = threading.Event(), threading.Event()
        self.timers = TimerSource()

    def setup(self) -> None:
        def store(parcel: Parcel) -> None:
            self.order.append(parcel.content)
            self.has_stored.set()

        def read(letter: Letter) -> None:
            self.has_read.set()

        def tick(message: Tick, timers: TimerSource) -> None:
            self.order.append("tick")

        self.register(store)
        self.register(read)
        self.register(tick, self.timers)
        self.prepare()

    def prepare(self) -> None: ...


Running = Callable[..., Backplane]


# -- handles, and timers ------------------------------------------------------------------------------------------------


def test_a_handle_is_either_cancelled_or_begun() -> None:
    """By whoever is first. Was it both, a timer's owner would believe that nobody is called; and somebody is."""
    for is_first_to_begin in (True, False):
        handle: Handle = ReadyHandle(Parcel())
        begun = handle.begin() if is_first_to_begin else None
        assert handle.cancel() is not is_first_to_begin
        if begun is None:
            begun = handle.begin()
        assert begun is is_first_to_begin


def test_a_handle_is_cancelled_or_begun_by_two_threads() -> None:
    """The same, as it happens."""
    both: list[tuple[bool, bool]] = []
    for _ in range(2000):
        handle: Handle = ReadyHandle(Parcel())
        results: list[bool] = []
        thread = threading.Thread(target=lambda h=handle, r=results: r.append(h.begin()))
        thread.start()
        cancelled = handle.cancel()
        thread.join()
        both.append((cancelled, results[0]))
    assert not [each for each in both if each[0] == each[1]]


def test_a_repeating_timer_that_fires_at_once_fires_again(
    running: Running, wait: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first message has been handled before whoever began it knows the timer: not to be taken for unhandled for ever."""
    post = Post()
    backplane = running(post, threads=2)
    with backplane.engine.lead:
        backplane.engine.lifecycle.move("post", ModuleState.INITIALIZING, lambda error: None)
        backplane.engine.lifecycle.move("post", ModuleState.PRIMARY, lambda error: None)
    assert post._hosted_by is not None
    real = post._hosted_by
    three = threading.Event()

    class Host:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def later(self, *arguments: Any) -> Any:
            timer = real.later(*arguments)
            while not post.order:
                pass
            # Its delivery has ended by the time that this has run behind it.
            for _ in range(2):
                done = threading.Event()
                post.has_stored = done
                post.dispatch(Parcel())
                wait.until(done, "what came behind it")
            return timer

    monkeypatch.setattr(post, "_hosted_by", Host())

    class Order(list[str]):
        def append(self, what: str) -> None:
            super().append(what)
            if self.count("tick") == 3:
                three.set()

    post.order = Order()
    post.timers._is_running = True
    id = post.timers.begin(0, Tick(), every=0.002)
    wait.until(three, "it fires again")
    post.timers.cancel(id)


def test_the_next_message_of_a_timer_can_be_cancelled_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fires in the moment in which the one before has been handled: whoever cancels it then must find the new one."""
    post = Post()
    backplane = VirtualBackplane(post)
    backplane.run_until_idle()
    id = post.timers.begin(1, Tick(), every=1)
    timer = post.timers._timers[id]
    backplane.advance(1.0)
    assert post.order == ["tick"]
    action = timer.fire()  # the second
    first, second = ReadyHandle(Tick()), timer.handle

    class Scheduled:
        """The third is made as soon as it may be."""

        def __setattr__(self, name: str, value: object) -> None:
            assert (name, value) == ("is_pending", False)
            timer.handle = first

    assert action is not None and second is not None
    monkeypatch.setattr(timer, "scheduled", Scheduled())
    timer.handled()
    assert timer.handle is first


def test_who_comes_too_late_by_a_hair_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cancel` has found the timer; its message is handled before `cancel` looks at what it became."""
    post = Post()
    backplane = VirtualBackplane(post)
    backplane.run_until_idle()
    id = post.timers.begin(1, Tick())
    forget = post.timers._forget

    def slowly(asked: int) -> Any:
        monkeypatch.setattr(post.timers.__class__, "_forget", lambda self, id: forget(id))
        found = forget(asked)
        backplane.advance(1.0)
        return found

    monkeypatch.setattr(post.timers.__class__, "_forget", lambda self, id: slowly(id))
    assert post.timers.cancel(id) is False and post.order == ["tick"]


def test_a_timer_that_is_begun_while_its_source_stops_does_not_begin_in_the_next_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is between seeing that it may begin and being in the table when everything in there is taken back."""
    post = Post()
    backplane = VirtualBackplane(post)
    backplane.run_until_idle()
    check = TimerSource._check_open
    asked: list[int] = []

    def stopped_after(self: TimerSource) -> None:
        check(self)
        if not asked:
            asked.append(1)
            self._stop()

    monkeypatch.setattr(TimerSource, "_check_open", stopped_after)
    with pytest.raises(Exception, match="has stopped"):
        post.timers.begin(1, Tick())
    assert not post.timers.begun
