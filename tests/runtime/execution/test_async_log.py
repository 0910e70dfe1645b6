"""Async log: whoever reads the log has no say over how fast the backplane works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.runtime import Component, operation
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.logs import async_log
from appbackplane.runtime.execution.logs.async_log import LOGGER, RECORDS_MAX, AsyncLog, last_words
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport import codec
from appbackplane.transport.envelope import CALL, Envelope
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S


class Pipe(logging.Handler):
    """A handler whose reader may stop, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.lines: list[str] = []
        self.threads: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.entered.set()
        assert self.open.wait(LIMIT_S), "the test never opened the pipe"
        if record.getMessage() == "fails":
            raise OSError("the disk is full")
        self.lines.append(record.getMessage())
        self.threads.add(threading.current_thread().name)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """On the root logger, with an async log before it."""
    pipe, ours = Pipe(), logging.getLogger(LOGGER)
    logging.getLogger().addHandler(pipe)
    handler = AsyncLog.install()
    yield pipe
    pipe.open.set()
    handler.flush()
    ours.removeHandler(handler)
    ours.propagate = True
    logging.getLogger().removeHandler(pipe)


log = logging.getLogger(f"{LOGGER}.runtime")


def test_lines_are_written_in_order_by_a_thread_of_their_own(pipe: Pipe) -> None:
    """What is logged is said, before the process ends too."""
    for number in range(100):
        log.warning("line %d", number)
    assert last_words()
    assert pipe.lines == [f"line {number}" for number in range(100)]
    assert pipe.threads == {"log"}


def test_a_reader_that_stops_holds_nobody_up(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is bounded, what does not fit is counted and said, and the end does not wait for ever."""
    monkeypatch.setattr(async_log, "FLUSH_TIMEOUT_S", 0.05)
    pipe.open.clear()
    log.warning("first")
    assert pipe.entered.wait(LIMIT_S)
    for number in range(RECORDS_MAX + 10):
        log.warning("line %d", number)
    assert not last_words()
    monkeypatch.setattr(async_log, "FLUSH_TIMEOUT_S", LIMIT_S)
    pipe.open.set()
    assert last_words()
    assert len(pipe.lines) == 1 + RECORDS_MAX + 1
    assert pipe.lines[1] == "10 lines were left out: they came faster than they were read"


def test_a_handler_that_fails_ends_nothing(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    """It would have failed in the middle of a worker's turn."""
    log.warning("fails")
    log.warning("goes on")
    assert last_words()
    assert pipe.lines == ["goes on"]
    assert "the disk is full" in capsys.readouterr().err


class Shop(Component):
    """Has something to complain about."""

    @operation()
    def fail(self) -> None:
        raise ValueError("out of stock")

    @operation()
    def fine(self) -> str:
        return "fine"


def test_a_backplane_whose_log_nobody_reads_serves_on(pipe: Pipe, tmp_path: Path) -> None:
    """The first failing operation stopped all workers: the one that logged held the lead until somebody read."""
    link, caller = Link("shop-1"), Link("caller")
    config = ProcessConfig(system="t", backplane="shop", run_dir=str(tmp_path), components=())
    backplane = Backplane(config, [Shop()], clock=RealClock(), link=link)
    link.bind(tmp_path / "s.sock")
    backplane.start(2)
    for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
        moved = threading.Event()
        with backplane.engine.lead:
            backplane.engine.lifecycle.move("shop", state, lambda error, moved=moved: moved.set())  # type: ignore[misc]
        assert moved.wait(LIMIT_S)
    pipe.open.clear()
    peer, encoder, moment = caller.connect(tmp_path / "s.sock"), codec.Encoder(), threading.Event()
    for id, route in enumerate(("shop.fail", "shop.fine", "shop.fail", "shop.fine"), 1):
        caller.send(peer, codec.batch([encoder.encode(Envelope(CALL, id, None, route, None, None, None, {}))]))
        end_ns = RealClock().now_ns() + int(LIMIT_S * 1e9)
        while (received := caller.receive()) is None:
            assert RealClock().now_ns() < end_ns, f"{route} was not answered"
            moment.wait(0.001)
        assert codec.decode(received[1])[0].id == id
    assert pipe.entered.wait(LIMIT_S) and not pipe.lines
    assert backplane.stop(LIMIT_S)
    caller.close()
