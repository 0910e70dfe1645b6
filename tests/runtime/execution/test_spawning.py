"""Spawned objects: found by their addresses alone, they take calls like others, and end with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

from appbackplane.runtime import (
    Address,
    AppObject,
    Busy,
    Component,
    DeadlineExceeded,
    DeclarationError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    StateMachine,
    Unavailable,
    every,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.testing import VirtualBackplane


class Account(AppObject):
    """A light object."""

    def __init__(self, owner: str = "") -> None:
        self.owner, self.log = owner, list[str]()

    @operation(priority=3, export=True)
    def deposit(self, cents: int) -> int:
        self.log.append(f"{cents}")
        return cents

    @operation()
    async def wait(self, seconds: float) -> str:
        await pause(seconds)
        self.log.append("waited")
        return "waited"

    @operation()
    def close(self, reason: str = "") -> str:
        self.end_self(reason)
        self.log.append("closed")
        return "closed"

    @operation()
    def later(self, seconds: float) -> None:
        self.after(seconds, self.ring)

    def ring(self) -> None:
        self.log.append("rang")

    @operation()
    def upto(self, count: int) -> Iterator[int]:
        yield from range(count)

    @operation()
    def fail(self) -> None:
        raise RuntimeError("on purpose")

    @operation()
    def where(self) -> Address:
        return self.own_address


class Door(Enum):
    """Whether it is open."""

    OPEN = 1
    SHUT = 2


class Gate(StateMachine):
    """Defers what comes while it is shut."""

    initial = Door.SHUT

    @operation(accepted_in=(Door.OPEN,), otherwise="defer")
    def enter(self) -> str:
        return "in"

    @operation()
    def close(self) -> None:
        self.end_self("torn down")


class Bank(Component):
    """Spawns them."""

    declares = (Account, Gate)
    spawnable = (Account,)
    max_spawned = 3

    def __init__(self) -> None:
        self.accounts: list[Account] = []

    @operation()
    def open(self, owner: str = "") -> Address:
        self.accounts.append(Account(owner))
        return self.spawn(self.accounts[-1])

    @operation()
    def gate(self) -> Address:
        return self.spawn(Gate())

    @operation()
    def shut(self, account: Address, reason: str = "") -> None:
        self.end_spawned(account, reason)

    @operation()
    async def use(self, account: Address) -> list[Any]:
        self.cast(account.to("deposit"), cents=1)
        called = await self.call(account.to("deposit"), cents=2)
        both = await self.gather(*(self.call(account.to("deposit"), cents=cents) for cents in (3, 4)))
        return [called, *both, *[item async for item in self.stream(account.to("upto"), count=2)]]

    @operation()
    def use_blocking(self, account: Address) -> int:
        return int(self.call_blocking(account.to("deposit"), cents=5))

    @operation()
    def kinds_of(self, accounts: list[Address], by_name: dict[str, Address], one: Address | None) -> list[str]:
        return [type(each).__name__ for each in (*accounts, *by_name.values(), one)]

    @operation()
    def kind_of(self, account: Address) -> str:
        return type(account).__name__

    @operation()
    def raises(self, name: str) -> str:
        attempt: Callable[[], Any] = ATTEMPTS[name].__get__(self)
        with pytest.raises((DeclarationError, ValueError, TypeError, RuntimeError, FailedPrecondition)) as raised:
            attempt()
        return f"{raised.type.__name__}: {raised.value}"


class Other(AppObject):
    """Of no component."""

    @operation()
    def nothing(self) -> None:
        pass


ATTEMPTS: dict[str, Callable[[Bank], Any]] = {
    "undeclared": lambda bank: bank.spawn(Other()),
    "class": lambda bank: bank.spawn(Account),  # type: ignore[arg-type]
    "component": lambda bank: bank.spawn(Bank()),
    "twice": lambda bank: (bank.open(), bank.spawn(bank.accounts[-1])),
    "end": lambda bank: bank.end_self("it goes"),
    "address": lambda bank: bank.own_address,
    "remove": lambda bank: (bank.open(), bank.remove(bank.accounts[-1])),
    "reason": lambda bank: bank.end_spawned(bank.open(), 3),  # type: ignore[arg-type]
}


@pytest.fixture
def bank() -> Bank:
    """The component."""
    return Bank()


@pytest.fixture
def backplane(bank: Bank) -> VirtualBackplane:
    """Its backplane."""
    return VirtualBackplane(bank)


def opened(backplane: VirtualBackplane, owner: str = "") -> Address:
    """A new account."""
    return Address(backplane.call("bank.open", owner=owner).result())


def test_an_address_leads_to_one_object_and_travels_as_text(backplane: VirtualBackplane, bank: Bank) -> None:
    """And comes back as an address where the annotation says so."""
    ada, bob = opened(backplane, "ada"), opened(backplane, "bob")
    backplane.call(bob.to("deposit"), cents=5).result()
    assert [account.log for account in bank.accounts] == [[], ["5"]]
    assert backplane.call("bank.kind_of", account=ada).result() == "Address"
    assert backplane.call(ada.to("where")).result() == ada
    inside = backplane.call("bank.kinds_of", accounts=[ada], by_name={"bob": bob}, one=None)
    assert inside.result() == ["Address", "Address", "NoneType"]
    with pytest.raises(InvalidArgument, match="argument 'account': expected an address"):
        backplane.call("bank.kind_of", account="ada").result()
    assert bank.objects == ()
    assert bank.spawned_count == 2
    assert bank.accounts[0].name == "virtual/bank.#1"


def test_calls_keep_order_priority_and_deadline(backplane: VirtualBackplane, bank: Bank) -> None:
    """Erlang has no priorities of messages: here an urgent call to an address goes before others."""
    ada, bob = opened(backplane), opened(backplane)
    for account in bank.accounts:
        account.log = bank.accounts[0].log
    for cents in (1, 2):
        backplane.call(ada.to("deposit"), cents=cents, priority=6)
    late = backplane.call(ada.to("deposit"), cents=3, timeout=1.0)
    backplane.call(bob.to("deposit"), cents=4, priority=0)
    backplane.clock.move(backplane.clock.now_ns() + 2_000_000_000)
    backplane.run_until_idle()
    assert bank.accounts[0].log == ["4", "1", "2"]
    assert isinstance(late.exception(), DeadlineExceeded)


def test_objects_call_an_address_in_every_way_in_which_they_call_routes(
    backplane: VirtualBackplane, bank: Bank
) -> None:
    """There is one way to say what is called."""
    ada = opened(backplane)
    assert backplane.call("bank.use", account=ada).result() == [2, 3, 4, 0, 1]
    assert backplane.call("bank.use_blocking", account=ada).result() == 5
    assert bank.accounts[0].log == ["1", "2", "3", "4", "5"]
    assert [*backplane.stream(ada.to("upto"), count=3)] == [0, 1, 2]
    backplane.cast(ada.to("deposit"), cents=6)
    backplane.run_until_idle()
    assert bank.accounts[0].log[-1] == "6"


def test_a_call_without_an_address_never_goes_to_one(backplane: VirtualBackplane) -> None:
    """It would be some account or other."""
    opened(backplane)
    with pytest.raises(Unavailable, match="has no object that serves it now"):
        backplane.call("bank.deposit", cents=1).result()


def test_no_object_has_a_key_that_looks_like_an_address(bank: Bank) -> None:
    """It would be called in place of a spawned one."""
    bank.add(Account(), key="@virtual:#00000000.1")
    with pytest.raises(DeclarationError, match="has the form of an address"):
        _ = VirtualBackplane(bank).backplane


def test_queued_calls_learn_the_reason_and_the_running_one_ends(backplane: VirtualBackplane, bank: Bank) -> None:
    """Whoever waits for an object that is no more must not wait for the deadline."""
    ada = opened(backplane)
    closing = backplane.call(ada.to("close"), reason="moved away")
    behind = backplane.call(ada.to("deposit"), cents=1)
    assert closing.result() == "closed"
    with pytest.raises(NotFound, match=r"bank\.deposit: bank:1 has ended: moved away"):
        behind.result()
    assert bank.accounts[0].log == ["closed"]
    for call in (backplane.call(ada.to("deposit"), cents=1), backplane.call("bank.shut", account=ada)):
        with pytest.raises(NotFound, match="bank:1 has ended"):
            call.result()
    assert bank.spawned_count == 0
    assert opened(backplane).number == 2


def test_the_component_ends_one_that_waits_which_goes_on_to_its_end(backplane: VirtualBackplane, bank: Bank) -> None:
    """Law 6: what awaits something is not torn away; but nothing more begins."""
    ada = opened(backplane)
    waiting = backplane.call(ada.to("wait"), seconds=2.0)
    backplane.run_until_idle()
    behind = backplane.call(ada.to("deposit"), cents=1)
    backplane.call("bank.shut", account=ada, reason="closed for good").result()
    with pytest.raises(NotFound, match="closed for good"):
        behind.result()
    assert bank.accounts[0]._component is not None
    backplane.advance(2.0)
    assert waiting.result() == "waited"
    assert bank.accounts[0]._component is None


def test_what_a_state_machine_has_deferred_is_refused_too(backplane: VirtualBackplane) -> None:
    """It is in no queue."""
    gate = Address(backplane.call("bank.gate").result())
    entering = backplane.call(gate.to("enter"))
    backplane.run_until_idle()
    backplane.call(gate.to("close")).result()
    with pytest.raises(NotFound, match="torn down"):
        entering.result()


def test_its_timers_do_not_run_after_its_end_and_free_their_places(backplane: VirtualBackplane, bank: Bank) -> None:
    """Nobody walks over all timers when an object ends: they are left until they are due."""
    ada, bob = opened(backplane), opened(backplane)
    for account in (ada, bob):
        backplane.call(account.to("later"), seconds=5.0).result()
    backplane.call(ada.to("close")).result()
    backplane.advance(6.0)
    assert [account.log for account in bank.accounts] == [["closed"], ["rang"]]
    assert backplane.backplane.statistics()["components"]["bank"]["posted"] == 0


def test_an_error_does_not_end_an_object(backplane: VirtualBackplane) -> None:
    """Its caller is told, who may know what to do; its state is as the operation left it."""
    ada = opened(backplane)
    assert backplane.call(ada.to("fail")).exception() is not None
    assert backplane.call(ada.to("deposit"), cents=1).result() == 1


def test_full_is_busy_and_an_end_makes_room(backplane: VirtualBackplane) -> None:
    """A loop that spawns must not take all memory."""
    accounts = [opened(backplane) for _ in range(3)]
    with pytest.raises(Busy, match=r"virtual/bank has 3 spawned objects \(max_spawned = 3\)"):
        opened(backplane)
    backplane.call(accounts[0].to("close")).result()
    assert opened(backplane).number == 4


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("undeclared", "DeclarationError: virtual/bank does not declare Other: list the class in Bank.declares"),
        ("class", "TypeError: spawn() takes an object of a class that virtual/bank declares: got <class"),
        ("component", "TypeError: spawn() takes an object of a class"),
        ("twice", "ValueError: virtual/bank.#1 is already in virtual/bank"),
        ("end", "RuntimeError: virtual/bank was added, not spawned: its component removes it"),
        ("address", "RuntimeError: virtual/bank was not spawned, so it has no address"),
        ("remove", "FailedPrecondition: virtual/bank.#1 was spawned, not added: end it, by end_spawned"),
        ("reason", "TypeError: the reason of an end is text, got 3"),
    ],
)
def test_mistakes_are_named(backplane: VirtualBackplane, name: str, because: str) -> None:
    """Each with the remedy."""
    assert backplane.call("bank.raises", name=name).result().startswith(because)


class Subscriber(AppObject):
    """Would be in a table of subscribers."""

    @subscribe("news")
    def hear(self) -> None: ...


class Ticking(AppObject):
    """Would have a timer."""

    @every(1.0)
    def tick(self) -> None: ...


class Wide(AppObject):
    """Would have several queues."""

    concurrency = 2

    @operation()
    def work(self) -> None: ...


class Spawner(Component):
    """Declares what cannot be spawned."""

    declares = (Subscriber, Ticking, Wide)

    @operation()
    def try_to(self, name: str) -> str:
        cls = next(cls for cls in self.declares if cls.__name__ == name)
        with pytest.raises(DeclarationError) as raised:
            self.spawn(cls())
        return str(raised.value)


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("Subscriber", "a spawned object has only operations: let its component subscribe, and call it"),
        ("Ticking", "a spawned object has only operations: set timers with after()"),
        ("Wide", "a spawned object has one queue: spawn several"),
    ],
)
def test_what_would_be_in_a_list_cannot_be_spawned(name: str, because: str) -> None:
    """Taking one of 100,000 out of a list is a walk over all."""
    assert VirtualBackplane(Spawner()).call("spawner.try_to", name=name).result().endswith(because)


class Asker(AppObject):
    interleaves = True

    @operation()
    async def ask(self) -> str:
        answer: str = await self.call("oracle.answer")
        return answer


class Pair(Component):
    declares = (Asker,)

    @operation()
    def open(self) -> Address:
        return self.spawn(Asker())


def test_a_spawned_object_may_interleave() -> None:
    """As any other: its second call does not wait for the reply to the first."""
    backplane = VirtualBackplane(Pair(), outside=("oracle.answer",))
    address = Address(backplane.call("pair.open").result())
    calls = [backplane.call(address.to("ask")) for _ in range(2)]
    backplane.run_until_idle()
    for asked in backplane.outside_calls():
        asked.reply("yes")
    assert [call.result() for call in calls] == ["yes", "yes"]


def test_others_spawn_what_is_offered(backplane: VirtualBackplane, bank: Bank) -> None:
    """By the route COMPONENT.spawn, as any call: from another backplane, a client, or the command line."""
    address = Address(backplane.call("bank.spawn", kind="Account", settings={"owner": "ada"}, key="@virtual").result())
    assert backplane.call(address.to("deposit"), cents=2).result() == 2
    assert bank.spawned_count == 1
    with pytest.raises(NotFound, match="lets others spawn no 'Gate': one of Account"):
        backplane.call("bank.spawn", kind="Gate").result()
    with pytest.raises(NotFound, match=r"bank\.spawn: there is no backplane 'elsewhere' with bank"):
        backplane.call("bank.spawn", kind="Account", key="@elsewhere").result()
    with pytest.raises(InvalidArgument, match="settings of Account: unknown argument 'name'"):
        backplane.call("bank.spawn", kind="Account", settings={"name": "ada"}).result()
    for arguments in ({"kind": 3}, {"kind": "Account", "settings": 3}, {"kind": "Account", "more": 3}, {}):
        with pytest.raises(InvalidArgument, match=r"bank\.spawn: expected \(kind: str"):
            backplane.call("bank.spawn", arguments=arguments).result()


def test_what_is_offered_to_others_is_declared() -> None:
    """Told when the component is set up."""

    class Wrong(Component):
        spawnable = (Account,)

    with pytest.raises(DeclarationError, match="spawnable: expected classes that are in `declares`, too"):
        _ = VirtualBackplane(Wrong()).backplane
    for limit in (0, 1.5, True):

        class Limitless(Component):
            max_spawned = limit  # type: ignore[assignment]

        with pytest.raises(DeclarationError, match="max_spawned: expected a whole number, 1 or more"):
            _ = VirtualBackplane(Limitless()).backplane


def test_an_address_of_another_process_or_component_finds_nobody(backplane: VirtualBackplane) -> None:
    """It carries the incarnation: a later process gives the same numbers again."""
    ada = opened(backplane)
    home, rest = ada.split("/", 1)
    incarnation = ada.incarnation
    for text, because in (
        (f"{home}/{rest.replace(incarnation, '00000000')}", "the process of backplane virtual that had it was another"),
        (f"{home}/{rest.replace('virtual:', 'elsewhere:')}", "its address is one of backplane elsewhere"),
        (ada.replace("bank:1", "bank:9"), "bank:9 never existed in this process"),
    ):
        with pytest.raises(NotFound, match=because):
            backplane.call(Address(text).to("deposit"), cents=1).result()


def test_a_spawned_object_is_found_by_its_name_by_those_who_ask_why_it_waits(backplane: VirtualBackplane) -> None:
    """`appbackplane why virtual/bank.#1`."""
    ada = opened(backplane)
    waiting = backplane.call(ada.to("wait"), seconds=2.0)
    backplane.run_until_idle()
    (step, *_) = backplane.backplane.why("virtual/bank.#1")["steps"]
    assert step["object"] == "virtual/bank.#1"
    backplane.advance(2.0)
    assert waiting.result() == "waited"
