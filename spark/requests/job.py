"""Job: run one worker's batch of requests on Spark. Each request ends exactly once, as a result, a failure or lost.

A request ends when its first answer arrives; later answers are ignored, because Spark may retry a task. A task that kills its
Python worker makes the whole job fail after Spark's own retries. The unfinished requests of such a job are split by task into
further jobs, down to the single request at fault: only that one is lost. The others between are executed again, and
`RETRIES_MAX` bounds the jobs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from appbackplane.runtime.requests.executing.executor import KernelPort
from appbackplane.runtime.requests.ledger.element import Done, Element, Failure, Packed
from appbackplane.runtime.requests.runnable import RunnableSpec

from ..session import in_a_line
from .sizing import Sizing, cut
from .task import ImportPlace, PackedRequest, Slice, TaskAnswer, TaskAnswers, bytes_of, execute

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

    from .arriving import Arriving

#: Bytes of requests in a job: Spark holds three copies of them in memory while it hands out tasks.
BYTES_MAX: Final = 64 << 20
#: Smallest number of tasks when leftovers are split. A killed Python worker costs a second, a task 10 ms.
TASKS_AGAIN: Final = 16
#: Further jobs for a batch's leftovers. If one request in 10,000 kills its worker, some 40 are needed.
RETRIES_MAX: Final = 128


class Batches:
    """Runs the batches of one worker, one after the other."""

    def __init__(
        self,
        context: SparkContext,
        arriving: Arriving,
        gathered: Accumulator[list[bytes]],
        ledger: KernelPort,
        worker: str,
        sizing: Sizing,
        place: ImportPlace,
        is_over: Callable[[], bool],
    ) -> None:
        """`is_over`: whether the crew has ended, or Spark is gone."""
        self._context, self._arriving, self._gathered = context, arriving, gathered
        self._ledger, self._worker, self._sizing, self._place, self._is_over = ledger, worker, sizing, place, is_over
        self._specs: Mapping[str, RunnableSpec] = ledger.specs
        self._lock = threading.Lock()
        #: Requests that have not ended, by number.
        self._open: dict[int, Element] = {}
        self._retries_left = 0

    def run(self, elements: Sequence[Element], workers: int) -> None:
        """Execute the requests. Returns when all of them have ended, or were given back."""
        packed = self._packed(elements)
        self._retries_left = RETRIES_MAX
        if packed:
            self._execute(packed, self._sizing.tasks(len(packed), workers))
        with self._lock:  # taken so that the thread that handles the last answers has finished, too
            assert not self._open, "each has ended"

    @property
    def open_count(self) -> int:
        """Number of requests that have not ended."""
        return len(self._open)

    def _packed(self, elements: Sequence[Element]) -> list[PackedRequest]:
        """Pack requests. One that cannot be packed has failed; those above `BYTES_MAX` are given back."""
        asked: list[PackedRequest] = []
        bytes_count = 0
        for place, element in enumerate(elements):
            try:
                request = element.packed or self._specs[element.runnable].pack(element.request)
            except Exception as error:
                self._ledger.ended(self._worker, [Done(element, None, Failure(str(error)), 0)])
                continue
            bytes_count += len(request)
            if asked and bytes_count > BYTES_MAX:
                self._ledger.give_back(self._worker, elements[place:])
                break
            asked.append(PackedRequest(element.id, element.runnable, request))
            self._open[element.id] = element
        return asked

    def _execute(self, asked: Sequence[PackedRequest], tasks: int) -> None:
        parts = [asked[start:stop] for start, stop in cut(len(asked), tasks)]
        problem = self._job(parts)
        left = [part for part in ([one for one in part if one.number in self._open] for part in parts) if part]
        if not left:
            return
        if problem is None:
            self._lose(left, "Spark executed it, but its result did not arrive")
        elif self._is_over() or is_nobodys(problem):
            self._lose(left, "its Spark session has ended" if self._is_over() else in_a_line(problem))
        elif len(asked) == 1:
            self._lose(left, why_of(problem))
        else:
            for part in left:
                if self._retries_left == 0:
                    self._lose([part], f"too many requests of its batch have made a Spark job fail: {why_of(problem)}")
                    continue
                self._retries_left -= 1
                self._execute(part, min(len(part), max(TASKS_AGAIN, tasks)))

    def _job(self, parts: Sequence[Sequence[PackedRequest]]) -> Exception | None:
        """Run one job. Returns the error that ended it; None: it succeeded."""
        number = self._arriving.expect(self._ended)
        encode = msgspec.msgpack.Encoder().encode
        slices = [encode(Slice(number, self._place, list(part))) for part in parts]
        try:
            if self._is_over():
                raise InterruptedError("Spark was stopped")
            rdd = self._context.parallelize(slices, len(slices))
            self._context.runJob(rdd, functools.partial(execute, self._gathered))
        except Exception as error:
            return error
        finally:
            self._arriving.forget(number)
        return None

    def _ended(self, part: TaskAnswers) -> None:
        """Complete the answers of an ended task, and give back the requests that it has not begun."""
        with self._lock:
            fresh = [(answer, self._open.pop(answer.number)) for answer in part.answers if answer.number in self._open]
            left = [self._open.pop(number) for number in part.left if number in self._open]
            run_ns, bytes_count = (
                sum(answer.run_ns for answer, _ in fresh),
                sum(bytes_of(answer) for answer, _ in fresh),
            )
            self._sizing.learn(len(fresh), run_ns, bytes_count)
            if fresh:
                shift_ns = self._ledger.now_ns() - part.ended_ns  # from the task machine's clock to ours
                self._ledger.ended(self._worker, [_done(answer, element, shift_ns) for answer, element in fresh])
            if left:
                self._ledger.give_back(self._worker, left)

    def _lose(self, parts: Sequence[Sequence[PackedRequest]], why: str) -> None:
        with self._lock:
            lost = [self._open.pop(one.number) for part in parts for one in part if one.number in self._open]
            if lost:
                self._ledger.lost(self._worker, lost, why)


def _done(answer: TaskAnswer, element: Element, shift_ns: int) -> Done:
    # Not before its worker took it by our clock, where known: the shift is an estimate that includes the answer's travel time.
    began_ns = max(element.started_ns, answer.begun_ns + shift_ns)
    times = answer.run_ns, answer.cpu_ns, began_ns
    if answer.result is None:
        return Done(element, None, Failure(answer.error, answer.trace, answer.error_type), *times)
    return Done(element, Packed(answer.result), None, *times)


def is_nobodys(problem: Exception) -> bool:
    """Whether no request can be at fault: their exceptions are caught, so a `PythonException` is Python's own failure."""
    from pyspark.errors import PythonException

    return isinstance(problem, PythonException)


def why_of(problem: Exception) -> str:
    """Extract the cause from Spark's message, without its account of retries before, and its hints on settings after."""
    said = in_a_line(problem).rpartition("most recent failure: ")[2]
    return said.rpartition("SparkException: ")[2].partition(". Consider ")[0]
