"""Jumps: a test of what comes after starts where it begins, by the legal way there."""

from __future__ import annotations

import pytest

from appbackplane.runtime import Component, every, operation
from appbackplane.runtime.testing import VirtualBackplane, jump_to_exit, jump_to_primary, jump_to_secondary


class Noted(Component):
    """Notes its hooks, in a list that all share."""

    notes: list[str]

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def note(self, state: str) -> None:
        self.notes.append(f"{self.component_name} {state}")

    def on_initializing(self) -> None:
        self.note("initializing")

    async def on_primary(self) -> None:
        self.note("primary")

    def on_secondary(self) -> None:
        self.note("secondary")

    def on_down(self) -> None:
        self.note("down")

    @operation()
    def ask(self) -> str:
        return self.state.value

    @every(1.0)
    def tick(self) -> None: ...


class Query(Noted):
    depends_on = ("index", "elsewhere")


class Index(Noted):
    pass


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def backplane(notes: list[str]) -> VirtualBackplane:
    """Listed in the wrong order, and at the start."""
    return VirtualBackplane(Query(notes), Index(notes), role=None)


def test_each_way_is_the_legal_one(backplane: VirtualBackplane, notes: list[str]) -> None:
    """Dependencies first on the way up, last on the way down; every step of the table, each hook once."""
    jump_to_primary(backplane)
    assert notes == ["index initializing", "query initializing", "index primary", "query primary"]
    assert backplane.call("query.ask").result() == "primary"
    notes.clear()
    jump_to_secondary(backplane)
    assert notes == ["query secondary", "index secondary"]
    notes.clear()
    jump_to_primary(backplane)
    assert notes == ["index primary", "query primary"]
    notes.clear()
    jump_to_exit(backplane)
    assert notes == ["query down", "index down"]
    assert backplane.advance(5.0) == [], "nothing runs in it any more"
    notes.clear()
    jump_to_secondary(backplane)
    assert notes == ["index initializing", "query initializing", "index secondary", "query secondary"]


def test_one_component_jumps_by_itself(backplane: VirtualBackplane, notes: list[str]) -> None:
    """The test of one does not need the others."""
    jump_to_primary(backplane, "index")
    assert notes == ["index initializing", "index primary"]
    with pytest.raises(LookupError, match="no component 'idnex' here: index, query"):
        jump_to_primary(backplane, "idnex")


def test_who_is_there_is_not_moved_again(backplane: VirtualBackplane, notes: list[str]) -> None:
    """A hook that ran twice would be a different test. From the start there is nothing to let go of."""
    jump_to_exit(backplane)
    assert notes == []
    jump_to_primary(backplane)
    notes.clear()
    jump_to_primary(backplane)
    assert notes == []


def test_a_hook_that_fails_fails_the_jump_and_can_be_tried_again() -> None:
    """With what it raised. A component that could not be initialised is where it was."""

    class Fragile(Component):
        mended = False

        def on_initializing(self) -> None:
            if not self.mended:
                raise RuntimeError("no disk")

    fragile = Fragile()
    backplane = VirtualBackplane(fragile, role=None)
    with pytest.raises(RuntimeError, match="no disk"):
        jump_to_primary(backplane)
    assert fragile.state.value == "start"
    fragile.mended = True
    jump_to_primary(backplane)
    assert fragile.state.value == "primary"


def test_a_hook_that_does_not_end_is_said() -> None:
    """Or the test would go on with a component that is not where it believes."""

    class Patient(Component):
        async def on_primary(self) -> None:
            await self.call("storage.open")

    backplane = VirtualBackplane(Patient(), role=None, outside=("storage.open",))
    with pytest.raises(AssertionError, match=r"patient\.on_primary has not ended"):
        jump_to_primary(backplane)
    backplane.outside_calls()[0].reply()
    backplane.run_until_idle()
    assert jump_to_primary(backplane) == []


def test_a_ring_is_said() -> None:
    """As `check` does; there is no order in which they could move."""

    class Day(Component):
        depends_on = ("night",)

    class Night(Component):
        depends_on = ("day",)

    with pytest.raises(ValueError, match="in a cycle: day, night"):
        jump_to_primary(VirtualBackplane(Day(), Night(), role=None))
