"""Actions: an argument of a wrong type is refused where it is given, in the same words compiled and interpreted."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import Action, AppObject
from appbackplane.runtime.objects.action import ParkableAction


class Custom(Action):
    """A user's own kind of work."""


class Parked(ParkableAction):
    """The same, of the kind that may wait."""


@pytest.mark.parametrize("kind", [Action, Custom, Parked])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"priority": "high"}, "x: priority 'high', expected an integer"),
        ({"priority": 1.5}, "x: priority 1.5, expected an integer"),
        ({"priority": None}, "x: priority None, expected an integer"),
        ({"name": 5}, "{kind}.name is a int: expected a string"),
        ({"deadline_ns": "soon"}, "x: deadline_ns is 'soon', expected whole nanoseconds"),
        ({"deadline_ns": 1e20}, "x: deadline_ns is 1e+20, expected whole nanoseconds"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused(kind: type[Action], arguments: dict[str, Any], words: str) -> None:
    """The traceback then shows who made the action, and not only who posted it."""
    with pytest.raises(TypeError) as refused:
        kind(AppObject(), **{"name": "x", "priority": 3} | arguments)
    assert str(refused.value) == words.format(kind=kind.__name__)


def test_an_action_takes_a_deadline_or_none() -> None:
    """What is in order is kept as it is."""
    assert Custom(AppObject(), "x", 3).deadline_ns is None
    assert Custom(AppObject(), "x", 3, 10**18).deadline_ns == 10**18
