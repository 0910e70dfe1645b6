"""Validation of Thing Descriptions: what is wrong, and where; and the times in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.things.directory.rfc3339 import text_of, unix_ns_of
from appbackplane.runtime.things.directory.validation import DEPTH_MAX, FAULTS_MAX, faults_of, is_too_deep

V1 = "https://www.w3.org/2019/wot/td/v1"
V11 = "https://www.w3.org/2022/wot/td/v1.1"
NOW_NS = 1_800_000_000_000_000_000


def lamp(**members: Any) -> dict[str, Any]:
    """A valid description of a lamp, with these members."""
    return {
        "@context": [V11, {"saref": "https://saref.etsi.org/core/"}],
        "@type": "saref:LightSwitch",
        "id": "urn:dev:lamp-7",
        "title": "Lamp",
        "security": "none",
        "securityDefinitions": {"none": {"scheme": "nosec"}},
        "properties": {"on": {"type": "boolean", "forms": [{"href": "on", "op": ["readproperty"]}]}},
        "actions": {"flash": {"input": {"type": "object"}, "forms": [{"href": "flash"}]}},
        "events": {"burnt": {"data": {"type": "number"}, "forms": [{"href": "burnt", "op": "subscribeevent"}]}},
        "links": [{"href": "https://lamps.example/manual", "rel": "manual"}],
        "version": {"instance": "1.0.0"},
        "acme:colour": {"anything": [1, None]},
    } | members


def without(name: str) -> dict[str, Any]:
    """The lamp without a member."""
    return {key: value for key, value in lamp().items() if key != name}


def with_form(**members: Any) -> dict[str, Any]:
    """The lamp with one form."""
    return lamp(properties={"on": {"forms": [{"href": "on"} | members]}})


def with_schema(**members: Any) -> dict[str, Any]:
    """The lamp with one property."""
    return lamp(properties={"on": {"forms": [{"href": "on"}]} | members})


@pytest.mark.parametrize(
    "td",
    [
        lamp(),
        lamp(**{"@context": V1}),
        lamp(**{"@context": V11}),
        lamp(**{"@context": [V1, V11]}),
        lamp(**{"@context": [V1, "https://acme.example/terms"]}),
        without("id"),
        lamp(security=["none"], forms=[{"href": "all", "op": "readallproperties"}]),
        lamp(securityDefinitions={"none": {"scheme": "ace:ACESecurityScheme"}}),
        lamp(registration={"ttl": 60, "expires": "2001-01-01T00:00:00Z"}),
        lamp(registration={"ttl": 0.5}),
        lamp(registration={"expires": "2100-01-01T00:00:00+01:00"}),
        lamp(titles={"de": "Lampe"}, created="2026-02-01T10:00:00.5Z"),
        with_form(op=["readproperty", "observeproperty"], security="none"),
        with_schema(type="object", properties={"x": {"type": "null"}}, items=[{"type": "array"}], oneOf=[{"const": 1}]),
    ],
)
def test_valid_descriptions_are_taken(td: dict[str, Any]) -> None:
    """Those of the first version, too, and members of any vocabulary."""
    assert faults_of(td, NOW_NS) == []


@pytest.mark.parametrize(
    ("td", "field"),
    [
        ([], "(root)"),
        (without("title"), "title"),
        (without("@context"), "@context"),
        (without("security"), "security"),
        (without("securityDefinitions"), "securityDefinitions"),
        (lamp(**{"@context": "https://www.w3.org/2030/wot/td/v3"}), "@context"),
        (lamp(**{"@context": []}), "@context"),
        (lamp(**{"@context": ["https://acme.example/terms", V11]}), "@context"),
        (lamp(**{"@context": [V11, V1]}), "@context"),
        (lamp(**{"@context": [V11, 5]}), "@context"),
        (lamp(**{"@type": "tm:ThingModel"}), "@type"),
        (lamp(**{"@type": [5]}), "@type"),
        (lamp(id="lamp 7"), "id"),
        (lamp(id=7), "id"),
        (lamp(id="urn:" + "x" * 600), "id"),
        (lamp(title=7), "title"),
        (lamp(titles={"de": 7}), "titles"),
        (lamp(base=7), "base"),
        (lamp(created="yesterday"), "created"),
        (lamp(security=[]), "security"),
        (lamp(security="other"), "security"),
        (lamp(securityDefinitions={}), "securityDefinitions"),
        (lamp(securityDefinitions={"none": {"scheme": "magic"}}), "securityDefinitions.none.scheme"),
        (lamp(version={}), "version.instance"),
        (lamp(links={}), "links"),
        (lamp(links=[{"rel": "x"}]), "links.0.href"),
        (lamp(forms=[]), "forms"),
        (lamp(forms=[{"href": "all"}]), "forms.0.op"),
        (lamp(forms=[{"href": "all", "op": "readproperty"}]), "forms.0.op"),
        (lamp(properties=[]), "properties"),
        (lamp(properties={"on": 5}), "properties.on"),
        (lamp(properties={"on": {"forms": []}}), "properties.on.forms"),
        (lamp(properties={"on": {}}), "properties.on.forms"),
        (lamp(properties={"on": {"forms": [5]}}), "properties.on.forms.0"),
        (with_form(href=5), "properties.on.forms.0.href"),
        (with_form(contentType=5), "properties.on.forms.0.contentType"),
        (with_form(op="invokeaction"), "properties.on.forms.0.op"),
        (with_form(op=[]), "properties.on.forms.0.op"),
        (with_form(security="other"), "properties.on.forms.0.security"),
        (with_schema(type="float"), "properties.on.type"),
        (with_schema(type="object", properties={"x": {"type": 5}}), "properties.on.properties.x.type"),
        (with_schema(items=[{"type": 5}]), "properties.on.items.0.type"),
        (with_schema(items={"type": 5}), "properties.on.items.type"),
        (with_schema(oneOf=[5]), "properties.on.oneOf.0"),
        (with_schema(minimum=True), "properties.on.minimum"),
        (with_schema(enum=[]), "properties.on.enum"),
        (with_schema(observable="yes"), "properties.on.observable"),
        (with_schema(required="x"), "properties.on.required"),
        (with_schema(uriVariables=[]), "properties.on.uriVariables"),
        (lamp(actions={"flash": {"forms": [{"href": "f"}], "input": 5}}), "actions.flash.input"),
        (lamp(events={"burnt": {"forms": [{"href": "b"}], "data": {"type": "x"}}}), "events.burnt.data.type"),
        (lamp(registration=5), "registration"),
        (lamp(registration={"ttl": 0}), "registration.ttl"),
        (lamp(registration={"ttl": True}), "registration.ttl"),
        (lamp(registration={"ttl": "60"}), "registration.ttl"),
        (lamp(registration={"ttl": 1e12}), "registration.ttl"),
        (lamp(registration={"expires": "soon"}), "registration.expires"),
        (lamp(registration={"expires": "2001-01-01T00:00:00Z"}), "registration.expires"),
        (lamp(registration={"expires": "9999-01-01T00:00:00Z"}), "registration.expires"),
    ],
)
def test_each_fault_names_its_member(td: Any, field: str) -> None:
    """So that its author finds it; and nothing else is found fault with."""
    assert {each.field for each in faults_of(td, NOW_NS)} == {field}


def test_the_faults_of_one_answer_are_bounded() -> None:
    """A document may have as many as members, whose names may be of any length."""
    faults = faults_of(lamp(properties={f"{'x' * 10_000}{number}": 5 for number in range(100)}), NOW_NS)
    assert len(faults) == FAULTS_MAX and all(len(each.field) < 1_000 for each in faults)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PLACES: tuple[Callable[[Any], dict[str, Any]], ...] = (
    *(lambda value, name=name: lamp(**{name: value}) for name in (*lamp(), "forms", "registration", "uriVariables")),
    lambda value: with_schema(type=value, properties=value, items=value, oneOf=value),
    lambda value: with_form(href=value, op=value, security=value),
    lambda value: lamp(registration={"ttl": value, "expires": value}),
    lambda value: lamp(registration={"expires": value}),
    lambda value: lamp(actions={"flash": value}, events={"burnt": {"data": value}}),
)  # fmt: skip


@given(st.sampled_from(PLACES), JSON)
def test_any_document_is_judged(place: Callable[[Any], dict[str, Any]], value: Any) -> None:
    """Nothing that a client may send ends in an exception."""
    for td in (place(value), value):
        assert isinstance(faults_of(td, NOW_NS), list)


@pytest.mark.parametrize(("depth", "is_deep"), [(1, False), (DEPTH_MAX - 1, False), (DEPTH_MAX, True), (100_000, True)])
def test_documents_of_any_depth_are_measured(depth: int, is_deep: bool) -> None:
    """Deeper ones than the stack are told apart before anything walks them."""
    document: Any = 1
    for number in range(depth):
        document = [document] if number % 2 else {"x": document}
    assert is_too_deep(document) == is_deep


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_read_as_they_are_written(unix_ms: int) -> None:
    """To the millisecond."""
    assert unix_ns_of(text_of(unix_ms * 1_000_000)) == unix_ms * 1_000_000


@pytest.mark.parametrize(
    ("text", "unix_ns"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01t01:00:00.25+01:00", 250_000_000),
        ("1970-01-01T00:00:00.123456789z", 123_456_000),
        ("1970-01-01T00:00:00", None),
        ("1970-13-01T00:00:00Z", None),
        ("1970-01-01 00:00:00Z", None),
        ("1970-01-01T00:00:00.Z", None),
        ("１970-01-01T00:00:00Z", None),
    ],
)
def test_times_of_others_are_read(text: str, unix_ns: int | None) -> None:
    """RFC 3339, and nothing else."""
    if unix_ns is not None:
        assert unix_ns_of(text) == unix_ns
        return
    with pytest.raises(ValueError):
        unix_ns_of(text)
