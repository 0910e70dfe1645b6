"""Answer: what a handler returns is what its data were while it held them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from appbackplane.runtime.dispatcher.answer import detached


@dataclasses.dataclass
class Room:
    celsius: float
    history: list[float]


def test_what_is_returned_is_no_part_of_a_datum() -> None:
    """It is packed when the locks have gone back: another handler would change it under the packer's hands."""
    history = [1.0]
    datum = {"hall": Room(20.0, history)}
    answer = detached(datum)
    history.append(2.0)
    datum["attic"] = Room(0.0, [])
    assert answer == {"hall": {"celsius": 20.0, "history": [1.0]}}


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "x", b"x"])
def test_what_nobody_can_change_is_not_copied(value: Any) -> None:
    """Most answers are such."""
    assert detached(value) is value


def test_what_cannot_travel_is_said_at_once() -> None:
    """With the handler's name, not with that of the connection."""
    with pytest.raises(TypeError, match="its result cannot be encoded"):
        detached({"a": object()})
