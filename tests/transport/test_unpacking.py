"""Unpacking: a large frame of a program on this host holds nobody up, and honest ones arrive as they were sent."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport import codec
from appbackplane.transport.batching import BATCH_BYTES_MAX
from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.unpacking import (
    COLLECTED_BYTES,
    UNCOUNTED_BYTES,
    VALUES_MAX,
    TooComplicated,
)  # fmt: skip
from tests.transport.large_frames import LARGE, frame, listed, values


def value_of(packed: bytes) -> Any:
    (envelope,) = codec.decode(frame(packed))
    return envelope.body["x"]


@given(values, st.sampled_from(["", "x" * COLLECTED_BYTES, LARGE]))
def test_the_size_of_a_frame_changes_nothing(value: Any, ballast: str) -> None:
    """Whatever is counted meanwhile."""
    assert value_of(msgpack.packb([value, ballast])) == [arrived(value), ballast]


def arrived(value: Any) -> Any:
    """As it arrives: tuples that are values are lists."""
    if isinstance(value, dict):
        return {key: arrived(each) for key, each in value.items()}
    return [arrived(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "made",
    [
        lambda: [[n] for n in range(400_000)],
        lambda: [{"id": n, "score": 0.5} for n in range(100_000)],
        lambda: {str(n): None for n in range(300_000)},
        lambda: {n: None for n in range(300_000)},
        lambda: {(x, y, z): x for x in range(-13, 13) for y in range(-13, 13) for z in range(-13, 13)},
        lambda: [{n: n + 1} for n in range(200_000)],
    ],
    ids=["pairs", "records", "names", "integer keys", "points in space", "maps of integers"],
)
def test_honest_data_passes(made: Callable[[], Any]) -> None:
    """A message may hold hundreds of thousands of values."""
    value = made()
    assert value_of(msgpack.packb(value)) == value


@pytest.mark.parametrize(
    "made",
    [
        lambda: listed(VALUES_MAX, b"\x90"),
        lambda: listed(VALUES_MAX, b"\x80"),
        lambda: listed(VALUES_MAX, b"\xd4\x05x"),
        lambda: listed(VALUES_MAX >> 11, b"\xde\x08\x00" + b"".join(b"\xa4%04d\xc0" % n for n in range(1 << 11))),
        lambda: listed(VALUES_MAX // 2, b"\x81\x01\xc0"),
    ],
    ids=["lists", "maps", "extensions", "names", "integer keys"],
)
def test_more_values_than_the_bound_are_refused(made: Callable[[], bytes]) -> None:
    """16 million empty lists took 10 s, and a gigabyte. One value fewer is no harm."""
    with pytest.raises(TooComplicated, match=f"one message holds at most {VALUES_MAX:,} lists, maps"):
        value_of(made())


def test_as_many_values_as_the_bound_pass() -> None:
    """The list of the envelopes, the envelope, its body with one name, and the list of them all count as well."""
    assert len(value_of(listed(VALUES_MAX - 6, b"\x90"))) == VALUES_MAX - 6


def test_the_collector_waits_while_a_large_frame_is_made() -> None:
    """It would look through all that there is already, again and again; and goes on afterwards, whatever the end."""
    looks: list[str] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        looks.append(phase)

    packed = frame(listed(500_000, b"\x90"))
    gc.callbacks.append(note)
    try:
        assert len(codec.decode(packed)[0].body["x"]) == 500_000
        assert len(looks) <= 6, "one a generation, when it goes on"
    finally:
        gc.callbacks.remove(note)
    with pytest.raises(MalformedFrame):
        codec.decode(packed[:-1])
    assert gc.isenabled()


def test_a_signal_that_strikes_leaves_the_collector_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exception may be raised as soon as the collector is off, in a client's main thread."""
    disable = gc.disable

    def struck() -> None:
        disable()
        raise KeyboardInterrupt

    monkeypatch.setattr(gc, "disable", struck)
    with pytest.raises(KeyboardInterrupt):
        codec.decode(frame(listed(100_000, b"\x90")))
    assert gc.isenabled()


def test_a_frame_that_is_not_counted_holds_one_batch_at_most() -> None:
    """So of a refused one the caller can be told."""
    assert UNCOUNTED_BYTES > BATCH_BYTES_MAX
