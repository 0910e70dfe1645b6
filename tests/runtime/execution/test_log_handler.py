"""The standard library's logging in components: as everywhere, and with the action in which something was said."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from appbackplane.runtime import Component, operation
from appbackplane.runtime.execution.actions.method_action import MethodAction
from appbackplane.runtime.execution.logs.async_log import AsyncLog
from appbackplane.runtime.execution.logs.log_handler import LogHandler, of_action
from appbackplane.runtime.execution.logs.log_ring import RING_BYTES_MIN, RingReader, RingWriter
from appbackplane.runtime.observation.log_line import LogLine, decode
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CAST, Envelope

log = logging.getLogger("shop.orders")


class Log:
    """What has arrived."""

    def __init__(self, ring: RingReader) -> None:
        self.ring = ring

    def lines(self) -> list[LogLine]:
        """Since the last time."""
        found = [decode(raw) for raw in self.ring.read(1 << 30)]
        assert None not in found
        return [line for line in found if line is not None]

    def line(self) -> LogLine:
        """The only one."""
        (line,) = self.lines()
        return line


@pytest.fixture
def heard() -> Iterator[Log]:
    """On the root logger, in the place of pytest's own."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    reader = RingReader(RING_BYTES_MIN)
    writer = RingWriter(os.dup(reader.fd), os.dup(reader.wake_fd))
    LogHandler.install(writer, "query", 3, logging.INFO)
    yield Log(reader)
    root.handlers[:] = before
    root.setLevel(level)
    writer.unmap()
    reader.close()


def test_a_record_becomes_a_line(heard: Log) -> None:
    """Level, logger, words, place, and who said it."""
    log.warning("order %d of %s", 7, "ann")
    line = heard.line()
    assert (line.level, line.logger, line.message) == ("WARNING", "shop.orders", "order 7 of ann")
    assert (line.backplane, line.generation, line.thread) == ("query", 3, "MainThread")
    assert line.where.startswith("test_log_handler.py:")
    assert (line.component, line.object, line.route, line.error) == ("", "", "", "")


def test_levels_hold_as_everywhere(heard: Log) -> None:
    """Of the root logger, and of one below it."""
    quiet = logging.getLogger("shop.quiet")
    quiet.setLevel(logging.ERROR)
    log.debug("no")
    quiet.warning("no")
    log.info("yes")
    assert heard.line().message == "yes"


def test_exceptions_stacks_and_fields_are_kept(heard: Log) -> None:
    """`exc_info`, `stack_info` and `extra`."""
    try:
        raise ValueError("no such order")
    except ValueError:
        log.exception("cannot", stack_info=True, extra={"order": 7, "tags": ["a"], "who": object})
    line = heard.line()
    assert line.error.endswith("ValueError: no such order")
    assert line.error.startswith("Traceback (most recent call last):")
    assert line.stack.startswith("Stack (most recent call last):")
    assert (line.extra["order"], line.extra["tags"]) == (7, ["a"])
    assert set(line.extra) == {"order", "tags", "who"}


def test_it_is_put_into_words_at_once(heard: Log) -> None:
    """What is logged may be something else a moment later."""
    entries = [1]
    log.info("%s", entries, extra={"entries": entries})
    entries.append(2)
    line = heard.line()
    assert (line.message, line.extra) == ("[1]", {"entries": [1]})


@pytest.mark.parametrize("arguments", [("%d", "x"), ("%s %s", 1), (object(), 1)])
def test_words_that_do_not_fit_are_no_error(heard: Log, arguments: tuple[Any, ...]) -> None:
    """A mistake in a log line must neither end the operation nor vanish."""
    root = logging.getLogger()
    root.handlers[:] = [each for each in root.handlers if isinstance(each, LogHandler)]  # pytest's own would raise
    log.info(*arguments)
    assert "cannot be put together" in heard.line().message


def test_filters_of_the_handler_are_asked(heard: Log) -> None:
    """Users hang theirs there, to take out what is secret."""
    handler = logging.getLogger().handlers[0]

    def hide(record: logging.LogRecord) -> bool:
        record.msg = record.msg.replace("1234", "****")
        return "never" not in record.msg

    handler.addFilter(hide)
    log.info("card 1234")
    log.info("never")
    assert heard.line().message == "card ****"


class Shop(Component):
    """Says something, and fails."""

    @operation()
    def sell(self, item: str) -> str:
        """One item."""
        log.info("sold %s", item)
        raise ValueError("sold out")

    @operation()
    async def send(self, item: str) -> None:
        """In two steps."""
        log.info("sending %s", item)


def test_what_is_said_in_an_action_bears_its_names(heard: Log) -> None:
    """Whoever looks for what an object did finds it, whichever module said it; and of a failure all that is known."""
    backplane = VirtualBackplane(Shop(), name="query")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    backplane.hear(Envelope(CAST, 0, None, "shop.sell", None, None, trace, {"item": "hat"}))
    backplane.run_until_idle()
    said = heard.lines()
    assert [line.message for line in said] == ["sold hat", "shop.sell on query/shop failed: sold out"]
    assert said[0].trace == trace
    for line in said:
        assert (line.component, line.object, line.route) == ("shop", "query/shop", "shop.sell")
    assert said[1].error.endswith("ValueError: sold out")


def test_what_is_said_about_an_action_bears_its_names(heard: Log) -> None:
    """`logs --component shop` shows what others tell of it."""
    shop = Shop()
    assert VirtualBackplane(shop).run_until_idle() == []
    action = MethodAction(shop, "shop.sell", 1, lambda _: None, ())
    action.trace = "00-abc-def-01"
    log.error("it failed", extra=of_action(action))
    line = heard.line()
    assert (line.component, line.object, line.route) == ("shop", shop.name, "shop.sell")
    assert (line.trace, line.thread, line.extra) == ("00-abc-def-01", "", {})


def test_ours_come_by_way_of_their_thread_and_are_counted_where_they_do_not(heard: Log) -> None:
    """The runtime logs while it holds the lead; what its queue has no room for is in the same account."""
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, LogHandler)
    ours = AsyncLog.install("appbackplane.test", handler.count_lost)
    try:
        logging.getLogger("appbackplane.test.more").warning("from within")
        ours.flush()
        assert heard.line().message == "from within"
        ours._left_out_count = 5
        logging.getLogger("appbackplane.test.more").warning("again")
        ours.flush()
        assert [line.message for line in heard.lines()] == ["again"]
        ours.flush()
        assert heard.ring.lost_count == 5
    finally:
        logging.getLogger("appbackplane.test").removeHandler(ours)
        logging.getLogger("appbackplane.test").propagate = True


@pytest.mark.systems
def test_a_forked_child_does_not_write_into_its_parents_ring(heard: Log) -> None:
    """Two processes would write at the same place; what the child says is on standard error."""
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        sys.stderr = os.fdopen(write_fd, "w")
        log.error("from the child")
        sys.stderr.flush()
        os._exit(0)
    os.close(write_fd)
    os.waitpid(child, 0)
    assert os.read(read_fd, 4096) == b"ERROR shop.orders: from the child\n"
    os.close(read_fd)
    assert heard.lines() == []
