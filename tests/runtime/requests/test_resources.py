"""Thread-held resources, with what they are for: sqlite3 connections, which serve the thread that opened them and no other."""

from __future__ import annotations

import doctest
import gc
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.requests import resource as resource_module
from appbackplane.runtime.requests.executing import thread_resources as thread_resources_module
from appbackplane.runtime.requests.executing.thread_handles import ASK_EVERY, ThreadHandles
from appbackplane.runtime.requests.executing.thread_resources import ThreadResources
from appbackplane.runtime.requests.resource import Resource, ResourceNotOpened, UnknownResource
from appbackplane.transport.errors import InvalidArgument
from tests.steps import steps_of
from tests.waiting import LIMIT_S

T = TypeVar("T")


class Library(sqlite3.Connection):
    """A connection that knows which file it has open, and by which thread it was closed."""

    def __init__(self, path: Path) -> None:
        self.path, self.inode = path, os.stat(path).st_ino
        self.closed_by: int | None = None
        super().__init__(path)

    def is_stale(self) -> bool:
        return os.stat(self.path).st_ino != self.inode

    def close(self) -> None:
        super().close()
        self.closed_by = threading.get_ident()

    def title(self) -> str:
        return str(self.execute("select title from book").fetchone()[0])


def library(**more: Any) -> Resource[Library]:
    return Resource(open=Library, close=Library.close, is_stale=Library.is_stale, **more)


def write(path: Path, title: str) -> Path:
    """A new file in the place of what was there."""
    fresh = path.with_suffix(".new")
    connection = sqlite3.connect(fresh)
    with connection:
        connection.execute("create table book (title)")
        connection.execute("insert into book values (?)", [title])
    connection.close()
    return fresh.rename(path)


class Worker:
    """A thread that does what it is told, one thing after another, and what it holds."""

    def __init__(self, resources: ThreadResources, name: str) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.resources = resources
        self.thread = self(threading.get_ident)

    def __call__(self, act: Callable[..., T], *arguments: Any) -> T:
        return self.pool.submit(act, *arguments).result(LIMIT_S)

    def get(self, *item: Any) -> Any:
        return self(self.resources.__getitem__, item if len(item) > 1 else item[0])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return write(tmp_path / "book.db", "Emma")


@pytest.fixture
def work() -> Iterator[Callable[[ThreadResources, str], Worker]]:
    """Starts threads; they end with the test."""
    workers: list[Worker] = []

    def start(resources: ThreadResources, name: str) -> Worker:
        workers.append(Worker(resources, name))
        return workers[-1]

    yield start
    for worker in workers:
        worker.pool.shutdown()


Start = Callable[[ThreadResources, str], Worker]


def held_of(resources: dict[str, Resource[Any]]) -> ThreadHandles:
    """What the test's own thread holds of these."""
    return ThreadHandles("one", resources, lambda *_: None)


def open_files(folder: Path) -> list[str]:
    """Descriptors of this process that lead there."""
    gc.collect()
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.exists(link) and str(folder) in os.readlink(link)]


# -- each thread its own ----------------------------------------------------------------------------------------------


def test_each_thread_has_its_own(book: Path, work: Start) -> None:
    """One connection for two threads is what sqlite3 refuses, and what a native handle may not survive."""
    resources = ThreadResources({"book": library()})
    one, two = work(resources, "one"), work(resources, "two")
    first, second = one.get("book", book), two.get("book", book)
    assert first is not second
    assert one.get("book", book) is first
    assert [one(first.title), two(second.title)] == ["Emma", "Emma"]
    with pytest.raises(sqlite3.ProgrammingError, match="same thread"):
        two(first.title)


# -- stale ------------------------------------------------------------------------------------------------------------


def test_what_is_stale_is_opened_again_at_its_next_use(book: Path, work: Start) -> None:
    """The file was replaced: the old connection would show for ever what nobody else sees any more."""
    resources = ThreadResources({"book": library()})
    worker = work(resources, "one")
    old = worker.get("book", book)
    write(book, "Persuasion")
    assert worker(old.title) == "Emma"
    new = worker.get("book", book)
    assert worker(new.title) == "Persuasion"
    assert old.closed_by == worker.thread


def test_what_is_stale_and_not_used_any_more_is_let_go_of(tmp_path: Path, work: Start) -> None:
    """A worker that has turned to other requests would keep deleted files on the disk."""
    resources = ThreadResources({"book": library()})
    worker = work(resources, "one")
    paths = [write(tmp_path / f"{n}.db", "Emma") for n in range(3)]
    for path in paths:
        worker.get("book", path)
    write(paths[1], "Persuasion")
    for _ in range(len(paths) * ASK_EVERY):
        worker(worker.resources.request_ended)
    assert sorted(open_files(tmp_path)) == sorted(str(paths[n]) for n in (0, 2))


