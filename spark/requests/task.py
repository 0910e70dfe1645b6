"""Task: what runs in a Python worker of Spark's: a slice of requests, one after the other, each ended for itself.

What a runnable raises ends its own request and no other. The classes are imported by name and made once a process, as in every
other worker; Spark keeps its Python workers. A task that Spark repeats executes its requests again: their results are taken
once (job.py), their effects are theirs. There is no way back to the kernel from here, so a request cannot post others.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from appbackplane.runtime.requests.runnable import RunnableSpec
from appbackplane.transport.errors import FailedPrecondition


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """One request."""

    number: int
    runnable: str
    request: bytes


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """What one task executes."""

    job: int
    #: Of runnables by their names: "module:Class".
    where: dict[str, str]
    #: To be searched for them, too.
    folders: tuple[str, ...]
    asked: list[Asked]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """How one request ended: `result`, or `error` and `trace`."""

    number: int
    run_ns: int
    result: bytes | None
    error: str = ""
    trace: str | None = None


class Answers(msgspec.Struct, frozen=True, array_like=True):
    """Of one task."""

    job: int
    answers: list[Answer]


class Gathered(Protocol):
    """What Spark brings to the driver when the task has ended: an accumulator."""

    def add(self, term: list[bytes]) -> None:
        """So much more."""


class InTask:
    """The kernel, as a runnable sees it from here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise FailedPrecondition(
            f"kernel.{name}: a request that Spark executes has no way back to the kernel: split the work before it is posted"
        )


_decoder = msgspec.msgpack.Decoder(Slice)
#: Of this process.
_specs: dict[str, RunnableSpec] = {}
_kernel = InTask()


def execute(gathered: Gathered, slices: Iterable[bytes]) -> Iterator[Any]:
    """What Spark calls, in a task, with the slices of one partition. Nothing comes out but by `gathered`."""
    for packed in slices:
        mine = _decoder.decode(packed)
        sys.path.extend(folder for folder in mine.folders if folder not in sys.path)
        answers = [_answer(asked, mine.where[asked.runnable]) for asked in mine.asked]
        gathered.add([msgspec.msgpack.encode(Answers(mine.job, answers))])
    return iter(())


def _answer(asked: Asked, where: str) -> Answer:
    start_ns = time.monotonic_ns()
    try:
        spec = _specs.get(where)
        if spec is None:
            spec = _specs[where] = _made(where)
        request = spec.unpack(asked.request)
        start_ns = time.monotonic_ns()
        result = spec.execute(request, _kernel)
        if spec.is_async:
            result = _awaited(spec, result)
        run_ns = time.monotonic_ns() - start_ns
        return Answer(asked.number, run_ns, spec.pack_result(result))
    except (Exception, SystemExit) as error:
        trace = "".join(traceback.format_exception(error))
        said = " ".join(str(error).split())
        return Answer(asked.number, time.monotonic_ns() - start_ns, None, f"{type(error).__name__}: {said}", trace)


def _made(where: str) -> RunnableSpec:
    """Raises what is wrong with the name, or with the class."""
    module_name, _, class_name = where.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise FailedPrecondition(
            f"{where} cannot be imported where Spark executes it: {type(error).__name__}: {error}"
        ) from error
    spec = RunnableSpec(found)
    spec.make()
    return spec


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
