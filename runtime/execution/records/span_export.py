"""Span export: the thread that sends the spans of ended actions to an OpenTelemetry collector.

Actions never wait for it: they put their spans into a bounded buffer (observation/span_buffer.py), and what finds no room there
is lost and counted. The thread takes at most `CPU_SHARE_MAX` of a core, because it shares the interpreter with the workers.
While the collector does not answer, only this thread waits.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import text_of

from ...observation.span_buffer import SpanBuffer
from ...process_config import ProcessConfig
from ..loop.engine import Engine

if TYPE_CHECKING:
    from .otlp_spans import OtlpSpans

#: Seconds between two exports; a buffer that is half full is exported at once.
EXPORT_EVERY_S: Final = 1.0
#: Spans are turned into bytes in batches of so many actions. It takes some 10 ms, in which threads change a hundred times.
BATCH: Final = 128
#: Share of a core that the thread may take, on average. An action costs it some 60 us: above 3,000 a second of one backplane,
#: spans are lost, unless fewer are sampled.
CPU_SHARE_MAX: Final = 0.2
#: Seconds until the attempt after one that has failed: it costs 20 ms of CPU, and a collector is back some seconds later.
AGAIN_S: Final = 3.0
#: Seconds that one batch may take at a collector that does not answer, repeated attempts included. One that answers byte by
#: byte can make it longer; nobody but this thread waits.
TIMEOUT_S: Final = 10.0
#: Seconds that the last spans may take when the backplane stops.
LAST_S: Final = 0.5
#: The exporter's own lines; from this thread they become one line of ours.
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_WORDS_MAX: Final = 300

log = logging.getLogger("appbackplane.runtime")


class SpanExport:
    """The buffer of one backplane's spans, and the thread that exports them."""

    def __init__(self, config: ProcessConfig, engine: Engine) -> None:
        """To be made before the recording: the ids of both are sampled as `config` says."""
        assert config.trace is not None, "made where spans are exported"
        self._config, self._otlp = config, config.trace.otlp
        self._clock = engine.clock
        self._is_due = threading.Event()
        self._is_closed = threading.Event()
        self._has_ended = threading.Event()
        ids = engine.recorders.ids_of_spans(config.trace.sample)
        self.buffer = engine.recorders.spans = SpanBuffer(ids, self._is_due.set)
        self._sender: OtlpSpans | None = None
        self._exported_count = self._lost_count = 0
        self._problem: str | None = None
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Send the last spans, within `LAST_S`; what is left is lost. Call it when no action runs any more."""
        self._is_closed.set()
        self._is_due.set()
        if self._thread.is_alive() and not self._has_ended.wait(LAST_S) and self._sender is not None:
            self._sender.close()

    def figures(self) -> dict[str, Any]:
        """For `status --stats`: how many spans were exported and lost, and the problem if there is one."""
        lost = self._lost_count + self.buffer.lost_count
        if self._has_ended.is_set():  # what is left will not be exported
            lost += self.buffer.spans_count()
        return {"exported": self._exported_count, "lost": lost, "problem": self._problem}

    def _run(self) -> None:
        logging.getLogger(_EXPORTER).addFilter(self._hears)
        try:
            from .otlp_spans import OtlpSpans  # an extra

            self._sender = OtlpSpans(self._config, self._otlp, TIMEOUT_S)
            while not self._is_closed.is_set():
                self._is_due.wait(EXPORT_EVERY_S)
                self._is_due.clear()
                self._export()
            self._export()
        except Exception as error:  # the edge: without this thread all further spans are lost
            self._problem = f"the export has ended: {type(error).__name__}: {text_of(error, _WORDS_MAX)}"
            log.exception("traces: the export has ended; no more spans are exported by this process")
        finally:
            self._has_ended.set()

    def _export(self) -> None:
        """Send all spans that are there, but take no more of a core than this thread's share."""
        assert self._sender is not None
        while ended := self.buffer.take(BATCH):
            cpu_ns, since_ns = self._clock.cpu_ns(), self._clock.now_ns()
            self._said = ""
            try:
                count = self._sender.send(ended, self._clock.unix_offset_ns())
            except Exception as error:  # the edge: exporters of some versions raise what others log
                count, self._said = 0, f"{type(error).__name__}: {text_of(error, _WORDS_MAX)}"
            if not count:
                self._lost_count += sum(each.spans_count for each in ended)
                self._is_not_well()
                self._is_closed.wait(AGAIN_S)
                return
            self._exported_count += count
            self._is_well()
            took_ns, spent_ns = self._clock.now_ns() - since_ns, self._clock.cpu_ns() - cpu_ns
            self._is_closed.wait(max(0.0, spent_ns / CPU_SHARE_MAX - took_ns) / 1e9)

    def _is_well(self) -> None:
        if self._problem is not None:
            self._problem = None
            log.info("traces: %s takes spans again; %d were lost so far", self._otlp, self.figures()["lost"])

    def _is_not_well(self) -> None:
        problem = self._said or "it has refused them"
        if self._problem is None:
            log.warning(
                "traces: %s takes no spans: %s. They are lost, and counted in status --stats; check [trace] otlp",
                self._otlp, problem,
            )  # fmt: skip
        self._problem = problem

    def _hears(self, record: logging.LogRecord) -> bool:
        """Keep what the exporter logs in this thread, instead of passing it on: a dead collector would fill the log."""
        if threading.current_thread() is not self._thread:
            return True
        if not self._said:  # the first line names the cause, those after it that it was tried again
            self._said = record.getMessage()[:_WORDS_MAX]
        return False
