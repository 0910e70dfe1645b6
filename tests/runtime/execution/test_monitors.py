"""Monitors: told once, with the reason, by an action of the object that asked; of objects here, and of what is elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import (
    Address,
    AppObject,
    Busy,
    Cancelled,
    Component,
    DeadlineExceeded,
    EndNotice,
    InvalidArgument,
    Monitor,
    PeerDown,
    Unavailable,
    operation,
    pause,
)
from appbackplane.runtime.execution.services import monitors, watching
from appbackplane.runtime.testing import VirtualBackplane

#: What other backplanes are asked by.
ASKED = "backplane.outside.watch"
ELSEWHERE = "test/outside:3f9a2c1d/accounts:17"


class Account(AppObject):
    """A light object, which may be watched, and watch others."""

    def __init__(self) -> None:
        self.told: list[EndNotice] = []

    @operation()
    def close(self, reason: str = "") -> None:
        self.end_self(reason)

    @operation()
    async def wait_and_close(self, seconds: float) -> None:
        self.end_self("after a while")
        await pause(seconds)

    @operation(priority=2)
    def look_at(self, target: str, rank: int | None = None) -> None:
        self.monitor(target, self.on_end, priority=rank)

    def on_end(self, notice: EndNotice) -> None:
        self.told.append(notice)


class Bank(Component):
    """Has accounts, and watches."""

    declares = (Account,)

    def __init__(self) -> None:
        self.told: list[EndNotice] = []
        self.monitors: list[Monitor] = []
        self.accounts: list[Account] = []

    @operation()
    def open(self) -> Address:
        self.accounts.append(Account())
        return self.spawn(self.accounts[-1])

    @operation()
    def watch(self, target: Any, rank: Any = None) -> None:
        self.monitors.append(self.monitor(target, self.on_end, priority=rank))

    @operation()
    def watch_badly(self, target: str) -> str:
        with pytest.raises(TypeError) as raised:
            self.monitor(target, Account().on_end)
        return str(raised.value)

    @operation()
    def watch_briefly(self, target: str) -> bool:
        return self.monitor(target, self.on_end).cancel()

    @operation()
    def cancel(self) -> list[bool]:
        return [each.cancel() for each in self.monitors]

    @operation(priority=4)
    def idle(self) -> None: ...

    async def on_end(self, notice: EndNotice) -> None:
        self.told.append(notice)


@pytest.fixture
def bank() -> Bank:
    """The component."""
    return Bank()


@pytest.fixture
def backplane(bank: Bank) -> VirtualBackplane:
    """Its backplane, beside another."""
    return VirtualBackplane(bank, outside=("accounts.deposit", "b/node.watch"))


def opened(backplane: VirtualBackplane) -> Address:
    """A new account."""
    return Address(backplane.call("bank.open").result())


def reasons(bank: Bank) -> list[str]:
    """What was told."""
    return [notice.reason for notice in bank.told]


def figures(backplane: VirtualBackplane) -> dict[str, int]:
    """Of the statistics."""
    found: dict[str, int] = backplane.backplane.statistics()["addresses"]
    return found


def posted(backplane: VirtualBackplane) -> int:
    """Places of the component's own work that are taken."""
    return int(backplane.backplane.statistics()["components"]["bank"]["posted"])


# Of objects here


def test_the_end_of_an_object_is_told_once_with_its_reason(backplane: VirtualBackplane, bank: Bank) -> None:
    """To all who watch it, after its last operation."""
    ada, bob = opened(backplane), opened(backplane)
    backplane.call("bank.watch", target=ada).result()
    backplane.call(bob.to("look_at"), target=ada).result()
    assert figures(backplane) == {"spawned": 2, "ended": 0, "monitors": 2, "told": 0, "watchers": 0}
    assert posted(backplane) == 2
    closing = backplane.call(ada.to("wait_and_close"), seconds=1.0)
    backplane.run_until_idle()
    assert not bank.told
    backplane.advance(1.0)
    assert closing.result() is None
    assert bank.told == [EndNotice(of=ada, reason="ended", because="after a while")] == bank.accounts[1].told
    assert figures(backplane) == {"spawned": 1, "ended": 1, "monitors": 0, "told": 2, "watchers": 0}
    assert posted(backplane) == 0


@pytest.mark.parametrize(("rank", "is_first"), [(1, True), (6, False), (None, True)])
def test_it_is_told_at_the_priority_of_who_asked(backplane: VirtualBackplane, rank: int | None, is_first: bool) -> None:
    """An urgent object does not wait behind others to be told. By default it is that of the operation that asked: 2."""
    ada, bob = opened(backplane), opened(backplane)
    backplane.call(bob.to("look_at"), target=ada, rank=rank).result()
    backplane.call(ada.to("close"), priority=0)
    backplane.call("bank.idle")
    assert backplane.run_until_idle() == ["close", *(["on_end", "idle"] if is_first else ["idle", "on_end"])]


