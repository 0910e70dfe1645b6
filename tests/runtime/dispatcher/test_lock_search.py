"""Lock search: a handler that uses a lock of its own, or a datum that has one, is found when it is registered.

Seed 003, section 5, leaves it to code review: "no other usage of locking primitives is permitted, nor necessary". One that is
overlooked waits for ever some day, with data held.
"""

from __future__ import annotations

import dataclasses
import logging
import multiprocessing
import queue
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    ActiveObject,
    DataProtector,
    Dispatcher,
    Message,
    RegistrationError,
    SelectiveProtector,
    message,
)
from appbackplane.runtime.objects.operation import DeclarationError


@message(category=983, id=1)
class Tick(Message): ...


LOCK = threading.Lock()
LOCKS = {"a": threading.RLock()}
STATE = types.SimpleNamespace(inner=types.SimpleNamespace(gate=threading.Condition()))
DONE = threading.Event()
QUEUE: queue.Queue[int] = queue.Queue()
log = logging.getLogger("test")


class Guarded:
    def __init__(self) -> None:
        self._lock, self.count = threading.Lock(), 0

    def add(self) -> None:
        with self._lock:
            self.count += 1


class Counter(ActiveObject):
    def __init__(self) -> None:
        self._lock, self.count = threading.Lock(), 0

    def add(self) -> None:
        with self._lock:
            self.count += 1


GUARDED, COUNTER = Guarded(), Counter()


def help_out() -> None:
    with LOCK:
        pass


def by_global(tick: Tick) -> None:
    with LOCK:
        pass


def by_attribute(tick: Tick) -> None:
    STATE.inner.gate.acquire()


def by_key(tick: Tick) -> None:
    with LOCKS["a"]:
        pass


def by_default(tick: Tick, lock: Any = LOCK) -> None: ...


def by_keyword_default(tick: Tick, *, lock: Any = LOCK) -> None: ...


def by_helper(tick: Tick) -> None:
    help_out()


def by_method(tick: Tick) -> None:
    GUARDED.add()


def by_variable(tick: Tick) -> None:
    mine = GUARDED
    mine.add()


def by_making(tick: Tick) -> None:
    with threading.Lock():
        pass


def by_import(tick: Tick) -> None:
    import threading as t

    t.Semaphore(1).acquire()


def by_import_of_name(tick: Tick) -> None:
    from threading import RLock

    RLock().acquire()


def by_inner_function(tick: Tick) -> None:
    def inner() -> None:
        LOCK.acquire()

    inner()


def by_comprehension(tick: Tick) -> None:
    [LOCK.acquire() for _ in range(1)]


def with_closure(lock: Any) -> Callable[[Tick], None]:
    def by_closure(tick: Tick) -> None:
        with lock:
            pass

    return by_closure


BETWEEN_PROCESSES = multiprocessing.get_context("fork").Lock()  # that of `spawn` would start a process


def by_process_lock(tick: Tick) -> None:
    BETWEEN_PROCESSES.acquire()


USES = {
    by_global: "by_global uses LOCK, which is a lock",
    by_attribute: "by_attribute uses STATE.inner.gate, which is a lock",
    by_key: "by_key uses LOCKS, which contains an object that is a lock",
    by_default: "by_default has a default that is a lock",
    by_keyword_default: "by_keyword_default has a default that is a lock",
    by_helper: "by_helper calls help_out, which uses LOCK, which is a lock",
    by_method: "by_method calls GUARDED.add, which uses self._lock, which is a lock",
    by_variable: "by_variable calls mine.add, which uses self._lock, which is a lock",
    by_making: "by_making uses threading.Lock, which makes locks",
    by_import: "by_import uses t.Semaphore, which makes locks",
    by_import_of_name: "by_import_of_name uses threading.RLock, which makes locks",
    by_inner_function: "by_inner_function uses LOCK, which is a lock",
    by_comprehension: "by_comprehension uses LOCK, which is a lock",
    with_closure(LOCK): "by_closure uses lock, which is a lock",
    by_process_lock: "by_process_lock uses BETWEEN_PROCESSES, which is a lock",
}


