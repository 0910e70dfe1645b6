"""Admission: whose place a request gets where a component, or one of its callers, has all that it may have."""

from __future__ import annotations

import enum
from typing import Any

import msgspec
import pytest

from appbackplane.runtime import AppObject, Busy, Component, Outcome, StateMachine, operation
from appbackplane.runtime.objects.action import ParkableAction
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall
from appbackplane.transport.directory import Place
from appbackplane.transport.envelope import BOOST, CALL, CAST, Envelope

OTHER = b"other"


class Shelf(AppObject):
    """Urgent work, and work that may wait."""

    @operation(priority=2)
    def find(self, title: str) -> str:
        return title

    @operation(priority=6)
    def sort(self) -> str:
        return "sorted"


class Library(Component):
    """One shelf."""

    max_requests = 4

    def setup(self) -> None:
        self.add(Shelf())


class Archive(Component):
    """Ten shelves, each of which waits for somebody outside."""

    max_requests = 10

    def __init__(self) -> None:
        self.done: list[str] = []

    @operation(priority=6)
    def note(self, name: str) -> None:
        self.done.append(name)

    def setup(self) -> None:
        for number in range(10):
            self.add(Slow(), key=str(number))


class Slow(AppObject):
    @operation(priority=6)
    async def fetch(self) -> Any:
        return await self.call("depot.fetch")


@pytest.fixture
def library() -> VirtualBackplane:
    return VirtualBackplane(Library())


def is_busy(call: Any) -> bool:
    try:
        call.result()
    except Busy:
        return True
    return False


def is_refused(backplane: VirtualBackplane, call: Any) -> bool:
    """Taken in and refused, without anything having run."""
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    return bool(call.done()) and isinstance(call.error(), Busy)


def test_urgent_work_gets_the_place_of_the_newest_of_the_least_urgent(library: VirtualBackplane) -> None:
    """Law 9. Nothing needs to be written for it: else bulk work shuts out what is urgent."""
    bulk = [library.call("library.sort") for _ in range(4)]
    urgent = library.call("library.find", title="t")
    assert urgent.result() == "t"
    assert [is_busy(call) for call in bulk] == [False, False, False, True]


def test_a_search_for_room_that_found_none_is_not_repeated_until_there_may_be_some(library: VirtualBackplane) -> None:
    """At the limit each refusal would look through all that is queued; and what comes later must be found all the same."""
    found = [library.call("library.find", title="t") for _ in range(4)]
    assert is_refused(library, library.call("library.find", title="t"))
    throttle = library.backplane.engine.limits.requests["library"]
    assert throttle.barren_below == 2
    found[0].cancel()
    bulk = library.call("library.sort")
    urgent = library.call("library.find", title="u")
    assert is_refused(library, bulk), "it had to make room"
    assert urgent.result() == "u"


def test_what_has_become_less_urgent_makes_room(library: VirtualBackplane) -> None:
    """Its caller had it hurried, and a search passed it by."""
    calls = [library.call("library.sort", priority=2) for _ in range(4)]
    assert is_refused(library, library.call("library.find", title="t"))
    library.hear(Envelope(BOOST, calls[0]._id, 6))
    urgent = library.call("library.find", title="u")
    assert is_refused(library, calls[0])
    assert urgent.result() == "u"


def test_what_falls_back_to_the_priority_of_a_vain_search_does_not_have_it_repeated(library: VirtualBackplane) -> None:
    """It is no less urgent than what found nothing; each search looks through all that is queued."""
    call = library.call("library.find", title="t")
    for _ in range(3):
        library.call("library.find", title="t")
    throttle = library.backplane.engine.limits.requests["library"]
    assert is_refused(library, library.call("library.find", title="t"))
    for priority in (0, 2):
        library.hear(Envelope(BOOST, call._id, priority))
    library.backplane.engine.drain(library.clock.now_ns())
    assert throttle.barren_below == 2


# -- what is not in the queue of an object --------------------------------------------------------------------------------


class Vault(StateMachine):
    """Shut at first."""

    class Is(enum.Enum):
        SHUT = "shut"
        OPEN = "open"

    initial = Is.SHUT

    @operation(priority=6, accepted_in=(Is.OPEN,), otherwise="defer")
    def fetch(self) -> None: ...

    @operation(priority=0)
    def look(self) -> None: ...


class Bank(Component):
    """Its vault is found by a digester, or by its key."""

    max_requests = 3

    def setup(self) -> None:
        self.add(Vault(), key="vault")
        self.add(Teller(), key="teller")

    def teller_for(self, name: str) -> str:
        return "teller"


class Teller(AppObject):
    @operation(priority=6, digest="teller_for")
    def pay(self, name: str) -> str:
        return name


def test_what_a_state_machine_keeps_beside_its_queue_makes_room() -> None:
    """It has not begun, and nobody knows when it will."""
    backplane = VirtualBackplane(Bank())
    fetching = [backplane.call("bank.fetch") for _ in range(3)]
    backplane.run_until_idle()
    looks = [backplane.call("bank.look") for _ in range(2)]
    backplane.run_until_idle()
    assert [call.done() for call in fetching] == [False, True, True]
    assert all(isinstance(call.error(), Busy) for call in fetching[1:])
    assert not any(is_busy(call) for call in looks)


MEMOS = pytest.mark.parametrize(("found_none_below", "is_known"), [(6, True), (5, False)])


