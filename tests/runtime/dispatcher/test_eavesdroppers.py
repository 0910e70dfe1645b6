"""Eavesdroppers change nothing and keep nobody waiting: each has a thread and a bounded queue of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    DataProtector,
    Dispatcher,
    Message,
    RegistrationError,
    eavesdroppers,
    message,
)
from appbackplane.runtime.dispatcher.eavesdroppers import QUEUE_MAX
from appbackplane.runtime.dispatcher.sources import Block
from appbackplane.runtime.dispatcher.sources.block_memory import MAPPINGS, make
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import FailedPrecondition
from tests.waiting import wait_until

from .conftest import LIMIT_S, started


@message(category=910, id=1)
class Parcel(Message):
    content: str
    labels: Sequence[str] = []
    inside: Any = None


@message(category=911, id=1)
class Letter(Message):
    text: str


class Shelf:
    def __init__(self) -> None:
        self.order: list[str] = []


class Post(Dispatcher):
    """Counts on what the test hears."""

    def __init__(self, *ears: tuple[Callable[[Any], object], dict[str, Any]]) -> None:
        self.ears = ears
        self.order: list[str] = []

    def setup(self) -> None:
        def store(parcel: Parcel, shelf: Shelf) -> None:
            self.order.append(f"stored {parcel.content} {','.join(parcel.labels)}")

        def read(letter: Letter) -> None:
            self.order.append(f"read {letter.text}")

        self.register(store, DataProtector(Shelf()))
        self.register(read)
        for ear, options in self.ears:
            self.eavesdrop(ear, **options)


def test_it_hears_its_category_and_no_other() -> None:
    """In a virtual backplane, which has no threads, before the handlers do."""
    heard: list[str] = []
    post = Post((lambda parcel: heard.append(parcel.content), {"category": 910}))
    backplane = VirtualBackplane(post)
    backplane.publish("nothing")
    backplane.call("post.letter", text="hello").result()
    assert heard == []
    call = backplane.call("post.parcel", content="tea")
    ran = backplane.run_until_idle()
    assert ran == ["parcel"] and heard == ["tea"]
    assert call.result() is None


def test_it_cannot_change_what_it_hears() -> None:
    """A message is frozen, and a list in it is the eavesdropper's own."""

    def scribble(parcel: Parcel) -> None:
        parcel.labels.append("seen")
        with pytest.raises(AttributeError):
            parcel.content = "another"  # type: ignore[misc]

    post = Post((scribble, {"category": 910}))
    VirtualBackplane(post).call("post.parcel", content="tea", labels=["fragile"]).result()
    assert post.order == ["stored tea fragile"]


def test_one_that_raises_is_cut_off_and_reported_and_the_message_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The others go on listening."""
    heard: list[str] = []

    def clumsy(parcel: Parcel) -> None:
        raise KeyError("where")

    post = Post((clumsy, {"category": 910}), (lambda parcel: heard.append(parcel.content), {"category": 910}))
    backplane = VirtualBackplane(post)
    with caplog.at_level(logging.ERROR):
        for content in ("tea", "rice"):
            backplane.call("post.parcel", content=content).result()
    assert post.order == ["stored tea ", "stored rice "] and heard == ["tea", "rice"]
    assert sum("is cut off: it raised KeyError" in record.getMessage() for record in caplog.records) == 1
    assert "clumsy of category 910" in caplog.text


class Recorder:
    """An eavesdropper that stays in its first message until the test has ended, or lets it go on."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.is_there, self.let_go = threading.Event(), threading.Event()

    def __call__(self, parcel: Parcel) -> None:
        self.is_there.set()
        self.let_go.wait(60.0)  # longer than a test waits for anything
        self.heard.append(parcel.content)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.let_go.set()


def test_one_that_never_returns_keeps_nobody_waiting(
    running: Callable[..., Any], wait: Any, recorder: Recorder
) -> None:
    """On one thread, the default: neither the messages nor other eavesdroppers."""
    others: list[str] = []
    all_heard = threading.Event()

    def hear(parcel: Parcel) -> None:
        others.append(parcel.content)
        if len(others) == 3:
            all_heard.set()

    post = Post((recorder, {"category": 910}), (hear, {"category": 910}))
    running(post, threads=1)
    for content in ("tea", "rice", "salt"):
        post.dispatch(Parcel(content))
    wait.until(all_heard, "the other eavesdropper")
    wait_until(lambda: len(post.order) == 3, "the messages do not go on")
    wait.until(recorder.is_there, "it has begun to hear")


