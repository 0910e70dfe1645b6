"""Blocking calls between processes: plain operations wait in their threads, and no process runs out of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appbackplane.transport import InternalError

from .conftest import LIMIT_S, System, standing

HANDS = """
[backplane.left]
components = ["components:LeftHand"]
[backplane.right]
components = ["components:RightHand"]
"""


@pytest.fixture(scope="module")
def hands(_no_ignored_interrupt: None) -> Iterator[System]:
    """Each calls the other."""
    with standing(HANDS) as system:
        yield system


def test_plain_operations_wait_for_each_other_across_processes(hands: System) -> None:
    """Each backplane has one thread by its configuration; each that blocks is replaced, and they are used again."""
    with hands.connect() as client:
        for _ in range(3):
            there = client.call("left_hand.pass_on", key="0", keys=list("1234567"), timeout=LIMIT_S)
            assert there == [
                f"{side}/{side}_hand.{key}" for side, key in zip(("left", "right") * 4, "01234567", strict=True)
            ]
        threads = client.call("left_hand.threads_count")
        calls = [client.submit("left_hand.pass_on", key=key, keys=[key], timeout=LIMIT_S) for key in "01234567" * 10]
        assert {tuple(call.result()) for call in calls} == {
            (f"left/left_hand.{key}", f"right/right_hand.{key}") for key in "01234567"
        }
        assert client.call("left_hand.threads_count") <= threads + 8


def test_a_cycle_of_plain_operations_is_refused_at_once(hands: System) -> None:
    """The object would wait for itself until its deadline, and a thread with it."""
    with hands.connect() as client:
        with pytest.raises(InternalError, match=r"call cycle: .*left_hand\.pass_on on left/left_hand\.0"):
            client.call("left_hand.pass_on", key="0", keys=["1", "0"], timeout=LIMIT_S)
        assert client.call("left_hand.pass_on", key="0", keys=[]) == ["left/left_hand.0"]
