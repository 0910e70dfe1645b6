"""Rules under permissions: a rule hears and does what its principal may, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.runtime import Component
from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import LOCAL_USER, Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, prop
from appbackplane.runtime.things.mashups import Rules


class Dial(Thing):
    """A number that can be set."""

    types = ("saref:Actuator",)

    def __init__(self) -> None:
        self.number = 0

    @prop(observable=True)
    def level(self) -> int:
        return self.number

    @level.write
    def set_level(self, value: int) -> None:
        self.number = value


class House(Component):
    """Two dials, of which the second is to follow the first."""

    def setup(self) -> None:
        self.add(Dial(), key="first")
        self.add(Dial(), key="second")


RULE = {
    "when": {"thing": "house/first", "property": "level"},
    "do": {"thing": "house/second", "write": "level", "value": "$data"},
    "run_as": "rule:follow",
}
FIRST, SECOND = "urn:appbackplane:house:first", "urn:appbackplane:house:second"
EAR = Permission(id="1", who="rule:follow", access=("read:level", "observe:level"), things=(FIRST,))
HAND = Permission(id="2", who="rule:follow", access=("write:level",), things=(SECOND,))
#: As EAR, by the type of the things.
EARS = Permission(id="3", who="rule:follow", access=("read", "observe"), types=("saref:Actuator",))


def house_with(path: Path, *permissions: Permission) -> VirtualBackplane:
    """A house with the rule, in which these hold."""
    change(path, lambda _: (Permissions(permissions=permissions), None))
    policy = PermissionPolicy(file=str(path), audit=f"{path}.audit", operators=(LOCAL_USER,))
    house = VirtualBackplane(House(), Rules({"follow": RULE}), permissions=policy)
    house.advance(1.0)
    return house


def followed(house: VirtualBackplane, level: int) -> bool:
    """Whether the second dial follows the first."""
    house.call("house.set_level", key="first", value=level).result()
    house.run_until_idle()
    return bool(house.call("house.level", key="second").result() == level)


def outcomes(house: VirtualBackplane) -> list[tuple[str, str]]:
    """Of the runs."""
    return [(line["outcome"], line["error"]) for line in house.call("rules.runs").result()]


@pytest.mark.parametrize("ear", [EAR, EARS])
def test_a_rule_with_its_permissions_runs(tmp_path: Path, ear: Permission) -> None:
    """By the id of what it hears, or by its type."""
    house = house_with(tmp_path / "p.json", ear, HAND)
    assert followed(house, 5) and outcomes(house) == [("completed", "")]


def test_a_rule_that_may_do_nothing_is_refused_as_if_there_were_no_such_thing(tmp_path: Path) -> None:
    """And does not run."""
    house = house_with(tmp_path / "p.json", EAR)
    assert not followed(house, 5)
    ((outcome, error),) = outcomes(house)
    assert outcome == "refused" and error.startswith("there is no thing house/second: rule:follow may not")


def test_a_rule_does_not_hear_what_was_taken_from_it(tmp_path: Path) -> None:
    """Within a tenth of a second, and without a restart."""
    house = house_with(tmp_path / "p.json", EAR, HAND)
    assert followed(house, 5)
    change(tmp_path / "p.json", lambda _: (Permissions(permissions=(HAND,)), None))
    house.advance(1.0)
    assert not followed(house, 6) and len(outcomes(house)) == 1
