"""Searches: by attributes and state, and by JSONPath, each with its bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appbackplane.runtime import InvalidArgument
from appbackplane.runtime.things.directory import jsonpath_search
from appbackplane.runtime.things.directory.attribute_search import Condition, condition_of, place_of, search_of
from appbackplane.runtime.things.directory.jsonpath_search import found_by

ROOM: dict[str, Any] = {
    "id": "urn:dev:room-1",
    "title": "Living room",
    "titles": {"de": "Wohnzimmer"},
    "description": "Where the cat sleeps",
    "@type": ["brick:Room", "saref:Sensor"],
    "schema:containedInPlace": "Ground floor, hall",
    "properties": {"temperature": {}, "mode": {}, "is_open": {}, "pin": {"writeOnly": True}},
}
VALUES = {"temperature": 22.5, "mode": "eco", "is_open": True, "hidden": 5, "pin": 5}


@pytest.mark.parametrize(
    ("arguments", "is_found"),
    [
        ({}, True),
        ({"text": "CAT room"}, True),
        ({"text": "wohnzimmer"}, True),
        ({"text": "brick:room-1"}, False),
        ({"text": "cat dog"}, False),
        ({"type": "brick:Room"}, True),
        ({"type": "Room"}, False),
        ({"place": "Hall"}, True),
        ({"place": "hallway"}, False),
        ({"where": ["temperature>21"]}, True),
        ({"where": ["temperature > 21", "temperature<=22.5", "mode=eco", "is_open=true", "mode!=off"]}, True),
        ({"where": ["temperature>21", "mode=off"]}, False),
        ({"where": ["temperature>22.5"]}, False),
        ({"where": ["temperature>=eco"]}, False),
        ({"where": ["is_open=1"]}, False),
        ({"where": ["is_open>0"]}, False),
        ({"where": ["mode!=5"]}, False),
        ({"where": ["pressure<5"]}, False),
        ({"where": ["hidden=5"]}, False),
        ({"where": ["pin=5"]}, False),
        ({"type": "brick:Room", "place": "hall", "text": "living", "where": ["temperature>21"]}, True),
    ],
)
def test_a_thing_is_found_by_all_that_is_asked(arguments: dict[str, Any], is_found: bool) -> None:
    """Warm rooms near the hall; a property that the description hides is not found out by its value."""
    search = search_of(*(arguments.get(name, "") for name in ("text", "type", "place")), arguments.get("where", ()))
    assert search.matches(ROOM, VALUES.get) == is_found


def test_a_thing_without_anything_is_found_by_nothing() -> None:
    """But by the empty search."""
    bare = {"id": "urn:x", "title": "X"}
    assert search_of("", "", "", ()).matches(bare, VALUES.get)
    for arguments in (("y", "", "", ()), ("", "t", "", ()), ("", "", "p", ()), ("", "", "", ("temperature>0",))):
        assert not search_of(*arguments).matches(bare, VALUES.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("temperature>21", Condition("temperature", ">", 21.0)),
        ("a <= -1e3", Condition("a", "<=", -1_000.0)),
        ("is_on==true", Condition("is_on", "==", True)),
        ('mode="21"', Condition("mode", "=", "21")),
        ("mode=very eco", Condition("mode", "=", "very eco")),
    ],
)
def test_a_condition_is_a_comparison(text: str, expected: Condition) -> None:
    """Its limit is a number, a truth value or text; quotes make it text."""
    assert condition_of(text) == expected


@pytest.mark.parametrize("text", ["", "temperature", "temperature>", ">21", "a~5", "a b>5"])
def test_what_is_no_condition_is_told(text: str) -> None:
    """With an example of one."""
    with pytest.raises(InvalidArgument, match="temperature>21"):
        condition_of(text)


def test_the_arguments_of_a_search_are_bounded() -> None:
    """Each is looked at for each thing."""
    for arguments in (("x" * 257, "", "", ()), ("", "x" * 257, "", ()), ("", "", "", ["a>" + "1" * 300])):
        with pytest.raises(InvalidArgument, match="at most 256 characters"):
            search_of(*arguments)
    with pytest.raises(InvalidArgument, match="at most 8 conditions"):
        search_of("", "", "", ["a>1"] * 9)


def test_a_place_is_text_or_has_a_name() -> None:
    """Descriptions of others say it as schema.org does."""
    assert place_of({"schema:containedInPlace": {"@type": "schema:Room", "schema:name": "Hall"}}) == "Hall"
    assert place_of({"schema:containedInPlace": {"name": "Hall"}}) == "Hall"
    assert place_of({"schema:containedInPlace": 5}) == place_of({}) == ""


THINGS = [{"id": f"urn:dev:{number}", "title": "x" * number, "tag": number % 2} for number in range(1, 11)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("$[?(@.tag==1)].id", [f"urn:dev:{number}" for number in range(1, 11, 2)]),
        ("$[?length(@.title) > 9].id", ["urn:dev:10"]),
        ("$[-1]['id', 'tag']", ["urn:dev:10", 0]),
        ("$[?@.none]", []),
    ],
)
def test_values_are_found_by_a_jsonpath(query: str, expected: list[Any]) -> None:
    """RFC 9535."""
    assert json.loads(found_by(query, THINGS)) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "missing: expected a JSONPath"),
        ("*/id", "unexpected token"),
        ("$[?", "query: "),
        ("$[?@.id == 5 &&]", "query: "),
        ("$[9999999999999999999]", "index out of range"),
        ("$[?@.id==1e999999999]", "a number in it is too large"),
        (f"$[?@.id=={'9' * 900}]", "a number in it is too large"),
        ("$" + "x" * 2_000, "at most 1,024 characters"),
        ("$[?match(@.id, '(a+)+')]", "'match' is not defined"),
        ("$[?search(@.id, '(a+)+')]", "'search' is not defined"),
        ("$[?@.id =~ /(a+)+/]", "query: "),
        ("$" + "[?@" * 200 + "]" * 200, "recursion"),
        ("$[?" + "!" * 900 + "@.a]", "query: "),
        ("$[?" + "(" * 500 + "@.a" + ")" * 500 + "]", "query: "),
    ],
)
def test_wrong_queries_are_told(query: str, words: str) -> None:
    """Also those that only wish to keep the gateway busy."""
    with pytest.raises(InvalidArgument, match=words):
        found_by(query, THINGS)


@pytest.mark.parametrize(
    "query", ["$..[?@..x]", "$..[?@..[?@..[?@..x]]]", "$..[?count($..*) < 0]", "$..[?$ != $]", "$[?@.x].x"]
)
def test_the_work_of_a_query_is_bounded(query: str) -> None:
    """A line may ask for more than the gateway does in a year. One step is a value that is visited or compared."""
    with pytest.raises(InvalidArgument, match="looks at too many values: narrow it"):
        found_by(query, THINGS, steps_max=5)
    if query.count("..") < 2:
        assert found_by(query, THINGS) == b"[]"


def test_the_size_of_what_is_compared_is_work() -> None:
    """Two large values that are equal are compared to their end, for each thing."""
    same = [{"id": "x", "data": {"list": [list(range(100)) for _ in range(100)]}} for _ in range(10)]
    with pytest.raises(InvalidArgument, match="looks at too many values"):
        found_by("$[?@ == $[0]].id", same, steps_max=50_000)
    assert json.loads(found_by("$[?@.id == $[0].id].id", same, steps_max=500)) == ["x"] * 10


def test_the_results_of_a_query_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query may name each thing many times."""
    monkeypatch.setattr(jsonpath_search, "RESULTS_MAX", 20)
    assert len(json.loads(found_by("$[*,*]", THINGS))) == 20
    with pytest.raises(InvalidArgument, match="narrow it"):
        found_by("$[*,*,0]", THINGS)
    monkeypatch.setattr(jsonpath_search, "RESULTS_BYTES_MAX", 100)
    with pytest.raises(InvalidArgument, match="narrow it"):
        found_by("$[*]", THINGS)
