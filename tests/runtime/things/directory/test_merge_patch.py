"""Merge patches against the pseudo code of RFC 7396, and the patch between two documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.things.directory.changes import event_of
from appbackplane.runtime.things.directory.merge_patch import merged, patch_between
from tests.models.merge_patch_model import merge_patch

NAMES = st.sampled_from("abc")
VALUES = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"])


def documents(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """JSON documents with few names, so that two of them share some."""
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner), max_leaves=8)


SOLID = st.dictionaries(NAMES, documents(VALUES.filter(lambda each: each is not None)))


@given(documents(VALUES), documents(VALUES))
def test_a_patch_is_applied_as_the_rfc_says(target: Any, patch: Any) -> None:
    """Whatever both are."""
    assert merged(target, patch) == merge_patch(target, patch)


@given(SOLID, SOLID)
def test_the_patch_between_two_documents_turns_one_into_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """A subscriber that applies it has what the directory has; a patch that is empty changes nothing."""
    patch = patch_between(before, after)
    assert repr_of(merge_patch(before, patch)) == repr_of(after)
    assert bool(patch) == (repr_of(before) != repr_of(after))


@pytest.mark.parametrize("before", [1, [1], {"b": [{"c": 1}]}])
def test_true_is_not_1(before: Any) -> None:
    """As Python has it."""
    after = json.loads(json.dumps(before).replace("1", "true"))
    assert patch_between({"a": before}, {"a": after}) == {"a": after}
    assert patch_between({"a": after}, {"a": after}) == {}


def repr_of(document: Any) -> Any:
    """The document so that true is not 1, and the order of members does not count."""
    if isinstance(document, dict):
        return {name: repr_of(value) for name, value in document.items()}
    return [repr_of(each) for each in document] if isinstance(document, list) else repr(document)


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc(target: Any, patch: Any, expected: Any) -> None:
    """Its own table."""
    assert merged(target, patch) == expected


LAMP = {"id": "urn:dev:1", "title": "Lamp", "properties": {"on": {"type": "boolean"}}}
DIM = {"id": "urn:dev:1", "title": "Dim lamp", "properties": {"on": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("before", "after", "plain", "diff"),
    [
        (None, LAMP, ("thing_created", {"id": "urn:dev:1"}), ("thing_created", LAMP)),
        (LAMP, None, ("thing_deleted", {"id": "urn:dev:1"}), ("thing_deleted", {"id": "urn:dev:1"})),
        (
            LAMP,
            DIM,
            ("thing_updated", {"id": "urn:dev:1"}),
            ("thing_updated", {"id": "urn:dev:1", "title": "Dim lamp"}),
        ),
        (LAMP, dict(LAMP), None, None),
        (None, None, None, None),
    ],
)
def test_a_user_is_told_what_he_sees_of_a_change(before: Any, after: Any, plain: Any, diff: Any) -> None:
    """A thing that becomes visible is created for him, and a change of hidden parts is no event: it would give them away."""
    assert event_of(before, after, is_diff=False) == plain
    assert event_of(before, after, is_diff=True) == diff
