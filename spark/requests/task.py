"""Task: runs in a Python worker of Spark: executes a slice of requests, one after the other.

An exception of a runnable ends its own request and no other. A task whose results are large enough leaves its further requests
to another task. Classes are imported by name and instantiated once a process, as in every other worker; Spark keeps its Python
workers. If Spark retries a task, its requests run again: their results count once (job.py), but their effects happen twice.
There is no connection to the kernel, so a request cannot post others.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from appbackplane.runtime.requests.executing.failures import failure_of
from appbackplane.runtime.requests.executing.thread_resources import ThreadResources
from appbackplane.runtime.requests.runnable import RunnableSpec
from appbackplane.transport.errors import FailedPrecondition

#: Size of results at which a task ends and gives its further requests back. JVMs hold a task's results several times, as one
#: array, and so for each core: 400 results of 6 MB in one task ended the driver's JVM, of 1 GB.
TASK_BYTES_MAX: Final = 4 << 20


class PackedRequest(msgspec.Struct, frozen=True, array_like=True):
    """One request, packed; `number` is its id."""

    number: int
    runnable: str
    request: bytes


class ImportPlace(msgspec.Struct, frozen=True, array_like=True):
    """Names of the classes to import ("module:Class"), and folders to search."""

    #: Class by name of the runnable.
    runnables: dict[str, str]
    #: Class of the kernel that defines `resources`; "": the kernel has none.
    kernel: str
    #: Folders to add to `sys.path`.
    folders: tuple[str, ...]


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """The requests of one task."""

    job: int
    place: ImportPlace
    asked: list[PackedRequest]


class TaskAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The end of one request: `result`, or `error` and `trace`."""

    number: int
    run_ns: int
    result: bytes | None
    error: str = ""
    trace: str | None = None
    #: Class of the exception, as a traceback names it.
    error_type: str | None = None
    #: CPU time of its thread, and its begin by the clock of its machine.
    cpu_ns: int = 0
    begun_ns: int = 0


class TaskAnswers(msgspec.Struct, frozen=True, array_like=True):
    """The answers of one task."""

    job: int
    answers: list[TaskAnswer]
    #: Numbers of the requests that were not begun, because the results were large enough.
    left: list[int]
    #: End of the task by the clock of its machine.
    ended_ns: int = 0


class Gathered(Protocol):
    """The accumulator: Spark brings its parts to the driver when the task has ended."""

    def add(self, term: list[bytes]) -> None:
        """Append results to those that travel to the driver."""


class NoWayBack(FailedPrecondition, AttributeError):
    """There is no kernel in a task. An `AttributeError`, too, so that `hasattr` returns False."""


class InTask:
    """Stands in for the kernel in a task: offers the thread's resources, and nothing else."""

    def __init__(self, kernel: str) -> None:
        """Raises the error of the kernel class's import."""
        self.resources = ThreadResources(_found(kernel).resources if kernel else {})

    def should_stop(self) -> bool:
        """Always False: a task is not told that the kernel shuts down; Spark kills a cancelled task."""
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoWayBack(
            f"kernel.{name}: a request that Spark executes cannot reach the kernel: split the work before posting it"
        )


_decoder = msgspec.msgpack.Decoder(Slice)
#: Caches of this process, by "module:Class".
_specs: dict[str, RunnableSpec] = {}
_kernels: dict[str, InTask] = {}


def execute(gathered: Gathered, slices: Iterable[bytes]) -> Iterator[Any]:
    """Called by Spark in a task with the slices of one partition. Results leave by `gathered` only."""
    for packed in slices:
        mine = _decoder.decode(packed)
        sys.path.extend(folder for folder in mine.place.folders if folder not in sys.path)
        answers: list[TaskAnswer] = []
        size = 0
        while len(answers) < len(mine.asked) and size < TASK_BYTES_MAX:
            answer = _answer(mine.asked[len(answers)], mine.place)
            answers.append(answer)
            size += bytes_of(answer)
        left = [asked.number for asked in mine.asked[len(answers) :]]
        gathered.add([msgspec.msgpack.encode(TaskAnswers(mine.job, answers, left, time.monotonic_ns()))])
    return iter(())


def bytes_of(answer: TaskAnswer) -> int:
    """Approximate size of a packed answer."""
    return len(answer.result or b"") + len(answer.error) + len(answer.trace or "")


def _answer(asked: PackedRequest, place: ImportPlace) -> TaskAnswer:
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
        return TaskAnswer(asked.number, run_ns, None if said else packed, said, None, None, cpu_ns, begun_ns)
    except BaseException as error:  # the edge: sys.exit() in a request ends the request, not its task
        run_ns, cpu_ns = time.monotonic_ns() - begun_ns, time.thread_time_ns() - begun_cpu_ns
        failure = failure_of(error)
        return TaskAnswer(
            asked.number, run_ns, None, failure.error, failure.trace, failure.error_type, cpu_ns, begun_ns
        )


def _spec(where: str) -> RunnableSpec:
    """Return the runnable's spec, made once. Raises the error of its import or its constructor."""
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
            f"{where} cannot be imported on Spark's workers: {type(error).__name__}: {error}"
        ) from error
    return found


def _awaited(spec: RunnableSpec, coroutine: Any) -> Any:
    """Run a coroutine to its result; it must not suspend, because there is no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise FailedPrecondition(
        f"{spec.name}.execute awaits something that does not exist on Spark's workers: await it before posting the request"
    )
