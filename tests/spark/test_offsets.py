"""Offsets: how far a stream has read, and who gets how much of a micro-batch."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.spark.offsets import BadOffsets, Position, packed, shares, unpacked, wanted

POSITIONS = st.dictionaries(
    st.text(max_size=5), st.builds(Position, st.integers(1, 9), st.integers(0, 99), st.integers(0, 9)), max_size=5
)


@given(POSITIONS)
def test_the_same_offsets_are_the_same_text(positions: dict[str, Position]) -> None:
    """Spark compares them as text: another order of the names would be a micro-batch of nothing, for ever."""
    reverse = dict(sorted(positions.items(), reverse=True))
    assert json.dumps(packed(positions)) == json.dumps(packed(reverse))
    assert unpacked(json.loads(json.dumps(packed(positions)))) == positions


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 50), max_size=6), st.integers(1, 100))
def test_a_batch_is_shared_so_that_nobody_waits_behind_a_busier_one(available: dict[str, int], most: int) -> None:
    """Full if there is enough; who has less than his share has all of it; nobody has two more than who still waits."""
    taken = shares(available, most)
    assert sum(taken.values()) == min(most, sum(available.values()))
    assert all(0 <= taken[line] <= available[line] for line in available)
    waiting = [taken[line] for line in available if taken[line] < available[line]]
    assert not waiting or max(taken.values()) <= min(waiting) + 1


def test_where_to_begin_is_said_in_words_or_as_json() -> None:
    """What the documentation promises."""
    assert wanted("earliest") == "earliest" and wanted("latest") == "latest"
    assert wanted('{"a": [3, 7], "b": "latest"}') == {"a": Position(3, 7), "b": "latest"}
    assert wanted('{"a": [3, 7, 99]}') == {"a": Position(3, 7, 99)}, "what a stream says of itself"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Latest",
        "[]",
        '{"a": 3}',
        '{"a": [3]}',
        '{"a": [3, 7, 1, 1]}',
        '{"a": [0, 1]}',
        '{"a": [1, -1]}',
        '{"a": "soon"}',
        "{",
    ],
)
def test_what_says_nothing_is_one_line(text: str) -> None:
    """A stream that begins somewhere else than was meant is noticed a day later."""
    with pytest.raises(BadOffsets, match="startingOffsets") as told:
        wanted(text)
    assert "\n" not in str(told.value)
