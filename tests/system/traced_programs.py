"""Programs that use an OpenTelemetry SDK: `traced_programs.py NAME RUN_DIR` prints the spans that it has exported, as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import threading
from contextlib import suppress

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from appbackplane.transport import BackplaneError, Client, connect, connect_async

#: As long as LIMIT_S of tests/waiting.py, which these programs cannot import.
LIMIT_S = 120.0
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("program")


def spans(run_dir: str) -> None:
    """One call of each kind, each in a span of its own."""
    with connect(run_dir, timeout=LIMIT_S) as client:
        with tracer.start_as_current_span("by call"):
            client.call("top.all", number=1)
        with tracer.start_as_current_span("by submit"):
            submitted = client.submit("top.all", number=2)
        submitted.result()
        with tracer.start_as_current_span("by stream"):
            items = client.stream("top.upto", count=3)
        assert list(items) == [0, 1, 2]
        with tracer.start_as_current_span("by cast"):
            client.cast("leaf.double", number=3)
    asyncio.run(spans_async(run_dir))


async def spans_async(run_dir: str) -> None:
    """The same on asyncio."""
    async with await connect_async(run_dir, timeout=LIMIT_S) as client:
        with tracer.start_as_current_span("by async call"):
            await client.call("top.all", number=1)
        with tracer.start_as_current_span("by async submit"):
            submitted = client.submit("top.all", number=2)
        await submitted
        with tracer.start_as_current_span("by async stream"):
            assert [item async for item in client.stream("top.upto", count=3)] == [0, 1, 2]


def sampled(run_dir: str) -> None:
    """One call, sampled here."""
    with connect(run_dir, timeout=LIMIT_S) as client:
        client.call("top.all", number=1)


def failing(run_dir: str) -> None:
    """An operation that raises, and one that is not there."""
    with connect(run_dir, timeout=LIMIT_S) as client:
        with suppress(BackplaneError):
            client.call("leaf.double", number=13)
        with suppress(BackplaneError):
            client.call("leaf.none")
        with suppress(BackplaneError):
            client.submit("leaf.double", number=13).result()
        with suppress(BackplaneError):
            client.submit("leaf.none")
        with suppress(BackplaneError):
            client.cast("leaf.none")
    asyncio.run(failing_async(run_dir))


async def failing_async(run_dir: str) -> None:
    """The same on asyncio, of a cast and of a submitted call."""
    async with await connect_async(run_dir, timeout=LIMIT_S) as client:
        with suppress(BackplaneError):
            await client.cast("leaf.none")
        with suppress(BackplaneError):
            await client.submit("leaf.double", number=13)


class Entangling(SpanProcessor):
    """Logs each end of a span."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take the lock of the handler."""
        logging.getLogger("program").warning("ended")


class Publishing(logging.Handler):
    """Calls by the client for each line, with its lock held, as `logging` does."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._own = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Not for the lines of its own calls."""
        if not getattr(self._own, "is_busy", False):
            self._own.is_busy = True
            self._client.publish("lines.next", text=record.getMessage())
            self._own.is_busy = False


def entangled(run_dir: str) -> None:
    """One thread calls, another one logs."""
    provider.add_span_processor(Entangling())
    with connect(run_dir, timeout=LIMIT_S) as client:
        logger = logging.getLogger("program")
        logger.addHandler(Publishing(client))
        logger.propagate = False
        is_over = threading.Event()

        def log() -> None:
            while not is_over.is_set():
                logger.warning("line")

        thread = threading.Thread(target=log)
        thread.start()
        for _ in range(20):
            for pending in [client.submit("leaf.double", number=1) for _ in range(100)]:
                pending.result()
        is_over.set()
        thread.join()
        logger.handlers.clear()
    exporter.clear()


def untaken(run_dir: str) -> None:
    """A submitted call fails, and nobody asks for its error."""
    told: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        async with await connect_async(run_dir, timeout=LIMIT_S) as client:
            pending = client.submit("leaf.double", number=13)
            await asyncio.wait((pending,))
            del pending
            gc.collect()

    asyncio.run(main())
    assert told == ["AsyncPendingCall exception was never retrieved"], told
    exporter.clear()


def main() -> None:
    """Run the program, and print its spans."""
    programs = {"spans": spans, "sampled": sampled, "failing": failing, "entangled": entangled, "untaken": untaken}
    programs[sys.argv[1]](sys.argv[2])
    exported = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in exported if span.context is not None}
    told = []
    for span in exported:
        assert span.context is not None
        parent = 0 if span.parent is None else span.parent.span_id
        told.append({
            "name": span.name,
            "trace": f"{span.context.trace_id:032x}",
            "id": f"{span.context.span_id:016x}",
            "parent": f"{parent:016x}",
            "how": names.get(parent, "").removeprefix("by "),
            "status": dict(span.attributes or {}).get("rpc.response.status_code", ""),
            "is_error": span.status.status_code is trace.StatusCode.ERROR,
        })  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    main()