def test_a_cancelled_monitor_tells_nothing_and_frees_its_place(backplane: VirtualBackplane, bank: Bank) -> None:
    """Once."""
    ada = opened(backplane)
    backplane.call("bank.watch", target=ada).result()
    assert bank.monitors[0].of == ada
    assert backplane.call("bank.cancel").result() == [True]
    assert backplane.call("bank.cancel").result() == [False]
    backplane.call(ada.to("close")).result()
    backplane.run_until_idle()
    assert (bank.told, posted(backplane), figures(backplane)["monitors"]) == ([], 0, 0)


def test_a_monitor_goes_with_its_object(backplane: VirtualBackplane, bank: Bank) -> None:
    """Nobody is left who could be told."""
    ada, bob = opened(backplane), opened(backplane)
    backplane.call(ada.to("look_at"), target=bob).result()
    backplane.call(ada.to("close")).result()
    assert (posted(backplane), figures(backplane)["monitors"]) == (0, 0)
    backplane.call(bob.to("close")).result()
    backplane.run_until_idle()
    assert bank.accounts[0].told == []


def test_the_bound_is_that_of_a_components_own_work(backplane: VirtualBackplane, bank: Bank) -> None:
    """A loop that monitors must not take all memory."""
    backplane.call("backplane.virtual.limits", component="bank", max_posted=1).result()
    ada = opened(backplane)
    backplane.call("bank.watch", target=ada).result()
    with pytest.raises(Busy, match=r"bank\.on_end: virtual/bank has 1 actions and timers of its own outstanding"):
        backplane.call("bank.watch", target=ada).result()
    assert figures(backplane)["monitors"] == 1
    del bank


@pytest.mark.parametrize(
    ("change", "reason", "because"),
    [
        (("bank:1", "bank:9"), "never existed", "has not given this address to any object"),
        (("bank:1", "cash:1"), "never existed", "has not given this address to any object"),
        (("/virtual:", "/vault:"), "never existed", "backplane vault is unknown"),
        (("", ""), "ended", "it ended before"),
        (("INCARNATION", "00000000"), "ended", "its process of backplane virtual ended before"),
    ],
)
def test_what_is_no_more_is_told_at_once(
    backplane: VirtualBackplane, bank: Bank, change: tuple[str, str], reason: str, because: str
) -> None:
    """And what never was."""
    ada = opened(backplane)
    backplane.call(ada.to("close")).result()
    old, new = change
    target = ada.replace(ada.incarnation if old == "INCARNATION" else old, new) if old else ada
    backplane.call("bank.watch", target=target).result()
    backplane.run_until_idle()
    (notice,) = bank.told
    assert (notice.of, notice.reason) == (target, reason)
    assert because in notice.because
    assert posted(backplane) == 0


@pytest.mark.parametrize(
    ("target", "because"),
    [
        (3, "a monitor watches an address, or a backplane by its name, got 3"),
        ("", "a monitor watches an address, or a backplane by its name, got ''"),
        ("a:b", "'a:b' is no address"),
        ("virtual", "'virtual' is where this object is"),
        ("test/", "'test/' is where this object is"),
    ],
)
def test_what_is_no_target_is_refused(backplane: VirtualBackplane, target: Any, because: str) -> None:
    """Its author is there to hear it."""
    with pytest.raises(InvalidArgument, match=because):
        backplane.call("bank.watch", target=target).result()
    assert (posted(backplane), figures(backplane)["monitors"]) == (0, 0)


def test_bad_priorities_and_the_methods_of_others_are_refused(backplane: VirtualBackplane) -> None:
    """As `after` does."""
    ada = opened(backplane)
    with pytest.raises(InvalidArgument, match=r"monitor\(\): priority 8, expected 0\.\.7"):
        backplane.call("bank.watch", arguments={"target": ada, "rank": 8}).result()
    assert backplane.call("bank.watch_badly", target=ada).result().startswith("monitor() runs methods of virtual/bank")


# Of backplanes


def test_the_death_of_a_backplane_is_read_in_the_routing_table(backplane: VirtualBackplane, bank: Bank) -> None:
    """Nothing has to come from the dead."""
    backplane.call("bank.watch", target="outside").result()
    backplane.run_until_idle()
    assert not backplane.outside_calls()
    backplane.kill_outside()
    backplane.run_until_idle()
    assert bank.told == [EndNotice(of="outside", reason="killed", because="the process of backplane outside died")]
    backplane.call("bank.watch", target="outside").result()
    backplane.call("bank.watch", target="vault").result()
    backplane.run_until_idle()
    assert reasons(bank) == ["killed", "killed", "never existed"]


