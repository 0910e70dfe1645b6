"""Accessors: what a handler reaches for besides is locked in its rank (seed 003, figure 6), and it is told what it cost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    Accessor,
    DataProtector,
    Dispatcher,
    Message,
    Read,
    SelectiveAccessor,
    SelectiveProtector,
    message,
)
from appbackplane.runtime.dispatcher.delivery import Delivery
from appbackplane.runtime.execution.services.engine_platform import EnginePlatform
from appbackplane.runtime.execution.workers.current import current
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import FailedPrecondition
from tests.waiting import LIMIT_S


class Datum:
    def __init__(self) -> None:
        self.changes = 0


class First(Datum):
    pass


class Second(Datum):
    pass


class Third(Datum):
    pass


class Fourth(Datum):
    pass


class Fifth(Datum):
    pass


@message(category=71, id=1)
class Reach(Message):
    """Given 1, 2, 4 and 5, it reaches for 3."""


@message(category=71, id=2)
class HoldThird(Message):
    """Keeps 3 from others."""


@message(category=71, id=3)
class ChangeFourth(Message):
    """Uses 4 if it can."""


@message(category=71, id=4)
class LookAtFifth(Message):
    """Uses 5 if it can, and changes nothing."""


@message(category=71, id=5, key="room")
class Pair(Message):
    """Given one of many, it reaches for others of these."""

    room: str


class Numbers(Dispatcher):
    """The data of figure 6."""

    def __init__(self) -> None:
        self.holding, self.let_go = threading.Event(), threading.Event()
        self.changed, self.looked, self.done = threading.Event(), threading.Event(), threading.Event()
        self.before: list[str] = []
        self.inside: list[str] = []
        self.after: list[str] = []
        self.disturbed: tuple[str, ...] = ()
        self.reaching: Delivery | None = None

    def setup(self) -> None:
        def reach(_: Reach, one: First, two: Second, three: Accessor[Third], four: Fourth, five: Fifth) -> None:
            delivery = current.action
            assert isinstance(delivery, Delivery)
            self.reaching = delivery
            self.before = held_by(delivery)
            with three.lock():
                self.inside, self.disturbed = held_by(delivery), three.disturbed
            self.after = held_by(delivery)
            self.done.set()

        def hold(_: HoldThird, three: Third) -> None:
            self.holding.set()
            assert self.let_go.wait(LIMIT_S)

        def change(_: ChangeFourth, four: Fourth) -> None:
            four.changes += 1
            self.changed.set()

        def look(_: LookAtFifth, five: Read[Fifth]) -> None:
            self.looked.set()

        first, second, third, fourth, fifth = (
            DataProtector(First()), DataProtector(Second()), DataProtector(Third()), DataProtector(Fourth()),
            DataProtector(Fifth()),
        )  # fmt: skip
        self.register(reach, first, second, third.accessor, fourth, fifth)
        self.register(hold, third)
        self.register(change, fourth)
        self.register(look, fifth)


def held_by(delivery: Delivery) -> list[str]:
    """Names of the data, in the order in which they were locked."""
    return [claim.lock.name for claim in delivery.held if claim.lock is not delivery.dispatcher._places]


@pytest.mark.usefixtures("replaceable")
def test_4_and_5_are_unlocked_3_is_added_and_4_and_5_are_locked_again(
    running: Callable[..., Any], wait: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figure 6: "any thread waiting on the released objects but on none of those still held will get its chance to run"."""
    waits = threading.Event()
    begins_to_block = EnginePlatform.begins_to_block

    def watched(self: EnginePlatform, action: Any) -> None:
        begins_to_block(self, action)
        waits.set()

    monkeypatch.setattr(EnginePlatform, "begins_to_block", watched)
    numbers = Numbers()
    running(numbers, threads=4)
    numbers.dispatch(HoldThird())
    wait.until(numbers.holding, "3 is held")
    numbers.dispatch(Reach())
    wait.until(waits, "3 is waited for")
    assert numbers.reaching is not None
    assert held_by(numbers.reaching) == ["First", "Second"]
    numbers.dispatch(ChangeFourth())
    numbers.dispatch(LookAtFifth())
    wait.until(numbers.changed, "4 is free")
    wait.until(numbers.looked, "5 is free")
    numbers.let_go.set()
    wait.until(numbers.done, "the handler")
    assert numbers.before == ["First", "Second", "Fourth", "Fifth"]
    assert numbers.inside == ["First", "Second", "Third", "Fourth", "Fifth"]
    assert numbers.disturbed == ("Fourth",), "5 was only looked at, and 1 and 2 were nobody else's"
    assert numbers.after == ["First", "Second", "Fourth", "Fifth"]


def test_what_nobody_wanted_meanwhile_is_undisturbed() -> None:
    """A handler that is told otherwise reads again what it knows."""
    numbers = Numbers()
    backplane = VirtualBackplane(numbers)
    backplane.call("numbers.reach").result()
    assert numbers.inside == ["First", "Second", "Third", "Fourth", "Fifth"]
    assert numbers.disturbed == ()


# -- what it has already --------------------------------------------------------------------------------------------------