def test_who_cannot_say_whether_it_is_stale_is_taken_for_it(
    book: Path, work: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A question that raises is no reason to fail a request, nor to go on with a handle of which nothing is known."""
    resources = ThreadResources({"book": library()})
    worker = work(resources, "one")
    worker.get("book", book)
    book.unlink()
    with pytest.raises(ResourceNotOpened, match="No such file"):
        worker.get("book", book)
    write(book, "Persuasion")
    assert worker(worker.get("book", book).title) == "Persuasion"
    assert "raised in its is_stale, and is treated as stale" in caplog.text


# -- failures ---------------------------------------------------------------------------------------------------------


def test_an_error_of_open_names_the_resource_and_is_not_kept(tmp_path: Path, work: Start) -> None:
    """The request fails with it; the next one tries again."""
    path = tmp_path / "missing.db"
    resources = ThreadResources({"book": library()})
    worker = work(resources, "w-7")
    with pytest.raises(ResourceNotOpened) as failed:
        worker.get("book", path)
    said = str(failed.value)
    assert said.startswith("resource 'book' of ") and "missing.db" in said and "for thread w-7_0-" in said
    assert isinstance(failed.value.__cause__, FileNotFoundError)
    write(path, "Emma")
    assert worker(worker.get("book", path).title) == "Emma"


def test_a_stop_while_it_is_opened_leaves_nothing_behind() -> None:
    """What is no Exception (the worker is being stopped) passes through as it is."""

    def stop() -> None:
        raise KeyboardInterrupt

    held = held_of({"part": Resource(open=stop)})
    for _ in range(2):  # the second time it is not taken for one that asks for itself
        with pytest.raises(KeyboardInterrupt):
            held["part"]


def test_an_open_that_asks_for_itself_is_refused() -> None:
    held = held_of({"part": Resource(open=lambda: held["part"])})
    with pytest.raises(ResourceNotOpened, match="its own open asks for it"):
        held["part"]


def test_an_open_that_asks_for_others_stays_within_the_bound() -> None:
    """A chain of three under a bound of two is refused where it would exceed it, in a sentence."""

    def open_chain(number: int) -> int:
        return held["part", number - 1] + 1 if number else 0

    held = held_of({"part": Resource(open=open_chain, held_max=2)})
    assert held["part", 1] == 1
    with pytest.raises(ResourceNotOpened, match=r"2 are being opened \(held_max=2\)"):
        held["part", 3]
    assert held["part", 1] == 1


def test_a_handle_that_cannot_be_closed_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """It is said, counted, and no reason to fail the request that has just ended well."""
    now_ns = 0

    def fail(handle: object) -> None:
        raise OSError("disk is gone")

    resources = ThreadResources(
        {"part": Resource(open=object, close=fail, is_stale=lambda _: True)}, now_ns=lambda: now_ns
    )
    found = [resources["part"] for _ in range(4)]
    assert len(set(map(id, found))) == 4
    said = f"resource 'part' of thread {threading.current_thread().name}-{threading.get_native_id()} could not be closed, and "
    assert [each.message for each in caplog.records] == [f"{said}is forgotten"]
    assert caplog.records[0].levelno == logging.ERROR and "disk is gone" in caplog.text
    now_ns = 10_000_000_000
    assert resources["part"] not in found
    assert caplog.records[-1].message == f"{said}is forgotten (2 more since the last report)"


def test_a_close_that_makes_another_give_way_closes_nothing_twice() -> None:
    """`close` of one asks for more, and what had to make room was the next to be closed."""
    closed: list[str] = []

    def close(key: str) -> None:
        closed.append(key)
        if key == "b":
            assert [held["part", "c"], held["part", "d"]] == ["c", "d"]

    held = held_of({"part": Resource(open=lambda key: key, close=close, held_max=2)})
    assert [held["part", "a"], held["part", "b"]] == ["a", "b"]
    held.close()
    assert closed == ["b", "a"]


# -- bounds and ends --------------------------------------------------------------------------------------------------


def test_at_the_bound_the_least_recently_used_makes_room(tmp_path: Path, work: Start) -> None:
    """A request over ten thousand files would run out of descriptors, or close what it uses all the time."""
    resources = ThreadResources({"book": library(held_max=3), "other": library()})
    worker = work(resources, "one")
    paths = [write(tmp_path / f"{n}.db", "Emma") for n in range(5)]
    other = worker.get("other", paths[0])
    copies = [worker.get("book", path) for path in paths[:3]]
    assert worker.get("book", paths[0]) is copies[0]
    worker.get("book", paths[3])
    assert [copy.closed_by is None for copy in copies] == [True, False, True]
    worker.get("book", paths[4])
    assert [copy.closed_by is None for copy in copies] == [True, False, False]
    assert other.closed_by is None


def test_a_thread_that_ends_closes_all_the_latest_first(work: Start) -> None:
    """What was opened later may stand on what was opened before."""
    closed: list[tuple[str, int]] = []
    names = ("disk", "index", "cursor")

    def close(name: str) -> None:
        closed.append((name, threading.get_ident()))

    worker = work(ThreadResources({name: Resource(open=lambda n=name: n, close=close) for name in names}), "one")
    for name in names:
        worker.get(name)
    worker.pool.shutdown()
    assert closed == [(name, worker.thread) for name in reversed(names)]


def test_the_end_of_a_request_costs_next_to_nothing(book: Path) -> None:
    """Every request pays it, also without a resource: 0.2 us, of 16 us for an empty one. One end in 32 asks a handle."""
    held = held_of({"book": Resource(open=Library, close=Library.close)})
    held["book", book]
    steps = [steps_of(held.request_ended) for _ in range(32)]
    held.close()
    assert sorted(steps)[-2] <= 5


# -- bad input --------------------------------------------------------------------------------------------------------


async def asynchronous() -> None: ...


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        (lambda: Resource(open="db"), "open='db': expected a function"),  # type: ignore[arg-type]
        (lambda: Resource(open=object, close=3), "close=3: expected a function"),  # type: ignore[arg-type]
        (lambda: Resource(open=asynchronous), "open is async"),
        (lambda: Resource(open=lambda a, b: a), "open needs more than a key"),
        (lambda: Resource(open=object, close=lambda: None), "close cannot be called with a handle"),  # type: ignore[arg-type,misc]
        (lambda: Resource(open=object, is_stale=lambda a, b: True), "is_stale cannot be called with a handle"),  # type: ignore[arg-type,misc]
        (lambda: Resource(open=object, held_max=0), "held_max=0: expected a number of handles, 1 or more"),
        (lambda: Resource(open=object, held_max=True), "held_max=True: expected a number"),
        (lambda: ThreadResources({"db": sqlite3.connect}), "'db' is <.*>: expected Resource"),  # type: ignore[dict-item]
        (lambda: ThreadResources({"": Resource(open=object)}), "'': expected a non-empty string as name"),
        (lambda: ThreadResources([Resource(open=object)]), "expected a mapping"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(declare: Callable[[], object], sentence: str) -> None:
    """And not by the first request that asks for it, at night."""
    with pytest.raises(DeclarationError, match=sentence):
        declare()


@pytest.mark.parametrize(
    ("ask", "error", "sentence"),
    [
        (lambda held: held["bok"], UnknownResource, "no resource 'bok' \\(did you mean 'book'"),
        (lambda held: held["zzz", 1], UnknownResource, "no resource 'zzz' \\(declared: book, clock\\)"),
        (lambda held: held["book"], InvalidArgument, "'book' is opened by a key: ask for resources\\['book', key\\]"),
        (lambda held: held["clock", 1], InvalidArgument, "'clock' has no key, because its open takes none"),
        (lambda held: held["book", ["a"]], InvalidArgument, "'book': a key must be hashable"),
        (lambda held: held["book", 1, 2], InvalidArgument, "expected resources\\[\"name\"\\] or"),
        (lambda held: held[3], InvalidArgument, "expected resources\\[\"name\"\\] or"),
        (lambda held: held[()], InvalidArgument, "expected resources\\[\"name\"\\] or"),
        (lambda held: held[("book",)], InvalidArgument, "expected resources\\[\"name\"\\] or"),
    ],
)  # fmt: skip
def test_what_is_asked_for_wrongly(
    ask: Callable[[ThreadResources], Any], error: type[Exception], sentence: str
) -> None:
    resources = ThreadResources({"book": library(), "clock": Resource(open=lambda: 0)})
    with pytest.raises(error, match=sentence):
        ask(resources)


@pytest.mark.parametrize("module", [resource_module, thread_resources_module])
def test_the_examples_run(module: Any) -> None:
    """An example that does not run teaches the wrong thing."""
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