def test_what_its_queue_has_no_room_for_is_lost_counted_and_reported(
    running: Callable[..., Any], wait: Any, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a bound an eavesdropper that is too slow would fill the memory; without the report nobody would know."""
    post = Post((recorder, {"category": 910}))
    running(post, threads=1)
    (ear,) = post._eavesdropping.all
    ear._reports._interval_ns = 10**15  # a host that stops for seconds would have another report
    with caplog.at_level(logging.WARNING):
        post.dispatch(Parcel("first"))
        wait.until(recorder.is_there, "it has begun to hear")
        for number in range(QUEUE_MAX + 3):
            post.dispatch(Parcel(str(number)))
        wait_until(lambda: len(post.order) == QUEUE_MAX + 4, "the messages do not go on")
        recorder.let_go.set()
        wait_until(lambda: ear.heard_count == QUEUE_MAX + 1, "what is in the queue is not heard")
    assert recorder.heard == ["first", *map(str, range(QUEUE_MAX))]
    assert ear.lost_count == 3
    (text,) = [each.getMessage() for each in caplog.records]
    assert f"does not keep up: {QUEUE_MAX} messages wait for it, and 1 are lost to it so far" in text


def test_what_each_has_heard_and_lost_is_asked_by_a_call() -> None:
    """Beside the figures of the handlers."""

    def hear(parcel: Parcel) -> None:
        raise KeyError("where")

    backplane = VirtualBackplane(Post((hear, {"category": 910}), (lambda letter: None, {"category": 911})))
    backplane.call("post.parcel", content="tea").result()
    backplane.call("post.letter", text="hello").result()
    told = backplane.call("post.eavesdroppers").result()
    assert [(each["category"], each["heard"], each["waiting"], each["lost"]) for each in told] == [
        (910, 0, 0, 0),
        (911, 1, 0, 0),
    ]
    assert [each["cut_off"] for each in told] == ["it raised KeyError: 'where'", None]
    assert {each["backplane"] for each in told} == {"virtual"}


def test_what_waits_is_heard_before_the_backplane_ends() -> None:
    """A recorder has the end of the story as well. Its thread ends with the backplane."""
    heard: list[str] = []

    def hear(parcel: Parcel) -> None:
        wait_until(lambda: ear._is_ending, "the backplane does not end")
        heard.append(parcel.content)

    post = Post((hear, {"category": 910}))
    backplane = started(post, threads=1)
    (ear,) = post._eavesdropping.all
    for number in range(100):
        post.dispatch(Parcel(str(number)))
    wait_until(lambda: len(post.order) == 100, "the messages do not go on")
    thread = ear._thread
    assert thread is not None
    assert backplane.stop(LIMIT_S)
    assert heard == [str(number) for number in range(100)]
    assert not thread.is_alive()


def test_what_was_not_heard_when_the_backplane_ends_is_told(
    running: Callable[..., Any], wait: Any, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost silently."""
    post = Post((recorder, {"category": 910}))
    running(post, threads=1)
    for number in range(3):
        post.dispatch(Parcel(str(number)))
    wait.until(recorder.is_there, "it has begun to hear")
    wait_until(lambda: len(post.order) == 3, "the messages do not go on")
    with caplog.at_level(logging.WARNING):
        post._ends(0.0)  # as the backplane does when its time is over
    assert "ends with 2 messages not yet delivered to eavesdropper" in caplog.text
    assert "of category 910" in caplog.text


def test_one_that_raises_loses_what_waits_and_its_thread_ends(
    running: Callable[..., Any], wait: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is called no more, and costs nothing any more."""
    called: list[str] = []
    may_raise = threading.Event()

    def hear(parcel: Parcel) -> None:
        called.append(parcel.content)
        may_raise.wait(LIMIT_S)
        raise KeyError(parcel.content)

    post = Post((hear, {"category": 910}))
    running(post, threads=1)
    for number in range(3):
        post.dispatch(Parcel(str(number)))
    wait_until(lambda: len(post.order) == 3, "the messages do not go on")
    (ear,) = post._eavesdropping.all
    may_raise.set()
    wait_until(lambda: ear._thread is None, "its thread goes on")
    post.dispatch(Parcel("3"))
    wait_until(lambda: len(post.order) == 4, "the messages do not go on")
    assert called == ["0"] and ear.lost_count == 2 and ear.waiting_count == 0 and ear._thread is None


def test_where_there_is_no_thread_for_it_the_next_message_tries_again(
    running: Callable[..., Any], wait: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is out of threads for a moment loses neither the message nor the eavesdropper."""
    heard: list[str] = []
    both = threading.Event()

    def hear(parcel: Parcel) -> None:
        heard.append(parcel.content)
        if len(heard) == 2:
            both.set()

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("eavesdropper-"):
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    start_thread = threading.Thread.start
    post = Post((hear, {"category": 910}))
    running(post, threads=1)
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        post.dispatch(Parcel("tea"))
        wait_until(lambda: bool(post.order), "the message does not go on")
    assert "could not be started; its messages are queued: can't start new thread" in caplog.text
    post.dispatch(Parcel("rice"))
    wait.until(both, "both messages are heard")
    assert heard == ["tea", "rice"]


@message(category=912, id=1)
class Photo(Message):
    pixels: Block


#: Of a block that does not travel as it is.
BIG = 1 << 20


@pytest.fixture
def big_block() -> Iterator[Callable[[], Block]]:
    """Makes blocks in shared memory."""
    made: list[int] = []

    def make_block() -> Block:
        fd, token = make(BIG, lambda view: view.__setitem__(slice(None), b"x" * BIG))
        made.append(fd)
        return Block(BIG, b"", os.getpid(), fd, token=token)

    yield make_block
    for fd in made:
        os.close(fd)


class Gallery(Dispatcher):
    def __init__(self, ear: Callable[[Any], object]) -> None:
        self.ear, self.seen_count = ear, 0

    def setup(self) -> None:
        def show(photo: Photo) -> None:
            assert photo.pixels.view[:1] == b"x"
            self.seen_count += 1

        self.register(show)
        self.eavesdrop(self.ear, category=912)


def test_the_blocks_of_a_message_stay_mapped_until_it_was_heard(
    running: Callable[..., Any], wait: Any, big_block: Callable[[], Block], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handlers have returned long before. They are bounded: a queue of large bodies would fill the memory."""
    monkeypatch.setattr(eavesdroppers, "BLOCK_BYTES_MAX", 2 * BIG)
    seen: list[bytes] = []
    is_there, let_go = threading.Event(), threading.Event()

    def hear(photo: Photo) -> None:
        is_there.set()
        let_go.wait(LIMIT_S)
        seen.append(bytes(photo.pixels.view[-3:]))

    gallery = Gallery(hear)
    running(gallery, threads=1)
    (ear,) = gallery._eavesdropping.all
    mapped_before = len(MAPPINGS)
    gallery.dispatch(Photo(big_block()))
    wait.until(is_there, "it has begun to hear")
    for number in range(1, 4):  # one waits, and one more; the third would be above the bound
        gallery.dispatch(Photo(big_block()))
        wait_until(lambda n=number: gallery.seen_count == n + 1, "the messages do not go on")
    assert ear.lost_count == 1
    let_go.set()
    wait_until(lambda: ear.heard_count == 3, "what waits is not heard")
    assert seen == [b"xxx"] * 3
    wait_until(lambda: len(MAPPINGS) == mapped_before, "blocks stay mapped")


def test_it_hears_messages_in_the_order_in_which_they_come_to_their_handlers(
    running: Callable[..., Any], wait: Any
) -> None:
    """A recorder that writes what it hears writes it in order."""
    heard: list[int] = []
    done = threading.Event()

    def hear(parcel: Parcel) -> None:
        heard.append(int(parcel.content))
        if len(heard) == 300:
            done.set()

    post = Post((hear, {"category": 910}))
    running(post, threads=1)
    for number in range(300):
        post.dispatch(Parcel(str(number)))
    wait.until(done, "all parcels")
    assert heard == list(range(300))


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise ValueError("not even what it says")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Unspeakable()])
def test_whatever_it_raises_it_is_cut_off(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """`sys.exit()` in one, or an error that cannot be told, must not let it fail again and again for each message."""

    def fail(parcel: Parcel) -> None:
        raise error

    post = Post((fail, {"category": 910}))
    backplane = VirtualBackplane(post)
    for number in range(2):
        assert backplane.call("post.parcel", content=f"{number}").result() is None
    assert caplog.text.count("is cut off: it raised " + type(error).__name__) == 1
    assert post.order == ["stored 0 ", "stored 1 "]


def test_what_cannot_be_copied_is_handled_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """A list that a stranger has nested 400 deep, a memoryview: neither is the message lost, nor the eavesdropper cut off."""
    heard: list[Any] = []
    post = Post((heard.append, {"category": 910}))
    backplane = VirtualBackplane(post)
    _ = backplane.backplane
    for content in ("view", "another"):
        post.dispatch(Parcel(content, inside=[memoryview(b"")]))
    backplane.run_until_idle()
    assert post.order == ["stored view ", "stored another "] and heard == []
    assert caplog.text.count("a Parcel cannot be copied for eavesdroppers, which do not get it (logged once)") == 1
    backplane.call("post.parcel", content="tea").result()
    assert len(heard) == 1


def test_nobody_listens_who_was_not_there_from_the_beginning() -> None:
    """It is part of what a system for safety is certified with, as the table of handlers."""
    post = Post()
    VirtualBackplane(post).call("post.letter", text="").result()
    with pytest.raises(FailedPrecondition, match=r"eavesdrop\(print\): virtual/post runs: eavesdrop in setup\(\)"):
        post.eavesdrop(print, category=910)


async def later(parcel: Parcel) -> None: ...


def two(parcel: Parcel, other: Parcel) -> None: ...


@pytest.mark.parametrize(
    ("ear", "options", "says"),
    [
        (3, {"category": 910}, "expected a function of the message"),
        (later, {"category": 910}, "expected a plain function"),
        (
            two,
            {"category": 910},
            r"eavesdrop\(two\) takes \(parcel: .*, other: .*\).*: expected a function of the message",
        ),
        (print, {"category": True}, "category=True, expected the number"),
        (print, {"category": "post"}, "category='post', expected the number"),
    ],
)
def test_a_wrong_one_is_refused_when_it_is_registered(ear: Any, options: dict[str, Any], says: str) -> None:
    """Not when the first message comes."""
    with pytest.raises(RegistrationError, match=says):
        _ = VirtualBackplane(Post((ear, options))).backplane
