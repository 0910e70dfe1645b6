"""Delivery cuts a batch into calls that a backplane takes in little time, whatever its rows are like."""

from __future__ import annotations

import pytest

from appbackplane.spark.delivery import BYTES_MAX, ROWS_MAX, SystemDelivery, _part, check_group
from appbackplane.transport.errors import InvalidArgument, SystemNotRunning


def test_a_call_holds_so_many_rows_and_so_many_bytes() -> None:
    """A call that takes long keeps urgent work waiting; one row must always go, or the batch would never end."""
    small = [{"n": n} for n in range(1_000)]
    assert _part(small, 0) == small[:ROWS_MAX]
    assert _part(small, 990) == small[990:]
    large = [{"n": n, "text": "x" * (BYTES_MAX // 3)} for n in range(10)]
    assert _part(large, 0) == large[:2]
    huge = [{"text": "x" * (2 * BYTES_MAX)}, {"n": 1}]
    assert _part(huge, 0) == huge[:1]


def test_a_system_that_is_not_there_is_waited_for_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart takes seconds and ends nobody's query; a system that is gone does. Who is asked to end does not wait."""
    tries = []

    def connect(system: str) -> None:
        tries.append(system)
        raise SystemNotRunning("s", "/nowhere", "s.toml")

    monkeypatch.setattr("appbackplane.spark.delivery.connect", connect)
    monkeypatch.setattr("appbackplane.spark.delivery.PAUSE_S", 0.001)
    with pytest.raises(SystemNotRunning):
        SystemDelivery("s", "g", patience_s=0.2).to_topic("a.b", 0, [{"n": 1}])
    assert len(tries) > 2
    tries.clear()
    with pytest.raises(SystemNotRunning):
        SystemDelivery("s", "g", patience_s=60.0, is_to_end=lambda: True).to_topic("a.b", 0, [{"n": 1}])
    assert len(tries) == 1


def test_a_group_has_a_name_that_fits_into_an_idempotency_key() -> None:
    """With the numbers of batch and row, whatever they are."""
    longest = check_group("g" * 213)
    assert len(f"{longest}/{2**63}/{2**63}") <= 255
    for bad in ("", "g" * 214):
        with pytest.raises(ValueError, match="1 to 213 characters"):
            check_group(bad)


def test_a_row_that_names_no_object_calls_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object called None would be made, and be told everything that nobody is."""
    monkeypatch.setattr("appbackplane.spark.delivery.connect", lambda *_, **__: None)
    with pytest.raises(InvalidArgument, match="row 0 of batch 3: column who names the object to call, and is NULL"):
        SystemDelivery("s", "g").to_route("a.b", 3, [{"who": None, "n": 1}], "who")
