"""Trace settings: [trace] of the TOML, the export of spans to an OpenTelemetry collector. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from appbackplane.runtime.process_config import TracePolicy

from .reader import Reader, shown


class TraceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[trace]: the export of spans by every backplane."""

    #: Address of a collector that takes OTLP over HTTP; without a path it gets OTLP's own, /v1/traces.
    otlp: str
    #: Share of the traces that begin in this system and are exported. A call with a trace follows its caller's decision.
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


def read(reader: Reader, table: Mapping[str, Any]) -> TraceSettings | None:
    """[trace] of the whole TOML; None: there is none. Problems are noted in `reader`."""
    if "trace" not in table:
        return None
    values = reader.table(TraceSettings, table["trace"], ("trace",))
    if "otlp" not in values:
        return None
    if problem := _problem_of(values["otlp"]):
        reader.say(("trace", "otlp"), problem)
    return TraceSettings(**values)


def policy(settings: TraceSettings | None) -> TracePolicy | None:
    """The same, in the form that a process's configuration carries."""
    return None if settings is None else TracePolicy(otlp=settings.otlp, sample=settings.sample)


def _problem_of(address: str) -> str | None:
    expected = f'expected the address of a collector, such as "http://localhost:4318", got {shown(address)}'
    try:
        parts = urlsplit(address)
        is_plain = address.isprintable() and not parts.query and not parts.fragment
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or not is_plain:
            return expected
    except ValueError:  # a port that is none, half an IPv6 address
        return expected
    if "@" in parts.netloc:
        return "a password here would be shown in logs: give it by OTEL_EXPORTER_OTLP_HEADERS in the environment"
    return None
