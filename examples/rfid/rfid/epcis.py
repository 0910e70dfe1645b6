"""EPCIS 2.0: events and documents in JSON-LD, and the query parameters of its REST binding (GS1, 2022). Pure.

The repository keeps ObjectEvents. Of a captured event the fields are checked that a query can ask for; the other fields of the
standard, and extensions (names with a colon), are kept as they came.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

import msgspec

from appbackplane.runtime import InvalidArgument

from .epc import uri_of

Event = dict[str, Any]

CONTEXT: Final = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"
#: The business steps of the Core Business Vocabulary 2.0; others are URIs.
BIZ_STEPS: Final = frozenset(
    (
        "accepting", "arriving", "assembling", "collecting", "commissioning", "consigning",
        "creating_class_instance", "cycle_counting", "decommissioning", "departing", "destroying", "disassembling",
        "dispensing", "encoding", "entering_exiting", "holding", "inspecting", "installing", "killing", "loading",
        "other", "packing", "picking", "receiving", "removing", "repackaging", "repairing", "replacing", "reserving",
        "retail_selling", "shipping", "staging_outbound", "stock_taking", "stocking", "storing", "transporting",
        "unloading", "unpacking", "void_shipping", "sensor_reporting", "sampling",
    )
)  # fmt: skip
_FIELDS: Final = frozenset(
    (
        "@context", "type", "eventTime", "recordTime", "eventTimeZoneOffset", "eventID", "certificationInfo",
        "errorDeclaration", "action", "epcList", "quantityList", "bizStep", "disposition", "persistentDisposition",
        "readPoint", "bizLocation", "bizTransactionList", "sourceList", "destinationList", "sensorElementList",
        "ilmd",
    )
)  # fmt: skip
#: Events in one document. A body has at most 1 MiB, and an event some 300 bytes.
EVENTS_MAX: Final = 4_000
#: EPCs in one event, which is a pallet and more.
EPCS_MAX: Final = 10_000
#: Values of one query parameter. SQLite takes 1,000 of them.
VALUES_MAX: Final = 100
_URI: Final = r"^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$"
#: A pattern of EPCs: its last parts may be `*` (EPC Tag Data Standard, section 8).
_PATTERN: Final = r"^urn:epc:idpat:[a-z]+:([^*.]+\.)*\*(\.\*)*$"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET: Final = r"^[+-]((0[0-9]|1[0-3]):[0-5][0-9]|14:00)$"
#: Identifies events that are derived from reads: the same pass of a tag has the same eventID, however often it is sent.
_PASSES: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:appbackplane:examples:rfid")

Uri = Annotated[str, msgspec.Meta(pattern=_URI, max_length=2_000)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ReadPoint(msgspec.Struct):
    """A readPoint."""

    id: Uri


class ObjectEvent(msgspec.Struct):
    """The checked fields of a captured event."""

    type: Literal["ObjectEvent"]
    action: Literal["OBSERVE", "ADD", "DELETE"]
    eventTime: Moment
    eventTimeZoneOffset: Annotated[str, msgspec.Meta(pattern=_OFFSET)]
    epcList: Annotated[list[Uri], msgspec.Meta(max_length=EPCS_MAX)]
    eventID: Uri | None = None
    bizStep: str | None = None
    readPoint: ReadPoint | None = None
    context: str | dict[str, Any] | list[str | dict[str, Any]] | None = msgspec.field(name="@context", default=None)


@dataclass(frozen=True)
class EventFilter:
    """The conditions of a query; empty: none. Times in microseconds since 1970. `epcs`: URIs, or patterns that end in `*`."""

    types: list[str] = field(default_factory=list)
    from_us: int | None = None
    before_us: int | None = None
    biz_steps: list[str] = field(default_factory=list)
    read_points: list[str] = field(default_factory=list)
    epcs: list[str] = field(default_factory=list)


def event_of_pass(epc: str, time_us: int, read_point: str, biz_step: str) -> Event:
    """The event of a tag (hexadecimal digits) that a read point has begun to see."""
    id = uuid.uuid5(_PASSES, f"{read_point} {epc} {time_us}")
    return {
        "eventID": f"urn:uuid:{id}",
        "type": "ObjectEvent",
        "action": "OBSERVE",
        "bizStep": biz_step,
        "epcList": [uri_of(epc)],
        "eventTime": text_of(time_us),
        "eventTimeZoneOffset": "+00:00",
        "readPoint": {"id": read_point},
    }


def expect_uri(text: str, where: str) -> None:
    """Raises `InvalidArgument`."""
    if not re.match(_URI, text):
        raise InvalidArgument(f"{where}: {text!r}: expected a URI, such as urn:epc:id:sgln:0614141.07346.1")


def expect_biz_step(text: str) -> None:
    """Raises `InvalidArgument` unless it is a word of the vocabulary, or a URI."""
    if text not in BIZ_STEPS and not re.match(_URI, text):
        raise InvalidArgument(
            f"bizStep {text!r}: expected a word of the Core Business Vocabulary, such as receiving, or a URI"
        )


def checked(event: Event) -> ObjectEvent:
    """The checked fields of an event. Raises `InvalidArgument`."""
    try:
        found = msgspec.convert(event, ObjectEvent)
    except msgspec.ValidationError as error:
        raise InvalidArgument(str(error)) from None
    if found.bizStep is not None:
        expect_biz_step(found.bizStep)
    if len(set(found.epcList)) < len(found.epcList):
        raise InvalidArgument("epcList has an EPC twice")
    unknown = [name for name in event if name not in _FIELDS and not re.match(_URI, name)]
    if unknown:
        raise InvalidArgument(
            f"field {unknown[0]!r} is none of an ObjectEvent; an extension has a prefix: example:NAME"
        )
    return found


def events_of(document: Any) -> list[Event]:
    """The events of an EPCISDocument or EPCISQueryDocument, each with the context of the document. Raises `InvalidArgument`."""
    if not isinstance(document, dict) or document.get("type") not in ("EPCISDocument", "EPCISQueryDocument"):
        raise InvalidArgument("expected {'@context': …, 'type': 'EPCISDocument', 'epcisBody': {'eventList': […]}}")
    missing = [name for name in ("@context", "schemaVersion", "creationDate", "epcisBody") if name not in document]
    if missing:
        raise InvalidArgument(f"the document has no {missing[0]!r}")
    found: Any = document["epcisBody"]
    for name in ("eventList",) if document["type"] == "EPCISDocument" else ("queryResults", "resultsBody", "eventList"):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list) or not 0 < len(found) <= EVENTS_MAX:
        raise InvalidArgument(f"eventList: expected 1 to {EVENTS_MAX:,} events")
    context, events = document["@context"], list[Event]()
    for number, event in enumerate(found):
        if not isinstance(event, dict):
            raise InvalidArgument(f"eventList[{number}]: expected an object")
        if context not in (CONTEXT, [CONTEXT]) and "@context" not in event:
            event = {"@context": context} | event
        try:
            checked(event)
        except InvalidArgument as error:
            raise InvalidArgument(f"eventList[{number}]: {error.message}") from None
        events.append(event)
    return events


def query_document(events: list[Event], now_us: int) -> dict[str, Any]:
    """The answer to a query."""
    return {
        "@context": [CONTEXT],
        "type": "EPCISQueryDocument",
        "schemaVersion": "2.0",
        "creationDate": text_of(now_us),
        "epcisBody": {"queryResults": {"queryName": "SimpleEventQuery", "resultsBody": {"eventList": events}}},
    }


def filter_of(parameters: Mapping[str, str]) -> EventFilter:
    """The filter of a query's parameters; several values of one are separated by `|`. Raises `InvalidArgument`."""
    unknown = [name for name in parameters if name not in _PARAMETERS]
    if unknown:
        raise InvalidArgument(
            f"query parameter {unknown[0]!r} is not supported: expected one of {', '.join(_PARAMETERS)}"
        )

    def several(name: str) -> list[str]:
        values = parameters[name].split("|") if name in parameters else []
        if "" in values or len(values) > VALUES_MAX:
            raise InvalidArgument(
                f"{name}={parameters[name]}: expected a value, or at most {VALUES_MAX} separated by |"
            )
        return values

    def moment(name: str) -> int | None:
        return micros_of(parameters[name], name) if name in parameters else None

    epcs = several("MATCH_epc")
    for each in epcs:
        if not re.match(_PATTERN if "*" in each else _URI, each):
            raise InvalidArgument(
                f"MATCH_epc={each}: expected a URI, or a pattern such as urn:epc:idpat:sgtin:0614141.*.*"
            )
    return EventFilter(
        types=several("eventType"), from_us=moment("GE_eventTime"), before_us=moment("LT_eventTime"),
        biz_steps=several("EQ_bizStep"), read_points=several("EQ_readPoint"),
        epcs=[each.replace("urn:epc:idpat:", "urn:epc:id:", 1) for each in epcs],
    )  # fmt: skip


_PARAMETERS: Final = ("eventType", "GE_eventTime", "LT_eventTime", "EQ_bizStep", "EQ_readPoint", "MATCH_epc")


def micros_of(text: str, where: str) -> int:
    """Microseconds since 1970 of a time with its zone. Raises `InvalidArgument`."""
    try:
        return (msgspec.convert(text, Moment) - _EPOCH) // timedelta(microseconds=1)
    except msgspec.ValidationError as error:
        raise InvalidArgument(
            f"{where}={text}: expected a time with its zone, such as 2026-01-31T12:00:00Z: {error}"
        ) from None


def text_of(time_us: int) -> str:
    """A time as EPCIS writes it, in UTC. Raises OverflowError beyond the year 9999."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
