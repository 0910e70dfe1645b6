"""The export of spans: whatever its exporter does, the thread goes on, and what is lost is counted and told."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from appbackplane.runtime import Action, AppObject, Outcome
from appbackplane.runtime.execution.actions.recorders import Recorders
from appbackplane.runtime.execution.records import otlp_spans, span_export
from appbackplane.runtime.execution.records.span_export import SpanExport
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.process_config import ProcessConfig, TracePolicy
from tests.waiting import LIMIT_S, wait_until

CONFIG = ProcessConfig(
    system="demo",
    backplane="main",
    run_dir="/",
    components=("demo:Main",),
    trace=TracePolicy(otlp="http://localhost:1"),
)


class Doing(Action):
    """Something that is done."""

    def run(self) -> Outcome:
        return Outcome.DONE


class Sender:
    """In the place of the exporter: fails as often as it is told to."""

    failures: list[Exception] = []

    def __init__(self, *_: object) -> None:
        """Nothing is opened."""

    def send(self, ended: list[Any], unix_offset_ns: int) -> int:
        if Sender.failures:
            raise Sender.failures.pop()
        return len(ended)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpanExport]:
    """One that does not wait."""
    monkeypatch.setattr(otlp_spans, "OtlpSpans", Sender)
    monkeypatch.setattr(span_export, "EXPORT_EVERY_S", 0.001)
    monkeypatch.setattr(span_export, "AGAIN_S", 0.001)
    engine: Any = SimpleNamespace(recorders=Recorders(), clock=RealClock())
    export = SpanExport(CONFIG, engine)
    yield export
    export.close()


def end(export: SpanExport) -> None:
    """An action ends."""
    export.buffer.record(Doing(AppObject(), "some.thing", 3), 900)


def test_an_exporter_that_raises_is_asked_again(export: SpanExport) -> None:
    """Some versions of OpenTelemetry log what others raise: a refused connection would end the export for good."""
    Sender.failures = [ConnectionError("refused")]
    end(export)
    export.start()
    wait_until(lambda: export.figures()["problem"], "it has not failed")
    assert export.figures() == {"exported": 0, "lost": 2, "problem": "ConnectionError: refused"}
    end(export)
    wait_until(lambda: export.figures()["exported"], "it has not gone on")
    assert export.figures() == {"exported": 1, "lost": 2, "problem": None}


def test_the_last_spans_are_sent_at_the_end(export: SpanExport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its last second: what an operator looks at first is how it ended."""
    monkeypatch.setattr(span_export, "EXPORT_EVERY_S", LIMIT_S)
    monkeypatch.setattr(span_export, "LAST_S", LIMIT_S)
    export.start()
    for _ in range(3):
        end(export)
    export.close()
    assert export.figures() == {"exported": 3, "lost": 0, "problem": None}


def test_without_its_thread_all_is_lost_and_told(export: SpanExport, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is broken: an operator must not be told that all is well."""
    monkeypatch.setattr(otlp_spans, "OtlpSpans", lambda *_: 1 / 0)
    export.start()
    wait_until(lambda: export.figures()["problem"], "it has not ended")
    end(export)
    wait_until(lambda: export.figures()["lost"] == 2, "what is left is not counted")
    assert "the export has ended: ZeroDivisionError" in export.figures()["problem"]
