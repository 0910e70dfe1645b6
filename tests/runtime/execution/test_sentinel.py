"""Sentinel: how it waits, and when it sleeps."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import Component, operation
from appbackplane.runtime.execution.sentinel import sentinel as module
from appbackplane.runtime.execution.sentinel.sentinel import Sentinel, waiting
from appbackplane.runtime.testing import MemoryLink, VirtualBackplane
from appbackplane.transport.directory import Directory
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S

#: Above what select() knows.
FD_HIGH = 1_500


@pytest.fixture
def high_fd() -> Iterator[int]:
    """A descriptor such as a process has that opened a thousand files before us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= FD_HIGH:
        pytest.skip(f"no more than {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FD_HIGH + 100), hard))
    low = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, FD_HIGH)
    yield high
    os.close(low)
    os.close(high)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("pause_ns", [100_000, 1_000_000])
def test_it_waits_for_any_descriptor(high_fd: int, pause_ns: int) -> None:
    """select() raises for numbers above 1023, and that would have been the end of the process."""
    low_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        for fds in ([low_fd], [low_fd, high_fd]):
            wait = waiting(fds)
            assert wait(pause_ns) == []
            os.eventfd_write(fds[-1], 1)
            assert wait(pause_ns) == [fds[-1]]
            os.eventfd_read(fds[-1])
    finally:
        os.close(low_fd)


class Reader(Component):
    @operation()
    async def ask(self) -> Any:
        return await self.call("oracle.answer")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[tuple[VirtualBackplane, Sentinel]]:
    """It has called somebody outside."""
    backplane = VirtualBackplane(Reader(), outside=("oracle.answer",))
    backplane.call("reader.ask")
    backplane.run_until_idle()
    told = backplane.backplane
    sentinel = Sentinel(
        told.engine, Link("control"), tmp_path, lifeline_fd=None, slot=None,
        statistics=told.statistics, why=told.why, configure=told.configure,
    )  # fmt: skip
    yield backplane, sentinel
    sentinel.close()


def test_workers_go_on_while_the_last_answers_of_one_that_has_ended_are_read(
    reader: tuple[VirtualBackplane, Sentinel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead was held for all the looks, up to 0.1 s, and with it every worker."""
    backplane, sentinel = reader
    engine = backplane.backplane.engine
    order: list[str] = []
    had_lead = threading.Event()

    def work() -> None:
        with engine.lead:
            order.append("worker")
        had_lead.set()

    worker = threading.Thread(target=work)

    def has_input(link: MemoryLink) -> bool:
        order.append("look")
        if worker.ident is None:
            worker.start()
        return len(order) < 4

    monkeypatch.setattr(MemoryLink, "has_input", has_input)
    monkeypatch.setattr(module.select, "select", lambda *_: had_lead.wait(LIMIT_S))
    engine.directory_hearers.append(lambda: order.append("directory"))
    answers: list[Any] = []
    ended = Directory("test", engine.routing.directory.version + 1)
    sentinel._directory({"directory": ended.to_body()}, lambda result, error: answers.append((result, error)))
    worker.join(LIMIT_S)
    assert order == ["look", "worker", "look", "look", "directory"]
    assert answers == [({}, None)]
