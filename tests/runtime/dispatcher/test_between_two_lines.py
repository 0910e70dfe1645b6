"""What another thread does between two lines of the dispatcher. Each test lets it run exactly there.

A stress test meets these once in a million messages; a system that runs for a year meets them every day.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import Dispatcher, Message, eavesdroppers, message
from appbackplane.runtime.dispatcher.handles import Handle, Ready
from appbackplane.runtime.dispatcher.sources import TimerSource
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy
from tests.waiting import wait_until


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


# -- eavesdroppers ------------------------------------------------------------------------------------------------------


class Hanging(Post):
    """An eavesdropper that never comes back, until the test has ended."""

    slow_after = 0.05

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.let_go = threading.Event(), threading.Event()

    def prepare(self) -> None:
        def hang(parcel: Parcel) -> None:
            self.hangs.set()
            self.let_go.wait(60.0)  # longer than a test waits for anything

        self.eavesdrop(hang, category=990, slow_after=self.slow_after)


def test_who_is_cut_off_while_it_is_to_be_told_is_not_waited_for(
    running: Running, wait: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cuts it off does not know of this message yet, and behind what hangs it would stand for ever."""
    post = Hanging()
    running(post, threads=3)
    own, cut_off = eavesdroppers._own, threading.Event()

    def own_late(message: Parcel) -> Message:
        if message.content == "rice":
            assert cut_off.wait(20.0)
        return own(message)

    monkeypatch.setattr(eavesdroppers, "_own", own_late)
    look = post._eavesdropping.look

    def looked() -> None:
        look()
        if post._eavesdropping.of_category[990][0].is_cut_off:
            cut_off.set()

    monkeypatch.setattr(post._eavesdropping, "look", looked)
    post.dispatch(Parcel("tea"))
    wait.until(post.hangs, "the eavesdropper hangs")
    post.dispatch(Parcel("rice"))
    try:
        wait.until(post.has_stored, "the first goes on")
        post.has_stored.clear()
        if post.order == ["tea"]:
            wait.until(post.has_stored, "the second, too")
    finally:
        post.let_go.set()


def test_what_comes_while_somebody_looks_is_looked_at_as_well(
    running: Running, wait: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saw that somebody was about to look; and he had looked already. No other message need come."""
    post = Hanging()
    backplane = running(post, threads=2)
    mutex, looks = post._mutex, threading.local()
    eavesdropping = post._eavesdropping
    look = eavesdropping.look

    def looking() -> None:
        looks.now = True
        look()

    class Mutex:
        """Once it has been let go of by who looks, the message comes, and somebody is asked to look."""

        def __enter__(self) -> None:
            mutex.acquire()

        def __exit__(self, *_error: object) -> None:
            mutex.release()
            if getattr(looks, "now", False) and not post.hangs.is_set():
                post.dispatch(Parcel())
                delivery_waits(backplane)

    monkeypatch.setattr(eavesdropping, "look", looking)
    monkeypatch.setattr(post, "_mutex", Mutex())
    eavesdropping._watch(50_000_000)
    try:
        wait.until(post.hangs, "the eavesdropper hangs")
        wait.until(post.has_stored, "the message goes on without it")
    finally:
        post.let_go.set()


def delivery_waits(backplane: Backplane) -> None:
    """Until one is put aside: all that it has asked for has been said."""

    def is_parked() -> bool:
        with backplane.engine.lead:
            return bool(backplane.engine.parking.parked)

    wait_until(is_parked, "no delivery waits")


def test_one_with_little_patience_is_not_kept_waiting_by_one_with_much(running: Running, wait: Any) -> None:
    """Somebody will look in an hour: that is no reason not to look in 50 ms."""

    class Patient(Hanging):
        def prepare(self) -> None:
            super().prepare()
            self.eavesdrop(lambda letter: None, category=991, slow_after=3600)

    post = Patient()
    running(post, threads=2)
    post.dispatch(Letter())
    wait.until(post.has_read, "the letter")
    post.dispatch(Parcel())
    try:
        wait.until(post.has_stored, "the message goes on without the eavesdropper")
    finally:
        post.let_go.set()


@pytest.mark.parametrize("comes_before", [True, False])
def test_going_down_ends_no_watch(running: Running, wait: Any, comes_before: bool) -> None:
    """All timers of a component are taken back when it goes down, and nobody would look any more: also when it is up again."""
    post = Hanging()
    post.slow_after = 0.3
    backplane = running(post, threads=3)

    def move(to: ModuleState) -> None:
        moved = threading.Event()
        with backplane.engine.lead:
            backplane.engine.modules.move("hanging", to, lambda error: moved.set())
        wait.until(moved, f"it is {to.value}")

    for each in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
        move(each)
    if not comes_before:
        post._eavesdropping._watch(300_000_000)
    else:
        post.dispatch(Parcel())
        wait.until(post.hangs, "the eavesdropper hangs")
        delivery_waits(backplane)
    for each in (ModuleState.DOWN, ModuleState.INITIALIZING, ModuleState.PRIMARY):
        move(each)
    if not comes_before:
        post.dispatch(Parcel())
    try:
        wait.until(post.has_stored, "the message goes on without it")
    finally:
        post.let_go.set()


def test_who_is_cut_off_and_has_no_room_is_left_out_once(caplog: pytest.LogCaptureFixture) -> None:
    """All have been cut off in the middle of being asked, and the message has been resumed; then `max_posted` is reached."""

    class Full(Post):
        def prepare(self) -> None:
            self.ears = [self.eavesdrop(lambda parcel, n=number: None, category=990) for number in range(2)]

        def post(self, action: Any) -> None:
            if not isinstance(action, eavesdroppers.Hearing):
                return super().post(action)
            for each in [each for each in self._eavesdropping._hearings]:
                self._eavesdropping.cut_off(each, "the test wants it", None)
            raise Busy("no room")

    post = Full()
    backplane = VirtualBackplane(post)
    backplane.call("full.parcel", content="tea").result()
    backplane.call("full.parcel", content="rice").result()
    assert post.order == ["tea", "rice"]
    assert "no room" in caplog.text


def test_one_that_exits_is_cut_off() -> None:
    """It is as good as raising, and would be asked for each message."""

    class Leaving(Post):
        def prepare(self) -> None:
            def leave(parcel: Parcel) -> None:
                raise SystemExit

            self.ear = self.eavesdrop(leave, category=990)

    post = Leaving()
    VirtualBackplane(post).call("leaving.parcel", content="tea").result()
    assert post.ear.is_cut_off and post.order == ["tea"]


# -- handles, and timers ------------------------------------------------------------------------------------------------


def test_a_handle_is_either_cancelled_or_begun() -> None:
    """By whoever is first. Was it both, a timer's owner would believe that nobody is called; and somebody is."""
    for is_first_to_begin in (True, False):
        handle: Handle = Ready(Parcel())
        begun = handle.begin() if is_first_to_begin else None
        assert handle.cancel() is not is_first_to_begin
        if begun is None:
            begun = handle.begin()
        assert begun is is_first_to_begin


def test_a_handle_is_cancelled_or_begun_by_two_threads() -> None:
    """The same, as it happens."""
    both: list[tuple[bool, bool]] = []
    for _ in range(2000):
        handle: Handle = Ready(Parcel())
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
        backplane.engine.modules.move("post", ModuleState.INITIALIZING, lambda error: None)
        backplane.engine.modules.move("post", ModuleState.PRIMARY, lambda error: None)
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
    first, second = Ready(Tick()), timer.handle

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