class Rooms(Dispatcher):
    """Two of many data, which may be one."""

    def __init__(self, script: Callable[[SelectiveAccessor[str, Datum], Callable[[], dict[str, bool]]], None]) -> None:
        self.script = script
        #: What a second handler of the same message does.
        self.then: Callable[..., None] = lambda others, held: None

    def setup(self) -> None:
        rooms = SelectiveProtector[str, Datum](lambda _: Datum(), name="room")

        def held() -> dict[str, bool]:
            delivery = current.action
            assert isinstance(delivery, Delivery)
            names = held_by(delivery)
            return {claim.lock.name: claim.is_shared for claim in delivery.held if claim.lock.name in names}

        def read(message: Pair, here: Read[Datum], others: SelectiveAccessor[str, Datum]) -> None:
            self.script(others, held)

        def read_again(message: Pair, here: Read[Datum], others: SelectiveAccessor[str, Datum]) -> None:
            self.then(others, held)

        self.register(read, rooms, rooms.accessor)
        self.register(read_again, rooms, rooms.accessor)


def in_a_handler(script: Callable[[Any, Callable[[], dict[str, bool]]], None]) -> None:
    """Given `a` to read, and all of them within reach to write."""
    VirtualBackplane(Rooms(script)).call("rooms.pair", room="a").result()


def test_what_a_handler_has_it_keeps_when_an_accessor_lets_go_of_it() -> None:
    """It reached for what its message had chosen already. Without its lock it would go on where others are."""

    def script(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        with rooms.lock("a"):
            pass
        assert held() == {"room 'a'": True}

    in_a_handler(script)


def test_what_it_has_to_read_it_gets_to_write() -> None:
    """And has it to read afterwards. Others that read would be there while it writes."""

    def script(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        assert held() == {"room 'a'": True}
        with rooms.lock("a"):
            assert held() == {"room 'a'": False}
            with rooms.lock("a"):
                assert held() == {"room 'a'": False}
            assert held() == {"room 'a'": False}
        assert held() == {"room 'a'": True}

    in_a_handler(script)


def test_blocks_are_left_in_any_order() -> None:
    """With an ExitStack, or by hand; each lets go of its own."""

    def script(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        b, c, again = rooms.lock("b"), rooms.lock("c"), rooms.lock("b")
        for block in (b, c, again):
            block.__enter__()
        b.__exit__(None, None, None)
        assert sorted(held()) == ["room 'a'", "room 'b'", "room 'c'"], "b is locked by another block still"
        again.__exit__(None, None, None)
        assert sorted(held()) == ["room 'a'", "room 'c'"]
        c.__exit__(None, None, None)
        assert sorted(held()) == ["room 'a'"]

    in_a_handler(script)


def test_a_block_that_is_never_left_ends_with_the_handler() -> None:
    """Its lock would be nobody's, for ever. What is left of the block, let go of much later, takes nothing from others."""
    kept: list[Any] = []

    def script(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        block = rooms.lock("b")
        block.__enter__()
        kept.append(block)

    def then(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        with rooms.lock("c"):
            assert held() == {"room 'a'": True, "room 'c'": False}
        kept[0].__exit__(None, None, None)
        assert held() == {"room 'a'": True}

    rooms = Rooms(script)
    rooms.then = then
    VirtualBackplane(rooms).call("rooms.pair", room="a").result()


def test_an_error_inside_of_a_block_lets_go_of_all() -> None:
    """Of the handler's own, too."""

    def script(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        with ExitStack() as blocks:
            for key in "cb":
                blocks.enter_context(rooms.lock(key))
            raise SystemExit

    rooms = Rooms(script)
    backplane = VirtualBackplane(rooms)
    assert "SystemExit" in str(backplane.call("rooms.pair", room="a").error())
    rooms.script = rooms.then = lambda accessor, held: accessor.lock("b").__enter__() and None
    for key in "abc":
        backplane.call("rooms.pair", room=key).result()


# -- where it may be used -------------------------------------------------------------------------------------------------


def test_an_accessor_ends_with_its_handler_and_stays_in_its_thread() -> None:
    """Locks of a message that has ended would never be released; those of one are taken by one thread."""
    kept: list[SelectiveAccessor[str, Datum]] = []
    refused: list[FailedPrecondition] = []

    def use(rooms: SelectiveAccessor[str, Datum]) -> None:
        with pytest.raises(FailedPrecondition) as caught, rooms.lock("b"):
            pass
        refused.append(caught.value)

    def script(rooms: SelectiveAccessor[str, Datum], held: Callable[[], dict[str, bool]]) -> None:
        kept.append(rooms)
        thread = threading.Thread(target=use, args=(rooms,))
        thread.start()
        thread.join(LIMIT_S)
        assert sorted(held()) == ["room 'a'"]

    in_a_handler(script)
    use(kept[0])
    assert len(refused) == 2
    for error in refused:
        assert "the accessor of room was used after its handler had returned, or in another thread" in str(error)


def test_a_unit_test_says_what_a_handler_finds_disturbed() -> None:
    """Both ways of a handler are tested without a dispatcher."""
    looks: list[int] = []

    def handler(message: Reach, three: Accessor[Third], four: Fourth) -> None:
        known = four.changes
        with three.lock():
            looks.append(four.changes if three.disturbed else known)

    four = Fourth()
    handler(Reach(), Accessor.of(Third()), four)
    handler(Reach(), Accessor.of(Third(), disturbed=["Fourth"]), four)
    assert looks == [0, 0]
    assert SelectiveAccessor.of({"a": four}).disturbed == ()
