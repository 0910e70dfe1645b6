"""Task: what runs in a Python worker of Spark's: a slice of requests, one after the other, each ended for itself.

What a runnable raises ends its own request and no other. A task that has gathered enough leaves the rest to another. The
classes are imported by name and made once a process, as in every other worker; Spark keeps its Python workers. A task that
Spark repeats executes its requests again: their results are taken once (job.py), their effects are theirs. There is no way
back to the kernel from here, so a request cannot post others.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from appbackplane.runtime.requests.failures import failure_of
from appbackplane.runtime.requests.runnable import RunnableSpec
from appbackplane.runtime.requests.thread_resources import ThreadResources
from appbackplane.transport.errors import FailedPrecondition

#: Of results that a task gathers: with so many it ends, and what it has not begun goes back. JVMs hold what it gathered
#: several times, as one array, and so for each core: 400 results of 6 MB in one task ended the driver's, of 1 GB.
TASK_BYTES_MAX: Final = 4 << 20


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """One request."""

    number: int
    runnable: str
    request: bytes


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where things are: classes as "module:Class"."""

    #: By the name of the runnable.
    runnables: dict[str, str]
    #: Of the kernel, whose `resources` they ask for; "": it has none.
    kernel: str
    #: To be searched, beside what Python searches anyway.
    folders: tuple[str, ...]


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """What one task executes."""

    job: int
    place: Place
    asked: list[Asked]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """How one request ended: `result`, or `error` and `trace`."""

    number: int
    run_ns: int
    result: bytes | None
    error: str = ""
    trace: str | None = None
    #: The class of what was raised, as a traceback names it.
    error_type: str | None = None
    #: CPU time of its thread, and when it began by the clock of its machine.
    cpu_ns: int = 0
    begun_ns: int = 0


class Answers(msgspec.Struct, frozen=True, array_like=True):
    """Of one task."""

    job: int
    answers: list[Answer]
    #: Numbers of those that have not begun: it had gathered enough.
    left: list[int]
    #: When the task ended, by the clock of its machine.
    ended_ns: int = 0


class Gathered(Protocol):
    """What Spark brings to the driver when the task has ended: an accumulator."""

    def add(self, term: list[bytes]) -> None:
        """So much more."""


class NoWayBack(FailedPrecondition, AttributeError):
    """There is no kernel in a task; also for who asks by `hasattr` what there is."""


class InTask:
    """The kernel, as a runnable sees it from here: what its thread holds, and nothing else."""

    def __init__(self, kernel: str) -> None:
        """Raises what is wrong with that class."""
        self.resources = ThreadResources(_found(kernel).resources if kernel else {})

    def should_stop(self) -> bool:
        """Never: nobody tells a task that the kernel goes down; Spark ends what it cancels."""
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoWayBack(
            f"kernel.{name}: a request that Spark executes has no way back to the kernel: split the work before it is posted"
        )


_decoder = msgspec.msgpack.Decoder(Slice)
#: Of this process, by where they are.
_specs: dict[str, RunnableSpec] = {}
_kernels: dict[str, InTask] = {}


def execute(gathered: Gathered, slices: Iterable[bytes]) -> Iterator[Any]:
    """What Spark calls, in a task, with the slices of one partition. Nothing comes out but by `gathered`."""
    for packed in slices:
        mine = _decoder.decode(packed)
        sys.path.extend(folder for folder in mine.place.folders if folder not in sys.path)
        answers: list[Answer] = []
        size = 0
        while len(answers) < len(mine.asked) and size < TASK_BYTES_MAX:
            answer = _answer(mine.asked[len(answers)], mine.place)
            answers.append(answer)
            size += bytes_of(answer)
        left = [asked.number for asked in mine.asked[len(answers) :]]
        gathered.add([msgspec.msgpack.encode(Answers(mine.job, answers, left, time.monotonic_ns()))])
    return iter(())


def bytes_of(answer: Answer) -> int:
    """That travel, nearly all of them."""
    return len(answer.result or b"") + len(answer.error) + len(answer.trace or "")


def _answer(asked: Asked, place: Place) -> Answer:
    begun_ns, begun_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
    try:
        spec = _spec(place.runnables[asked.runnable])
        kernel = _kernels.get(place.kernel) or _kernels.setdefault(place.kernel, InTask(place.kernel))
        request = spec.unpack(asked.request)
        begun_ns, begun_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        try:
            result = spec.execute(request, kernel)
            if spec.is_async:
                result = _awaited(spec, result)
        finally:
            kernel.resources.request_ended()
        run_ns, cpu_ns = time.monotonic_ns() - begun_ns, time.thread_time_ns() - begun_cpu_ns
        packed = spec.pack_result(result)
        said = spec.too_large(packed)
        return Answer(asked.number, run_ns, None if said else packed, said, None, None, cpu_ns, begun_ns)
    except BaseException as error:  # the edge: sys.exit() in a request ends the request, not its task
        run_ns, cpu_ns = time.monotonic_ns() - begun_ns, time.thread_time_ns() - begun_cpu_ns
        failure = failure_of(error)
        return Answer(asked.number, run_ns, None, failure.error, failure.trace, failure.error_type, cpu_ns, begun_ns)


def _spec(where: str) -> RunnableSpec:
    """Made once. Raises what is wrong with the name, or with the class."""
    spec = _specs.get(where)
    if spec is None:
        spec = RunnableSpec(_found(where))
        spec.make()
        _specs[where] = spec
    return spec


def _found(where: str) -> Any:
    module_name, _, class_name = where.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise FailedPrecondition(
            f"{where} cannot be imported where Spark executes it: {type(error).__name__}: {error}"
        ) from error
    return found


def _awaited(spec: RunnableSpec, coroutine: Any) -> Any:
    """Its result; there is nothing here that it could wait for."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise FailedPrecondition(
        f"{spec.name}.execute awaits what cannot be awaited where Spark executes it: do it before the post"
    )