# Of objects elsewhere


def asked(backplane: VirtualBackplane, route: str = ASKED) -> Any:
    """The last call by which another process was asked."""
    return backplane.outside_calls(route)[-1]


@pytest.mark.parametrize("target", [ELSEWHERE, "b/front", "b/"])
def test_another_process_is_asked_and_its_answer_is_told(backplane: VirtualBackplane, bank: Bank, target: str) -> None:
    """The process that has the object; or the node, which looks at its own system."""
    backplane.call("bank.watch", target=target).result()
    call = asked(backplane, ASKED if target == ELSEWHERE else "b/node.watch")
    assert call.arguments == {"target": target}
    call.reply(["ended", "moved away"])
    backplane.run_until_idle()
    assert bank.told == [EndNotice(of=target, reason="ended", because="moved away")]
    assert posted(backplane) == 0


@pytest.mark.parametrize(("target", "reason"), [(ELSEWHERE, "killed"), ("b/front", "unreachable")])
def test_the_death_of_that_process_is_an_end(backplane: VirtualBackplane, bank: Bank, target: str, reason: str) -> None:
    """Of another node only the connection is seen."""
    backplane.call("bank.watch", target=target).result()
    backplane.kill_outside()
    backplane.run_until_idle()
    assert reasons(bank) == [reason]


def test_a_process_that_is_down_is_asked_again_for_a_while(backplane: VirtualBackplane, bank: Bank) -> None:
    """An address may come before the routing table in which its process is up."""
    backplane.kill_outside()
    backplane.call("bank.watch", target=ELSEWHERE).result()
    backplane.run_until_idle()
    backplane.advance(monitors.TABLE_LATE_S - monitors.ASK_AGAIN_S)
    assert reasons(bank) == []
    backplane.advance(2 * monitors.ASK_AGAIN_S)
    assert reasons(bank) == ["killed"]


def test_it_is_asked_again_after_a_deadline_and_while_it_is_busy(backplane: VirtualBackplane, bank: Bank) -> None:
    """A week is not the end of an object."""
    backplane.call("bank.watch", target=ELSEWHERE).result()
    for count, error in enumerate((DeadlineExceeded("late"), Busy("full", retry_after=0.5)), 2):
        asked(backplane).fail(error)
        backplane.advance(1.0)
        assert len(backplane.outside_calls(ASKED)) == count
    assert reasons(bank) == []
    asked(backplane).fail(PeerDown("gone"))
    backplane.run_until_idle()
    assert reasons(bank) == ["killed"]


@pytest.mark.parametrize("answer", [None, [], ["ended"], ["gone", "so it says"], ["ended", 3], "ended"])
def test_an_answer_that_makes_no_sense_is_none(backplane: VirtualBackplane, bank: Bank, answer: object) -> None:
    """Another node may run anything."""
    backplane.call("bank.watch", target="b/").result()
    asked(backplane, "b/node.watch").reply(answer)
    backplane.run_until_idle()
    assert reasons(bank) == ["unreachable"]
    assert bank.told[0].because.startswith("b/node.watch answered ")


def test_one_that_is_cancelled_while_it_pauses_asks_no_more(backplane: VirtualBackplane, bank: Bank) -> None:
    """And leaves no error behind."""
    backplane.call("bank.watch", target=ELSEWHERE).result()
    asked(backplane).fail(Busy("full", retry_after=0.5))
    backplane.run_until_idle()
    assert backplane.call("bank.cancel").result() == [True]
    backplane.advance(1.0)
    assert (len(backplane.outside_calls(ASKED)), bank.told, posted(backplane)) == (1, [], 0)
    assert backplane.backplane.statistics()["operations"]["backplane.virtual.monitor"]["errors"] == 0


def test_a_call_that_the_other_side_cancels_is_an_end_of_what_is_known(backplane: VirtualBackplane, bank: Bank) -> None:
    """It must not be lost without a word."""
    backplane.call("bank.watch", target=ELSEWHERE).result()
    asked(backplane).fail(Cancelled("by an operator"))
    backplane.run_until_idle()
    assert reasons(bank) == ["unreachable"]


def test_a_node_that_refuses_is_unreachable(backplane: VirtualBackplane, bank: Bank) -> None:
    """It is not asked again: its key may not."""
    backplane.call("bank.watch", target="b/").result()
    asked(backplane, "b/node.watch").fail(Unavailable("has left"))
    backplane.run_until_idle()
    assert bank.told == [EndNotice(of="b/", reason="unreachable", because="has left")]


