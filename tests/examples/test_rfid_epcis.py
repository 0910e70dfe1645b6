"""EPCIS: documents are what the standard says, and queries find what matches; against the schema of GS1 where it is at hand."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rfid import repository
from rfid.epcis import (
    BIZ_STEPS,
    CONTEXT,
    EventFilter,
    event_of_pass,
    events_of,
    filter_of,
    micros_of,
    query_document,
    text_of,
)
from rfid.repository import Repository

from appbackplane.runtime import BackplaneError, FailedPrecondition, InvalidArgument, NotFound
from appbackplane.runtime.testing import VirtualBackplane

DOCK = "urn:epc:id:sgln:0614141.07346.1"
EPC = "3074257bf7194e4000001a85"
URI = "urn:epc:id:sgtin:0614141.812345.6789"
NOON = micros_of("2026-01-31T12:00:00Z", "noon")
PASS = event_of_pass(EPC, NOON, DOCK, "receiving")


def document(*events: Any, **fields: Any) -> dict[str, Any]:
    """As a client captures it."""
    given = {
        "@context": [CONTEXT],
        "type": "EPCISDocument",
        "schemaVersion": "2.0",
        "creationDate": "2026-01-31T12:00:01Z",
    }
    return given | {"epcisBody": {"eventList": list(events)}} | fields


@pytest.fixture
def store(tmp_path: Path) -> VirtualBackplane:
    """A repository that is empty."""
    return VirtualBackplane(Repository(str(tmp_path / "events.sqlite")))


def found(store: VirtualBackplane, **parameters: str) -> list[Any]:
    """The eventIDs that a query finds."""
    answer = store.call("repository.query", filter=filter_of(parameters), limit=1_000).result()
    return [event["eventID"] for event in answer["events"]]


# -- documents ------------------------------------------------------------------------------------------------------------


def test_a_pass_is_an_object_event() -> None:
    """The same pass has the same id, whoever sends it again."""
    assert event_of_pass(EPC, NOON, DOCK, "receiving") == PASS
    assert PASS["eventID"] != event_of_pass(EPC, NOON + 1, DOCK, "receiving")["eventID"]
    assert {name: value for name, value in PASS.items() if name != "eventID"} == {
        "type": "ObjectEvent", "action": "OBSERVE", "bizStep": "receiving", "epcList": [URI],
        "eventTime": "2026-01-31T12:00:00.000000Z", "eventTimeZoneOffset": "+00:00", "readPoint": {"id": DOCK},
    }  # fmt: skip


def test_documents_validate_against_the_schema_of_gs1() -> None:
    """EPCIS_SCHEMA is the path of EPCIS-JSON-Schema.json of the repository gs1/EPCIS, whose licence permits no copy here."""
    path = os.environ.get("EPCIS_SCHEMA")
    if not path:
        pytest.skip("EPCIS_SCHEMA does not name the schema of GS1")
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator(
        json.loads(Path(path).read_text()), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
    )
    raw = event_of_pass("ff" * 12, NOON, DOCK, "https://ns.example/steps/weighing")
    stored = [event | {"recordTime": text_of(NOON)} for event in (PASS, raw)]
    for each in (
        query_document(stored, NOON),
        query_document([], NOON),
        document(PASS),
        *map(one_step, sorted(BIZ_STEPS)),
    ):
        assert [error.message for error in validator.iter_errors(each)] == []
    assert list(validator.iter_errors(document(PASS | {"action": "LOOK"}))), "the schema is not the right one"


def one_step(step: str) -> dict[str, Any]:
    return document(event_of_pass(EPC, NOON, DOCK, step))


def test_a_context_of_its_own_stays_with_an_event() -> None:
    """The prefix of an extension means nothing without it."""
    context = [CONTEXT, {"example": "https://ns.example/"}]
    extended = PASS | {"example:colour": "red"}
    assert events_of(document(extended, **{"@context": context})) == [{"@context": context} | extended]


def test_a_query_document_can_be_captured() -> None:
    """What one repository answers, another takes in."""
    assert events_of(query_document([PASS], NOON)) == [PASS]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"type": "AggregationEvent"}, r"eventList\[0\]: Invalid enum value 'AggregationEvent'"),
        ({"action": "LOOK"}, r"eventList\[0\]: Invalid enum value 'LOOK'"),
        ({"eventTime": "2026-01-31T12:00:00"}, "with a timezone component - at `\\$.eventTime`"),
        ({"eventTimeZoneOffset": "+15:00"}, "eventTimeZoneOffset"),
        ({"epcList": "all"}, "Expected `array`"),
        ({"epcList": ["no uri"]}, "epcList"),
        ({"epcList": [URI, URI]}, "epcList has an EPC twice"),
        ({"readPoint": DOCK}, "readPoint"),
        ({"@context": 5}, "context"),
        ({"bizStep": "eating"}, "bizStep 'eating': expected a word of the Core Business Vocabulary, such as receiving"),
        ({"colour": "red"}, "field 'colour' is none of an ObjectEvent; an extension has a prefix"),
    ],
)
def test_events_that_are_none_are_refused(changed: dict[str, Any], words: str) -> None:
    """With the number of the event and the field."""
    with pytest.raises(InvalidArgument, match=words):
        events_of(document(PASS | changed))


@pytest.mark.parametrize(
    "given",
    [
        None, [], {}, {"type": "ObjectEvent"}, document(), document(None), document(**{"epcisBody": None}),
        document(PASS, type="EPCISQueryDocument"), document(PASS, **{"epcisBody": {"eventList": PASS}}),
        {name: value for name, value in document(PASS).items() if name != "@context"},
    ],
)  # fmt: skip
def test_documents_that_are_none_are_refused(given: Any) -> None:
    """Whatever JSON a client sends."""
    with pytest.raises(InvalidArgument):
        events_of(given)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_any_json_is_a_document_or_refused(given: Any) -> None:
    """Also where an event is expected."""
    for each in (given, document(given), document(PASS | given if isinstance(given, dict) else given)):
        with suppress(InvalidArgument):
            events_of(each)


# -- queries --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"EQ_colour": "red"}, "query parameter 'EQ_colour' is not supported: expected one of eventType, GE_eventTime"),
        ({"GE_eventTime": "noon"}, "GE_eventTime=noon: expected a time with its zone, such as 2026-01-31T12:00:00Z"),
        ({"LT_eventTime": "2026-01-31T12:00:00"}, "expected a time with its zone"),
        ({"EQ_bizStep": ""}, "EQ_bizStep=: expected a value"),
        ({"EQ_bizStep": "receiving|"}, "expected a value"),
        ({"EQ_readPoint": "|".join(["a"] * 101)}, "at most 100 separated by |"),
        ({"MATCH_epc": "urn:epc:idpat:sgtin:*.812345.6789"}, "expected a URI, or a pattern such as"),
        ({"MATCH_epc": "everything"}, "expected a URI, or a pattern such as"),
    ],
)
def test_queries_that_are_none_are_refused(parameters: dict[str, str], words: str) -> None:
    """A parameter that is ignored finds more than was asked for."""
    with pytest.raises(InvalidArgument) as error:
        filter_of(parameters)
    assert words in error.value.message


def test_a_query_finds_what_matches_all_its_parameters(store: VirtualBackplane) -> None:
    """Of each parameter one value is enough."""
    gate = "urn:epc:id:sgln:0614141.07346.2"
    later = event_of_pass("3014257bf7194e4000000002", NOON + 60_000_000, gate, "shipping")
    store.call("repository.capture", events=[PASS, later]).result()
    first, second = PASS["eventID"], later["eventID"]
    assert found(store) == found(store, eventType="ObjectEvent|AggregationEvent") == [first, second]
    assert found(store, eventType="AggregationEvent") == []
    assert found(store, GE_eventTime="2026-01-31T13:00:00+01:00", LT_eventTime="2026-01-31T12:01:00Z") == [first]
    assert found(store, GE_eventTime="2026-01-31T12:00:00.000001Z") == [second]
    assert found(store, EQ_bizStep="shipping|loading") == found(store, EQ_readPoint=gate) == [second]
    assert found(store, MATCH_epc=URI) == [first]
    assert found(store, MATCH_epc="urn:epc:idpat:sgtin:0614141.812345.*") == [first, second]
    assert found(store, MATCH_epc="urn:epc:idpat:sgtin:0614141.*.*", EQ_bizStep="receiving") == [first]
    assert found(store, MATCH_epc="urn:epc:idpat:sgtin:061414.*.*") == []


@given(st.data())
def test_the_slow_twin_finds_the_same(data: st.DataObject) -> None:
    """Any events, and any filter."""
    points, steps, epcs = [DOCK, "urn:b:2"], ["receiving", "shipping"], [EPC, "3014257bf7194e4000000002", "ff" * 12]
    store = VirtualBackplane(Repository(":memory:"))
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from(epcs), st.integers(0, 9), *map(st.sampled_from, (points, steps))))
    )
    events = [event_of_pass(epc, NOON + second * 1_000_000, point, step) for epc, second, point, step in drawn]
    for event in events:
        store.call("repository.capture", events=[event]).result()
    several = [st.lists(st.sampled_from(each), max_size=2, unique=True) for each in (steps, points)]
    edges = st.none() | st.integers(0, 9).map(lambda second: NOON + second * 1_000_000)
    asked = EventFilter(
        [], data.draw(edges), data.draw(edges), *map(data.draw, several), data.draw(st.sampled_from([[], [URI]]))
    )
    expected = [
        event["eventID"]
        for event in {event["eventID"]: event for event in events}.values()
        if (asked.from_us is None or micros_of(event["eventTime"], "") >= asked.from_us)
        and (asked.before_us is None or micros_of(event["eventTime"], "") < asked.before_us)
        and (not asked.biz_steps or event["bizStep"] in asked.biz_steps)
        and (not asked.read_points or event["readPoint"]["id"] in asked.read_points)
        and (not asked.epcs or URI in event["epcList"])
    ]
    pages, after = list[str](), 0
    while True:
        answer = store.call("repository.query", filter=asked, after=after, limit=3).result()
        pages += [event["eventID"] for event in answer["events"]]
        assert len(answer["events"]) <= 3
        if answer["next"] is None:
            break
        after = answer["next"]
    assert pages == expected


# -- the store ------------------------------------------------------------------------------------------------------------


def test_an_event_is_stored_once_and_survives(tmp_path: Path) -> None:
    """An outbox sends again what was not acknowledged; and a process may die."""
    path = str(tmp_path / "deep" / "events.sqlite")
    for _ in range(2):
        store = VirtualBackplane(Repository(path))
        job = store.call("repository.capture", events=[PASS, PASS]).result()
        assert store.call("repository.job", id=job).result()["success"] is True
        assert found(store) == [PASS["eventID"]]
    assert isinstance(store.call("repository.job", id="none").exception(), NotFound)


def test_a_capture_stores_all_or_nothing(store: VirtualBackplane) -> None:
    """Half a delivery would be found by nobody."""
    bad = PASS | {"eventID": "urn:uuid:2", "action": "LOOK"}
    assert isinstance(store.call("repository.capture", events=[PASS, bad]).exception(), InvalidArgument)
    assert found(store) == []


def test_a_repository_has_a_bound(tmp_path: Path) -> None:
    """It is refused, and nothing that is stored is lost."""
    store = VirtualBackplane(Repository(str(tmp_path / "events.sqlite"), events_max=1))
    store.call("repository.capture", events=[PASS]).result()
    other = event_of_pass(EPC, NOON + 1, DOCK, "receiving")
    error = store.call("repository.capture", events=[other]).exception()
    assert isinstance(error, FailedPrecondition)
    assert error.message == "the repository is full: 1 events (events_max)"
    assert found(store) == [PASS["eventID"]]
    with pytest.raises(BackplaneError):
        store.call("repository.capture", events=[other]).result()


def test_capture_jobs_are_forgotten(store: VirtualBackplane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest, as clients ask soon."""
    monkeypatch.setattr(repository, "JOBS_MAX", 2)
    jobs = [store.call("repository.capture", events=[PASS]).result() for _ in range(3)]
    assert isinstance(store.call("repository.job", id=jobs[0]).exception(), NotFound)
    assert store.call("repository.job", id=jobs[1]).result()["captureID"] == jobs[1]
