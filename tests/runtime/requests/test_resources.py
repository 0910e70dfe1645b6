"""Worker-held resources, with what they are for: sqlite3 connections, which serve the thread that opened them and no other."""

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
from appbackplane.runtime.requests import resources as resources_module
from appbackplane.runtime.requests.held import ASK_EVERY, Held
from appbackplane.runtime.requests.resource import NotTheWorker, Resource, ResourceNotOpened, UnknownResource
from appbackplane.runtime.requests.resources import ResourceTable
from appbackplane.transport.errors import InvalidArgument
from tests.steps import steps_of

T = TypeVar("T")
#: What a test waits for comes within milliseconds, or it has failed.
LIMIT_S = 20.0


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

    def __init__(self, table: ResourceTable, name: str) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.woken = threading.Semaphore(0)
        self.held = table.of(name, self.woken.release)
        self.thread = self(threading.get_ident)

    def __call__(self, act: Callable[..., T], *arguments: Any) -> T:
        return self.pool.submit(act, *arguments).result(LIMIT_S)

    def get(self, *item: Any) -> Any:
        return self(self.held.__getitem__, item if len(item) > 1 else item[0])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return write(tmp_path / "book.db", "Emma")


@pytest.fixture
def work() -> Iterator[Callable[[ResourceTable, str], Worker]]:
    """Starts workers; when the test has ended they end, and must have closed everything."""
    workers: list[Worker] = []

    def start(table: ResourceTable, name: str) -> Worker:
        workers.append(Worker(table, name))
        return workers[-1]

    yield start
    for worker in workers:
        worker(worker.held.close)
        worker.pool.shutdown()


Start = Callable[[ResourceTable, str], Worker]


def open_files(folder: Path) -> list[str]:
    """Descriptors of this process that lead there."""
    gc.collect()
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.exists(link) and str(folder) in os.readlink(link)]


# -- each worker its own ----------------------------------------------------------------------------------------------


def test_each_worker_has_its_own(book: Path, work: Start) -> None:
    """One connection for two threads is what sqlite3 refuses, and what a native handle may not survive."""
    table = ResourceTable({"book": library()})
    one, two = work(table, "one"), work(table, "two")
    first, second = one.get("book", book), two.get("book", book)
    assert first is not second
    assert one.get("book", book) is first
    assert [one(first.title), two(second.title)] == ["Emma", "Emma"]
    with pytest.raises(sqlite3.ProgrammingError, match="same thread"):
        two(first.title)
    assert table.figures()["book"].open == {"one": 1, "two": 1}


def test_another_thread_is_refused(book: Path, work: Start) -> None:
    """A runnable that hands its resources to a thread of its own would have two threads on one handle."""
    table = ResourceTable({"book": library()})
    one, two = work(table, "one"), work(table, "two")
    one.get("book", book)
    for act in (lambda: one.held["book", book], lambda: one.held["book", "other"], one.held.close):
        with pytest.raises(NotTheWorker, match="worker one holds is for its own thread"):
            two(act)
    assert one(one.get("book", book).title) == "Emma"


def test_the_same_worker_asks_for_the_same_part(book: Path) -> None:
    table = ResourceTable({"book": library()})
    assert table.of("one") is table.of("one") is not table.of("two")


# -- stale ------------------------------------------------------------------------------------------------------------


def test_what_is_stale_is_opened_again_at_its_next_use(book: Path, work: Start) -> None:
    """The file was replaced: the old connection would show for ever what nobody else sees any more."""
    table = ResourceTable({"book": library()})
    worker = work(table, "one")
    old = worker.get("book", book)
    write(book, "Persuasion")
    assert worker(old.title) == "Emma"
    new = worker.get("book", book)
    assert worker(new.title) == "Persuasion"
    assert old.closed_by == worker.thread
    figures = table.figures()["book"]
    assert (figures.opened, figures.reopened, figures.closed) == (2, 1, 1)