def test_a_cancelled_monitor_cancels_the_call(backplane: VirtualBackplane, bank: Bank) -> None:
    """Or it would wait there for as long as the object lives."""
    backplane.call("bank.watch", target=ELSEWHERE).result()
    call = asked(backplane)
    assert backplane.call("bank.cancel").result() == [True]
    backplane.run_until_idle()
    backplane.collect()
    assert call.is_cancelled
    assert (bank.told, posted(backplane), len(backplane.backplane.engine.calls)) == ([], 0, 0)


def test_one_that_is_cancelled_before_it_has_asked_asks_nobody(backplane: VirtualBackplane, bank: Bank) -> None:
    """It is taken out of its queue."""
    assert backplane.call("bank.watch_briefly", target=ELSEWHERE).result() is True
    backplane.run_until_idle()
    assert (backplane.outside_calls(ASKED), bank.told, posted(backplane)) == ([], [], 0)


def test_an_answer_that_crosses_the_cancellation_tells_nothing(backplane: VirtualBackplane, bank: Bank) -> None:
    """The one comes over the link, the other from another thread."""
    backplane.call("bank.watch", target=ELSEWHERE).result()
    assert backplane.call("bank.cancel").result() == [True]
    backplane.backplane._monitors.told(bank.monitors[0], "ended", "too late")  # type: ignore[arg-type]
    backplane.run_until_idle()
    assert (bank.told, posted(backplane), figures(backplane)["told"]) == ([], 0, 0)


def test_monitors_of_what_is_elsewhere_have_a_bound(
    backplane: VirtualBackplane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a call that is outstanding."""
    monkeypatch.setattr(monitors, "ELSEWHERE_MAX", 1)
    backplane.call("bank.watch", target=ELSEWHERE).result()
    with pytest.raises(Busy, match="1 monitors of this backplane have their targets elsewhere"):
        backplane.call("bank.watch", target=ELSEWHERE).result()
    asked(backplane).reply(["ended", ""])
    backplane.run_until_idle()
    backplane.call("bank.watch", target=ELSEWHERE).result()
    assert posted(backplane) == 1


# For others

WATCH = "backplane.virtual.watch"


def test_others_wait_for_the_end_of_an_object_here(backplane: VirtualBackplane) -> None:
    """A call like any other, answered at the end."""
    ada = opened(backplane)
    waiting = backplane.call(WATCH, target=ada)
    backplane.run_until_idle()
    assert figures(backplane)["watchers"] == 1
    backplane.call(ada.to("close"), reason="moved away").result()
    assert waiting.result() == ["ended", "moved away"]
    assert backplane.call(WATCH, target=ada).result() == ["ended", "it ended before"]
    assert figures(backplane)["watchers"] == 0


def test_who_waits_no_more_is_forgotten(backplane: VirtualBackplane) -> None:
    """Cancelled, or dead."""
    ada = opened(backplane)
    waiting = backplane.call(WATCH, target=ada)
    backplane.run_until_idle()
    waiting.cancel()
    backplane.run_until_idle()
    assert figures(backplane)["watchers"] == 0
    assert not backplane.backplane.engine.parking.parked
    backplane.call(ada.to("close")).result()


def test_those_who_wait_have_a_bound(backplane: VirtualBackplane, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not counted in `max_requests`."""
    monkeypatch.setattr(watching, "WATCHERS_MAX", 1)
    ada = opened(backplane)
    backplane.call(WATCH, target=ada)
    backplane.run_until_idle()
    with pytest.raises(Busy, match="1 others wait here already"):
        backplane.call(WATCH, target=ada).result()


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        ({}, r"expected \(target: str\)"),
        ({"target": 3}, r"expected \(target: str\)"),
        ({"target": "x", "more": 1}, r"expected \(target: str\)"),
        ({"target": "b/front"}, "is of node 'b', not of 'test': ask that"),
        ({"target": "a:b"}, "is no address"),
    ],
)
def test_what_others_may_not_ask(backplane: VirtualBackplane, arguments: dict[str, Any], because: str) -> None:
    """Nor does one node ask a third for another."""
    with pytest.raises(InvalidArgument, match=because):
        backplane.call(WATCH, arguments=arguments).result()
    assert figures(backplane)["watchers"] == 0


def test_at_the_end_of_the_process_all_who_wait_are_told(backplane: VirtualBackplane) -> None:
    """In order, it is an end, and no death."""
    ada = opened(backplane)
    waiting = backplane.call(WATCH, target=ada)
    backplane.run_until_idle()
    backplane.backplane.engine.stop()
    backplane.collect()
    assert waiting.result() == ["ended", "its backplane has stopped"]
