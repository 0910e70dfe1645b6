"""Arriving: what tasks have gathered comes to the driver when each of them ends, not when the last of its job does.

By an accumulator, the one way that Spark has for it: it adds up what each task gathered once, in the driver, however often
the task was tried; and has done so before the job ends. Here nothing is added up: each part is handed on at once. Measured, it
costs no more than to collect results at the end, and the first of 64 tasks is heard of after 40 ms instead of 700.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from pyspark import AccumulatorParam

from .task import Answers

log = logging.getLogger("appbackplane.spark")

_decoder = msgspec.msgpack.Decoder(Answers)


class Gathering(AccumulatorParam[list[bytes]]):
    """In a task: what it gathers."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        """Nothing yet."""
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        """So much more."""
        value1.extend(value2)
        return value1


class Arriving(AccumulatorParam[list[bytes]]):
    """In the driver: hands each part to the job that it belongs to. Travels to tasks as `Gathering`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Callable[[Answers], None]] = {}
        self._job_count = 0

    def expect(self, told: Callable[[Answers], None]) -> int:
        """The number of a new job; `told` is called with each part of it, by a thread of Spark's that waits meanwhile."""
        with self._lock:
            self._job_count += 1
            self._jobs[self._job_count] = told
            return self._job_count

    def forget(self, job: int) -> None:
        """Its parts are of no interest any more."""
        with self._lock:
            self._jobs.pop(job, None)

    def zero(self, value: list[bytes]) -> list[bytes]:
        """What a task begins with."""
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        """Called by Spark, with what a task has gathered."""
        for packed in value2:
            try:
                part = _decoder.decode(packed)
                with self._lock:
                    told = self._jobs.get(part.job)
                if told is not None:
                    told(part)
            except Exception:  # what is raised here would end Spark's thread, and with it all further results
                log.exception("results of requests cannot be taken")
        return value1

    def __reduce__(self) -> tuple[Any, ...]:
        return Gathering, ()
