"""A component's lock: it has a name, its times are measured, and a long hold is reported with the action that held it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from appbackplane.runtime import AppObject, Component, ComponentLock, DeadlineExceeded, operation
from appbackplane.runtime.testing import VirtualBackplane


class Clerk(AppObject):
    """Has the lock for as long as it is told."""

    def __init__(self, office: Office) -> None:
        self.office = office

    @operation()
    def write(self, ms: float = 0.0) -> str:
        with self.office.lock:
            self.office.backplane.clock.work(ms / 1000)
        return "written"

    @operation()
    def write_twice(self) -> None:
        with self.office.lock, self.office.lock:
            pass

    @operation()
    def fail(self) -> None:
        with self.office.lock:
            raise ValueError("no ink")

    @operation()
    def give(self) -> None:
        with self.office.lock:
            self.call_blocking("archive.keep")


class Office(Component):
    """Two clerks, and one book."""

    backplane: VirtualBackplane

    def __init__(self) -> None:
        self.lock = ComponentLock(self, "book", limit=0.005)

    def setup(self) -> None:
        for key in ("ada", "bob"):
            self.add(Clerk(self), key=key)

    @operation(priority=6)
    def look(self) -> list[str]:
        """Why the second clerk waits; then the first one's call is answered."""
        steps = self.backplane.backplane.why("virtual/office.bob")["steps"]
        self.backplane.outside_calls()[0].reply(None)
        return [reason["text"] for step in steps for reason in step["reasons"]]


@pytest.fixture
def office() -> Office:
    office = Office()
    office.backplane = VirtualBackplane(office, outside=("archive.keep",))
    return office


def figures(office: Office, name: str = "book") -> dict[str, Any]:
    found: dict[str, Any] = office.backplane.backplane.statistics()["components"]["office"]["locks"][name]
    return found


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("lock held for long: ")]


def test_each_hold_is_measured(office: Office) -> None:
    """The statistics of the component have them, by the name of the lock."""
    for ms in (0.0, 3.0):
        assert office.backplane.call("office.write", ms=ms).result() == "written"
    found = figures(office)
    assert (found["held"]["count"], found["held"]["max_us"]) == (2, 3000.0)
    assert (found["waited"]["count"], found["waited"]["max_us"]) == (2, 0.0)
    assert (found["limit_ms"], found["over_limit"]) == (5.0, 0)


def test_a_hold_beyond_the_limit_is_reported_with_its_holder(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits for a lock is slow because of somebody else."""
    for ms in (5.0, 6.0):
        office.backplane.call("office.write", key="bob", ms=ms).result()
    assert figures(office)["over_limit"] == 1, "exactly the limit is allowed"
    assert reports(caplog) == [
        "lock held for long: 'book' of virtual/office by office.write on virtual/office.bob for 6.0 ms, "
        "longer than its limit (5 ms)"
    ]


def test_one_report_a_second_tells_how_many_were_left_out(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """All are counted."""
    for _ in range(12):
        office.backplane.call("office.write", ms=100.0).result()
    assert figures(office)["over_limit"] == 12
    assert [line.rpartition(" (")[2] for line in reports(caplog)] == ["5 ms)", "9 more since the last report)"]


def test_without_a_limit_nothing_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The times are measured all the same."""

    class Patient(Office):
        component_name = "office"

        def __init__(self) -> None:
            self.lock = ComponentLock(self, "book")

    office = Patient()
    office.backplane = VirtualBackplane(office)
    office.backplane.call("office.write", ms=10_000.0, timeout=60.0).result()
    assert (figures(office)["limit_ms"], figures(office)["over_limit"]) == (None, 0)
    assert figures(office)["held"]["max_us"] == 10_000_000.0
    assert reports(caplog) == []


def test_who_fails_gives_it_back(office: Office) -> None:
    """Or nobody would ever get it again."""
    assert "no ink" in str(office.backplane.call("office.fail").error())
    assert office.backplane.call("office.write").result() == "written"
    assert figures(office)["held"]["count"] == 2


def test_an_action_that_holds_it_is_not_made_to_wait_for_itself(office: Office) -> None:
    """It would wait for ever. The lock is free afterwards."""
    error = office.backplane.call("office.write_twice").error()
    assert "office.write_twice holds the lock 'book' already" in str(error)
    assert office.backplane.call("office.write").result() == "written"


def test_a_wait_names_the_holder_and_ends_with_the_deadline(office: Office) -> None:
    """The first holds the lock while it awaits a reply: the mistake that `why` must show."""
    backplane = office.backplane
    give = backplane.call("office.give", key="ada")
    write = backplane.call("office.write", key="bob", timeout=1.0)
    look = backplane.call("office.look")
    backplane.run_until_idle()
    holder = "the lock 'book', held by office.give on virtual/office.ada"
    assert any(f"waits there for {holder}" in text for text in look.result())
    assert isinstance(write.error(), DeadlineExceeded)
    assert give.result() is None
    assert figures(office)["held"]["count"] == 1


def test_a_thread_of_its_own_may_take_it(office: Office) -> None:
    """A device's thread runs no action. It waits for as long as the lock is held."""
    done: list[str] = []

    def device() -> None:
        with office.lock:
            done.append("device")

    office.backplane.run_until_idle()
    with office.lock:
        thread = threading.Thread(target=device)
        thread.start()
        done.append("office")
    thread.join()
    assert done == ["office", "device"]


@pytest.mark.parametrize(
    ("name", "limit", "error", "problem"),
    [
        ("", None, TypeError, "name='': expected text"),
        (7, None, TypeError, "name=7: expected text"),
        ("ink", "5ms", TypeError, "'ink': limit='5ms': expected a number of seconds"),
        ("ink", 0, ValueError, "'ink': limit=0: expected a number of seconds above 0"),
        ("book", None, ValueError, "office has a lock 'book' already"),
    ],
)
def test_bad_arguments_are_refused_where_they_are_given(
    name: Any, limit: Any, error: type[Exception], problem: str
) -> None:
    """In the constructor of the component: `check` finds them."""
    with pytest.raises(error, match=problem):
        ComponentLock(Office(), name, limit=limit)


def test_a_lock_belongs_to_a_component() -> None:
    """An object of it has no statistics of its own."""
    with pytest.raises(TypeError, match="is no component: make the lock in its __init__, with self"):
        ComponentLock(Clerk(Office()), "book")  # type: ignore[arg-type]