@pytest.mark.parametrize("handler", USES, ids=lambda handler: handler.__name__)
def test_a_handler_that_uses_a_lock_is_refused(handler: Callable[..., None]) -> None:
    """It says by which way it gets at the lock, and what to do instead."""
    with pytest.raises(RegistrationError) as raised:
        Dispatcher().register(handler)
    assert USES[handler] in str(raised.value)
    assert str(raised.value).endswith("may wait for ever: protect what it guards")


def counts(tick: Tick) -> None:
    COUNTER.add()
    log.info("counted")
    DONE.set()
    QUEUE.put_nowait(1)


def makes(tick: Tick) -> None:
    Counter().add()


def calls_itself(tick: Tick) -> None:
    if tick is None:
        calls_itself(tick)


def names_what_is_not_there(tick: Tick) -> None:
    nowhere.lock.acquire()  # type: ignore[name-defined]  # noqa: F821


def with_late_closure() -> Callable[[Tick], None]:
    def handler(tick: Tick) -> None:
        later.append(1)

    if DONE is None:
        later: list[int] = []
    return handler


@pytest.mark.parametrize(
    "handler", [counts, makes, calls_itself, names_what_is_not_there, with_late_closure(), with_closure(COUNTER)]
)
def test_what_looks_after_itself_is_allowed(handler: Callable[..., None]) -> None:
    """Active objects have locks that they never hold for long; the insides of other packages are their business."""
    Dispatcher().register(handler)


# -- data -------------------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.RLock()


class Nested:
    def __init__(self) -> None:
        self.parts = [Guarded()]


class Direct:
    def __init__(self) -> None:
        self.guarded = Guarded()


class Locked:
    def change(self) -> None:
        with LOCK:
            pass


class Shared:
    lock = threading.Lock()


@dataclasses.dataclass
class WithField:
    lock: Any = dataclasses.field(default_factory=threading.Lock)


HAVE: list[tuple[Callable[[], object], str]] = [
    (Guarded, "Guarded._lock is a lock"),
    (Slotted, "Slotted.lock is a lock"),
    (Direct, "Direct.guarded._lock is a lock"),
    (Nested, "Nested.parts._lock is a lock"),
    (Locked, "Locked.change uses LOCK, which is a lock"),
    (Shared, "Shared.lock is a lock"),
    (WithField, "WithField.lock is a lock"),
    (lambda: [threading.Lock()], "list has a lock in it"),
    (lambda: {"a": LOCK}, "dict has a lock in it"),
]


@pytest.mark.parametrize(("make", "says"), HAVE, ids=[each[1] for each in HAVE])
def test_a_datum_with_a_lock_is_refused(make: Callable[[], object], says: str) -> None:
    """Handlers would take it while they hold the dispatcher's."""
    with pytest.raises(DeclarationError) as raised:
        DataProtector(make())
    assert f"{says}: remove it: the dispatcher locks protected data" in str(raised.value)


@pytest.mark.parametrize("cls", [Guarded, Locked, Shared, WithField, Direct])
def test_what_would_make_one_is_refused_before_any_is_made(cls: Any) -> None:
    """A selective protector makes its data when messages come: too late to be told."""

    class Keyed(cls):  # type: ignore[misc]
        def __init__(self, key: str) -> None:
            super().__init__()

    with pytest.raises(DeclarationError, match=r"SelectiveProtector\(\S+Keyed\): .* lock"):
        SelectiveProtector(Keyed)


def test_a_function_that_makes_data_with_locks_is_refused() -> None:
    """As far as its code tells."""
    with pytest.raises(
        DeclarationError,
        match=r"calls Guarded, which uses threading.Lock, which makes locks: remove it: the dispatcher",
    ):
        SelectiveProtector[str, Guarded](lambda key: Guarded())


class Logs:
    def __init__(self) -> None:
        self.log, self.done, self.queue, self.counter = log, DONE, QUEUE, COUNTER
        self.me = self


def test_a_datum_may_have_what_looks_after_itself() -> None:
    """And may be in a circle."""
    DataProtector(Logs())
