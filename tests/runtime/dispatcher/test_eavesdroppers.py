"""Eavesdroppers hear first, change nothing, and never stand in the way of a message for long."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, RegistrationError, message
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import FailedPrecondition


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


def test_it_hears_its_category_before_the_handlers_do() -> None:
    """And no other category."""
    heard: list[str] = []
    post = Post((lambda parcel: heard.append(parcel.content), {"category": 910}))
    backplane = VirtualBackplane(post)
    backplane.publish("nothing")
    backplane.call("post.letter", text="hello").result()
    assert heard == []
    call = backplane.call("post.parcel", content="tea")
    ran = backplane.run_until_idle()
    assert ran == ["parcel", "eavesdropping", "parcel"] and heard == ["tea"]
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


def test_one_that_is_slow_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """By its own time: it has let each message of its category wait."""
    held: list[VirtualBackplane] = []

    def slow(parcel: Parcel) -> None:
        held[0].clock.move(held[0].clock.now_ns() + 300_000_000)

    post = Post((slow, {"category": 910, "slow_after": 0.2}))
    held.append(VirtualBackplane(post))
    with caplog.at_level(logging.ERROR):
        held[0].call("post.parcel", content="tea").result()
        held[0].call("post.parcel", content="rice").result()
    assert "it took 300 ms over one message" in caplog.text
    assert post._eavesdropping.of_category[910][0].heard_count == 1


def test_one_that_does_not_come_back_is_left_behind(
    running: Callable[..., Any], wait: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps its worker; the message goes on with another one, and the next ones do not even ask it."""
    hanging, let_go, stored = threading.Event(), threading.Event(), threading.Event()

    def hang(parcel: Parcel) -> None:
        hanging.set()
        let_go.wait(20.0)

    class Store(Dispatcher):
        def setup(self) -> None:
            def store(parcel: Parcel) -> None:
                if parcel.content == "rice":
                    stored.set()

            self.register(store)
            self.eavesdrop(hang, category=910, slow_after=0.05)

    store = Store()
    with caplog.at_level(logging.ERROR):
        running(store, threads=2)
        store.dispatch(Parcel("tea"))
        store.dispatch(Parcel("rice"))
        wait.until(stored, "the messages go on")
    assert hanging.is_set() and not let_go.is_set()
    assert "it has been at one message for 50 ms" in caplog.text
    let_go.set()


@pytest.mark.parametrize("room", [1, 2])
def test_where_there_is_no_room_for_them_the_message_goes_on(room: int, caplog: pytest.LogCaptureFixture) -> None:
    """`max_posted` bounds what a component gives itself to do; those that it leaves out are in the log."""
    heard: list[str] = []
    ears = [(lambda parcel: heard.append(parcel.content), {"category": 910}) for _ in range(2)]

    class Small(Post):
        component_name = "post"
        max_posted = room

    post = Small(*ears)
    backplane = VirtualBackplane(post)
    _ = backplane.backplane
    with caplog.at_level(logging.ERROR):
        post.dispatch(Parcel("tea"))
        backplane.run_until_idle()
    assert post.order == ["stored tea "] and heard == ["tea"] * (room - 1)
    assert "max_posted" in caplog.text
    backplane.call("post.parcel", content="rice").result()
    assert post.order[-1] == "stored rice " and heard[room - 1 :] == ["rice"] * room


def test_where_there_is_no_room_for_anything_else_who_does_not_come_back_is_cut_off(
    running: Callable[..., Any], wait: Any
) -> None:
    """Who looks after them needs no place: without him the message, and its caller, would wait for ever."""
    come_back, handled = threading.Event(), threading.Event()

    class Small(Post):
        max_posted = 2  # the message, and who is to hear it

        def setup(self) -> None:
            super().setup()

            def unpack(parcel: Parcel) -> None:
                handled.set()

            self.register(unpack)

    post = Small((lambda parcel: come_back.wait(), {"category": 910, "slow_after": 0.05}))
    running(post, threads=2)
    try:
        post.dispatch(Parcel("tea"))
        wait.until(handled, "the message goes on")
    finally:
        come_back.set()


def test_it_hears_messages_of_one_priority_in_their_order(running: Callable[..., Any], wait: Any) -> None:
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
    assert caplog.text.count("a Parcel cannot be copied for eavesdroppers, and goes on without them (said once)") == 1
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
        (print, {"category": 910, "slow_after": True}, "slow_after=True, expected seconds above 0"),
        (print, {"category": 910, "slow_after": float("nan")}, "slow_after=nan, expected seconds above 0"),
        (print, {"category": 910, "slow_after": float("inf")}, "slow_after=inf, expected seconds above 0"),
        (print, {"category": "post"}, "category='post', expected the number"),
        (print, {"category": 910, "slow_after": 0}, "slow_after=0, expected seconds above 0"),
    ],
)
def test_a_wrong_one_is_refused_when_it_is_registered(ear: Any, options: dict[str, Any], says: str) -> None:
    """Not when the first message comes."""
    with pytest.raises(RegistrationError, match=says):
        _ = VirtualBackplane(Post((ear, options))).backplane