@MEMOS
def test_what_is_put_aside_has_a_vain_search_repeated_only_if_it_is_less_urgent(
    found_none_below: int, is_known: bool
) -> None:
    """At the limit each request that is put aside would have the next refusal look through all the others."""
    backplane = VirtualBackplane(Bank())
    backplane.call("bank.fetch")
    throttle = backplane.backplane.engine.limits.requests["bank"]
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    throttle.barren_below = found_none_below  # it was running then, so that the search did not see it
    backplane.run_until_idle()
    assert (throttle.outstanding, throttle.barren_below) == (1, found_none_below if is_known else None)


class Parked(ParkableAction):
    """Waits, and has done nothing yet."""

    def run(self) -> Outcome:
        return Outcome.WAITING


@MEMOS
def test_what_parks_has_a_vain_search_repeated_only_if_it_is_less_urgent(found_none_below: int, is_known: bool) -> None:
    """A refusal took 587 µs instead of 6 with 10,000 requests, after each message that waited for a lock."""
    bank = Bank()
    backplane = VirtualBackplane(bank)
    engine = backplane.backplane.engine
    throttle = engine.limits.requests["bank"]
    action = Parked(bank._objects[0], "bank.message", 6)
    engine.admission.count_in(action, bank, OTHER)
    engine.post(action, 0)
    throttle.barren_below = found_none_below  # as above
    backplane.run_until_idle()
    assert (throttle.outstanding, throttle.barren_below) == (1, found_none_below if is_known else None)


def test_what_a_digester_has_not_begun_makes_room() -> None:
    """Its object is not known yet, and the caller is told `Busy` like any other."""
    backplane = VirtualBackplane(Bank())
    paying = [backplane.call("bank.pay", name=str(number)) for number in range(3)]
    look = backplane.call("bank.look")
    assert look.result() is None
    assert [is_busy(call) for call in paying] == [False, False, True]
    assert backplane.backplane.engine.limits.requests["bank"].outstanding == 0


# -- the bound of each caller ---------------------------------------------------------------------------------------------


@pytest.fixture
def archive() -> Archive:
    return Archive()


@pytest.fixture
def full(archive: Archive) -> VirtualBackplane:
    """One caller has nine of ten places, by work that has begun: it waits for a depot that does not answer."""
    backplane = VirtualBackplane(archive, outside=("depot.fetch",))
    fill(backplane)
    return backplane


def fill(backplane: VirtualBackplane) -> list[VirtualCall]:
    """Nine calls begin to wait for the depot."""
    fetching = [backplane.call("archive.fetch", key=str(number)) for number in range(9)]
    backplane.run_until_idle()
    return fetching


def cast_of_other(backplane: VirtualBackplane, name: str) -> None:
    """Another caller is there."""
    backplane.hear(Envelope(CAST, 0, None, "archive.note", None, None, None, {"name": name}), OTHER)
    backplane.run_until_idle()


def test_one_caller_does_not_get_the_last_places(full: VirtualBackplane, archive: Archive) -> None:
    """What has begun cannot make room: others would be shut out for as long as it takes, however urgent they are."""
    error = full.call("archive.note", name="own", priority=0).error()
    assert isinstance(error, Busy) and error.retry_after is not None
    assert "the caller has 9 requests outstanding at virtual/archive, of 10 for all callers (max_requests)" in str(
        error
    )
    cast_of_other(full, "other")
    assert archive.done == ["other"]


def test_each_key_of_other_hosts_is_a_caller_of_its_own(archive: Archive) -> None:
    """Their calls come over one link, the node's: bulk of one key shut out all other hosts."""
    backplane, node = VirtualBackplane(archive, outside=("depot.fetch",)), b"node-1"
    engine = backplane.backplane.engine
    backplane.link.processes[node] = 4711
    known = engine.routing.directory
    places = {**known.backplanes, "node": Place(1, "/nowhere/node-1.sock", pid=4711)}
    engine.update(
        msgspec.structs.replace(known, version=known.version + 1, backplanes=places), backplane.clock.now_ns()
    )
    for number in range(9):
        source = "node:bulky/1f2e"
        backplane.hear(Envelope(CALL, 100 + number, None, "archive.fetch", str(number), body={}, source=source), node)
    backplane.run_until_idle()
    for source in ("node:bulky/1f2e", "node:other/77ab"):
        backplane.hear(Envelope(CAST, 0, 0, "archive.note", body={"name": source}, source=source), node)
    backplane.run_until_idle()
    assert archive.done == ["node:other/77ab"]


def test_a_caller_at_its_bound_makes_room_for_its_own_urgent_work(archive: Archive) -> None:
    """At the cost of what is less urgent of its own, and not of others."""
    backplane = VirtualBackplane(archive, outside=("depot.fetch",))
    backplane.hear(Envelope(CAST, 0, 7, "archive.note", None, None, None, {"name": "other"}), OTHER)
    bulk = [backplane.call("archive.note", name=str(number)) for number in range(9)]
    urgent = backplane.call("archive.note", name="urgent", priority=0)
    backplane.run_until_idle()
    assert [is_busy(call) for call in bulk] == [False] * 8 + [True]
    assert urgent.result() is None
    assert "other" in archive.done


def test_the_places_of_a_caller_come_back_however_its_requests_end(archive: Archive) -> None:
    """Answered, or taken back."""
    full = VirtualBackplane(archive, outside=("depot.fetch",))
    fetching = fill(full)
    throttle = full.backplane.engine.limits.requests["archive"]
    assert [(share.caller, share.outstanding) for share in throttle.shares.values()] == [(b"test", 9)]
    calls = full.outside_calls()
    for call in calls[:5]:
        call.reply()
    full.run_until_idle()
    for call in fetching[5:]:
        call.cancel()
    full.run_until_idle()
    assert (throttle.shares, throttle.outstanding) == ({}, 0)
    assert full.call("archive.note", name="again").result() is None