def test_what_is_stale_and_not_used_any_more_is_let_go_of(tmp_path: Path, work: Start) -> None:
    """A worker that has turned to other requests would keep deleted files on the disk."""
    table = ResourceTable({"book": library()})
    worker = work(table, "one")
    paths = [write(tmp_path / f"{n}.db", "Emma") for n in range(3)]
    for path in paths:
        worker.get("book", path)
    write(paths[1], "Persuasion")
    for _ in range(len(paths) * ASK_EVERY):
        worker(worker.held.request_ended)
    assert sorted(open_files(tmp_path)) == sorted(str(paths[n]) for n in (0, 2))


def test_who_cannot_say_whether_it_is_stale_is_taken_for_it(
    book: Path, work: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A question that raises is no reason to fail a request, nor to go on with a handle of which nothing is known."""
    table = ResourceTable({"book": library()})
    worker = work(table, "one")
    worker.get("book", book)
    book.unlink()
    with pytest.raises(ResourceNotOpened, match="No such file"):
        worker.get("book", book)
    write(book, "Persuasion")
    assert worker(worker.get("book", book).title) == "Persuasion"
    figures = table.figures()["book"]
    assert (figures.stale_failures, figures.open_failures, figures.closed) == (1, 1, 1)
    assert "cannot say whether it is stale" in caplog.text


# -- the original is closed -------------------------------------------------------------------------------------------


def test_a_closed_original_is_closed_in_every_worker_by_itself(book: Path, work: Start) -> None:
    """Closed by the thread that closes the original, sqlite3 refuses; not closed at all, the file stays open."""
    table = ResourceTable({"book": library()})
    workers = [work(table, name) for name in ("one", "two", "three")]
    copies = [worker.get("book", book) for worker in workers[:2]]
    assert table.close_original("book", book) == 2
    assert [copy.closed_by for copy in copies] == [None, None]
    assert table.figures()["book"].to_close == 2
    for worker, copy in zip(workers, copies, strict=False):
        worker(worker.held.request_ended)
        assert copy.closed_by == worker.thread
    figures = table.figures()["book"]
    assert (figures.open, figures.to_close, figures.closed) == ({}, 0, 2)
    assert not workers[2].woken.acquire(blocking=False)


def test_an_idle_worker_is_woken_to_close_its_copy(book: Path, work: Start) -> None:
    """It may be idle for hours; who closed the original wants to move the file now."""
    table = ResourceTable({"book": library()})
    worker = work(table, "one")
    copy = worker.get("book", book)

    def idle() -> None:
        assert worker.woken.acquire(timeout=LIMIT_S)
        worker.held.close_outdated()

    ended = worker.pool.submit(idle)
    table.close_original("book", book)
    ended.result(LIMIT_S)
    assert copy.closed_by == worker.thread
    assert open_files(book) == []


def test_a_worker_is_woken_once_until_it_has_looked(tmp_path: Path, work: Start) -> None:
    """Ten thousand originals closed are not ten thousand wake-ups; but none is missed."""
    table = ResourceTable({"book": library()})
    worker = work(table, "one")
    paths = [write(tmp_path / f"{n}.db", "Emma") for n in range(3)]
    for path in paths:
        worker.get("book", path)
    table.close_original("book", paths[0])
    table.close_original("book", paths[1])
    assert worker.woken.acquire(blocking=False)
    assert not worker.woken.acquire(blocking=False)
    worker(worker.held.close_outdated)
    table.close_original("book", paths[2])
    assert worker.woken.acquire(blocking=False)


def test_what_is_closed_while_a_worker_looks_wakes_it_again() -> None:
    """The look has passed that handle already: without another wake-up it would stay open."""
    woken: list[str] = []

    def close(key: str) -> None:
        if key == "second":
            assert table.close_original("part", "first") == 1

    table = ResourceTable({"part": Resource(open=lambda key: key, close=close)})
    held = table.of("one", lambda: woken.append("one"))
    assert [held["part", "first"], held["part", "second"]] == ["first", "second"]
    table.close_original("part", "second")
    held.close_outdated()
    assert woken == ["one", "one"]
    held.request_ended()
    assert table.figures()["part"].open == {}


def test_an_original_that_is_closed_while_it_is_opened(book: Path, work: Start) -> None:
    """The copy is not in the table yet when the workers are told, and must be closed all the same."""
    is_opening, may_go_on = threading.Event(), threading.Event()

    def open_slowly(path: Path) -> Library:
        connection = Library(path)
        is_opening.set()
        assert may_go_on.wait(LIMIT_S)
        return connection

    table = ResourceTable({"book": Resource(open=open_slowly, close=Library.close)})
    worker = work(table, "one")
    asked = worker.pool.submit(lambda: worker.held["book", book])
    assert is_opening.wait(LIMIT_S)
    assert table.close_original("book", book) == 1
    may_go_on.set()
    copy = asked.result(LIMIT_S)
    assert worker.woken.acquire(timeout=LIMIT_S)
    worker(worker.held.request_ended)
    assert copy.closed_by == worker.thread


def test_without_a_key_all_copies_of_the_name_are_closed(tmp_path: Path, work: Start) -> None:
    table = ResourceTable({"book": library(), "other": library()})
    worker = work(table, "one")
    paths = [write(tmp_path / f"{n}.db", "Emma") for n in range(3)]
    for path in paths:
        worker.get("book", path)
    kept = worker.get("other", paths[0])
    assert table.close_original("book") == 3
    worker(worker.held.request_ended)
    assert table.figures()["book"].open == {}
    assert worker.get("other", paths[0]) is kept


def test_used_in_the_same_request_it_is_opened_anew(book: Path, work: Start) -> None:
    """A request that runs for hours (lane 0) has no end at which its copies could be closed."""
    table = ResourceTable({"book": library()})
    worker = work(table, "one")
    old = worker.get("book", book)
    table.close_original("book", book)
    new = worker.get("book", book)
    assert (old.closed_by, new.closed_by) == (worker.thread, None)
    worker(worker.held.request_ended)
    assert worker.get("book", book) is new


def test_a_worker_that_cannot_be_woken_keeps_nobody_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    woken = []

    def fail() -> None:
        raise OSError("its pipe is broken")

    table = ResourceTable({"part": Resource(open=object)})
    first, second = table.of("one", fail), table.of("two", lambda: woken.append("two"))
    assert first["part"] is not second["part"]
    assert table.close_original("part") == 2
    assert woken == ["two"]
    assert "worker one could not be told that resource 'part' is closed" in caplog.text


# -- failures ---------------------------------------------------------------------------------------------------------


def test_an_error_of_open_names_the_resource_and_is_not_kept(tmp_path: Path, work: Start) -> None:
    """The request fails with it; the next one tries again."""
    path = tmp_path / "missing.db"
    table = ResourceTable({"book": library()})
    worker = work(table, "w-7")
    with pytest.raises(ResourceNotOpened) as failed:
        worker.get("book", path)
    said = str(failed.value)
    assert (
        said.startswith("resource 'book' of ") and "missing.db" in said and "for worker w-7: FileNotFoundError" in said
    )
    assert isinstance(failed.value.__cause__, FileNotFoundError)
    write(path, "Emma")
    assert worker(worker.get("book", path).title) == "Emma"
    assert table.figures()["book"].open_failures == 1


def test_a_stop_while_it_is_opened_leaves_nothing_behind() -> None:
    """What is no Exception (the worker is being stopped) passes through as it is."""

    def stop() -> None:
        raise KeyboardInterrupt

    table = ResourceTable({"part": Resource(open=stop)})
    held = table.of("one")
    for _ in range(2):  # the second time it is not taken for one that asks for itself
        with pytest.raises(KeyboardInterrupt):
            held["part"]
    assert table.close_original("part") == 0


def test_an_open_that_asks_for_itself_is_refused() -> None:
    table = ResourceTable({"part": Resource(open=lambda: table.of("one")["part"])})
    with pytest.raises(ResourceNotOpened, match="its own open asks for it"):
        table.of("one")["part"]


def test_an_open_that_asks_for_others_stays_within_the_bound() -> None:
    """A chain of three under a bound of two is refused where it would exceed it, in a sentence."""

    def open_chain(number: int) -> int:
        return held["part", number - 1] + 1 if number else 0

    table = ResourceTable({"part": Resource(open=open_chain, held_max=2)})
    held = table.of("one")
    assert held["part", 1] == 1
    with pytest.raises(ResourceNotOpened, match=r"2 are being opened \(held_max=2\)"):
        held["part", 3]
    assert held["part", 1] == 1


def test_a_handle_that_cannot_be_closed_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """It is said, counted, and no reason to fail the request that has just ended well."""
    now_ns = 0

    def fail(handle: object) -> None:
        raise OSError("disk is gone")

    table = ResourceTable({"part": Resource(open=object, close=fail)}, now_ns=lambda: now_ns)
    held = table.of("one")
    for _ in range(3):
        old = held["part"]
        table.close_original("part")
        held.request_ended()
        assert held["part"] is not old
    said = "resource 'part' of worker one could not be closed, and is forgotten"
    assert [each.message for each in caplog.records] == [said]
    assert caplog.records[0].levelno == logging.ERROR and "disk is gone" in caplog.text
    now_ns = 10_000_000_000
    held.close()
    assert caplog.records[-1].message == f"{said} (2 more since the last report)"
    figures = table.figures()["part"]
    assert (figures.close_failures, figures.closed, figures.open) == (4, 4, {})


def test_a_close_that_makes_another_give_way_closes_nothing_twice() -> None:
    """`close` of one asks for more, and what had to make room was the next to be closed."""
    closed: list[str] = []

    def close(key: str) -> None:
        closed.append(key)
        if key == "a":
            assert [held["part", "c"], held["part", "d"]] == ["c", "d"]

    table = ResourceTable({"part": Resource(open=lambda key: key, close=close, held_max=2)})
    held = table.of("one")
    assert [held["part", "a"], held["part", "b"]] == ["a", "b"]
    table.close_original("part")
    held.request_ended()
    assert sorted(closed) == ["a", "b"]
    assert table.figures()["part"].closed == 2


# -- bounds and ends --------------------------------------------------------------------------------------------------


def test_at_the_bound_the_least_recently_used_makes_room(tmp_path: Path, work: Start) -> None:
    """A request over ten thousand files would run out of descriptors, or close what it uses all the time."""
    table = ResourceTable({"book": library(held_max=3), "other": library()})
    worker = work(table, "one")
    paths = [write(tmp_path / f"{n}.db", "Emma") for n in range(5)]
    other = worker.get("other", paths[0])
    copies = [worker.get("book", path) for path in paths[:3]]
    assert worker.get("book", paths[0]) is copies[0]
    worker.get("book", paths[3])
    assert [copy.closed_by is None for copy in copies] == [True, False, True]
    worker.get("book", paths[4])
    assert [copy.closed_by is None for copy in copies] == [True, False, False]
    figures = table.figures()["book"]
    assert (figures.open, figures.evicted, figures.reopened) == ({"one": 3}, 2, 0)
    assert other.closed_by is None


def test_a_worker_that_ends_closes_all_the_latest_first(tmp_path: Path, work: Start) -> None:
    """What was opened later may stand on what was opened before."""
    closed: list[str] = []
    names = ("disk", "index", "cursor")
    table = ResourceTable({name: Resource(open=lambda n=name: n, close=closed.append) for name in names})
    worker = work(table, "one")
    for name in names:
        worker.get(name)
    worker(worker.held.close)
    worker(worker.held.close)
    assert closed == ["cursor", "index", "disk"]
    with pytest.raises(NotTheWorker, match="worker one has ended"):
        worker.get("disk")
    assert table.close_original("disk") == 0
    again = work(table, "one")
    assert again.get("disk") == "disk"
    figures = table.figures()["disk"]
    assert (figures.opened, figures.closed, figures.open) == (2, 1, {"one": 1})


def test_a_worker_of_the_same_name_begins_while_the_old_one_still_closes() -> None:
    """The pool was shrunk and grown again: the new one must get a part of its own, and stay known when the old one is gone."""
    begun: list[Held] = []

    def close(handle: object) -> None:
        if not begun:
            begun.append(table.of("one"))

    table = ResourceTable({"part": Resource(open=object, close=close)})
    old = table.of("one")
    assert old["part"] is not None
    old.close()
    assert begun[0] is not old
    assert table.of("one") is begun[0]
    assert begun[0]["part"] is not None
    assert table.figures()["part"].open == {"one": 1}


def test_many_workers_and_originals_closed_all_the_while(tmp_path: Path) -> None:
    """Every use finds a connection that works and shows the file as it was written, and nothing stays open."""
    paths = [write(tmp_path / f"{n}.db", f"book {n}") for n in range(6)]
    table = ResourceTable({"book": library(held_max=3)})
    is_over = threading.Event()

    def run(number: int) -> int:
        held = table.of(f"worker {number}")
        count = 0
        while not is_over.is_set() or count < 300:
            which = (count * (number + 1)) % len(paths)
            assert held["book", paths[which]].title() == f"book {which}"
            held.request_ended()
            count += 1
        held.close()
        return count

    with ThreadPoolExecutor(5) as pool:
        running = [pool.submit(run, number) for number in range(5)]
        for round in range(300):
            if round % 10 == 0:
                write(paths[round % 6], f"book {round % 6}")
            table.close_original("book", *([paths[round % 6]] if round % 3 else []))
        is_over.set()
        assert all(each.result(LIMIT_S * 3) >= 300 for each in running)
    figures = table.figures()["book"]
    assert figures.opened == figures.closed > 5
    assert (figures.open, figures.to_close, figures.close_failures, figures.open_failures) == ({}, 0, 0, 0)
    assert open_files(tmp_path) == []


def test_the_end_of_a_request_costs_next_to_nothing(book: Path) -> None:
    """Every request pays it, also without a resource: 0.2 us, of 16 us for an empty one. One end in 32 asks a handle."""
    table = ResourceTable({"book": Resource(open=Library, close=Library.close)})
    held = table.of("one")
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
        (lambda: ResourceTable({"db": sqlite3.connect}), "'db' is <.*>: expected Resource"),  # type: ignore[dict-item]
        (lambda: ResourceTable({"": Resource(open=object)}), "'': expected a name"),
        (lambda: ResourceTable([Resource(open=object)]), "expected a mapping"),  # type: ignore[arg-type]
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
        (lambda held: held["clock", 1], InvalidArgument, "'clock' has no key, for its open takes none"),
        (lambda held: held["book", ["a"]], InvalidArgument, "'book': a key must be hashable"),
        (lambda held: held["book", 1, 2], InvalidArgument, "expected resources\\[\"name\"\\] or"),
        (lambda held: held[3], InvalidArgument, "expected resources\\[\"name\"\\] or"),
        (lambda held: held[()], InvalidArgument, "expected resources\\[\"name\"\\] or"),
        (lambda held: held[("book",)], InvalidArgument, "expected resources\\[\"name\"\\] or"),
    ],
)  # fmt: skip
def test_what_is_asked_for_wrongly(ask: Callable[[Held], Any], error: type[Exception], sentence: str) -> None:
    table = ResourceTable({"book": library(), "clock": Resource(open=lambda: 0)})
    with pytest.raises(error, match=sentence):
        ask(table.of("one"))


def test_an_original_that_there_is_not(book: Path) -> None:
    table = ResourceTable({"book": library(), "clock": Resource(open=lambda: 0)})
    with pytest.raises(UnknownResource, match="did you mean 'book'"):
        table.close_original("boook")
    with pytest.raises(InvalidArgument, match="'clock' has no key"):
        table.close_original("clock", book)
    with pytest.raises(InvalidArgument, match="must be hashable"):
        table.close_original("book", ["a"])  # type: ignore[arg-type]
    assert table.close_original("book", book) == 0


@pytest.mark.parametrize("module", [resource_module, resources_module])
def test_the_examples_run(module: Any) -> None:
    """An example that does not run teaches the wrong thing."""
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
