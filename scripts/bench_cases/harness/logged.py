"""Logged: a component that times its own calls of `logging`, and the same by a logger that writes to nowhere."""

from __future__ import annotations

import logging
import os
import time

from appbackplane.runtime import Component, operation

COMPONENT = 'components = ["bench_cases.harness.logged:Logged"]'


class Logged(Component):
    """In an action, as users log."""

    def __init__(self) -> None:
        self._nowhere = logging.getLogger("bench.nowhere")
        self._nowhere.propagate = False
        stream = logging.StreamHandler(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._nowhere.addHandler(stream)
        self._nowhere.setLevel(logging.INFO)

    @operation()
    def ours(self, count: int) -> float:
        """One call, in us."""
        return call_us(logging.getLogger("bench.ours"), count)

    @operation()
    def reference(self, count: int) -> float:
        """One call, in us."""
        return call_us(self._nowhere, count)


def call_us(log: logging.Logger, count: int) -> float:
    began_ns = time.perf_counter_ns()
    for number in range(count):
        log.info("order %d of %s is on its way", number, "ann")
    return (time.perf_counter_ns() - began_ns) / count / 1e3
