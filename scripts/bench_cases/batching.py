"""batching: an operation that costs 1 ms a batch, whatever its size, called by many at a time.

First its throughput with 256 calls outstanding and batches of 16 and 256. Then how long a caller waits who calls now and then,
where a batch waits for more. Against the same operation that serves each request by itself. A surprise would be a throughput
that does not grow with the batch, or a p99 beyond the wait and two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from appbackplane.runtime import AppObject, Batch, Component, operation
from appbackplane.transport.client import Client

from .harness.bulk import compute
from .harness.case import Case, Requirement, Sides, ours, ratio
from .harness.systems import running
from .harness.timing import percentile, periodic_us, pipelined_per_s

RUN_S, WAIT_MS = 0.001, 5
OUTSTANDING = 256
CALLS, QUICK_CALLS = 20_000, 5_000
SINGLE_CALLS, QUICK_SINGLE_CALLS = 2_000, 600
SLICE_S, QUICK_SLICE_S = 4.0, 2.0


class Table(AppObject):
    @operation()
    def one(self, row: int) -> int:
        compute(RUN_S)
        return row

    @operation(batch=Batch(max=16))
    def sixteen(self, row: list[int]) -> list[int]:
        compute(RUN_S)
        return row

    @operation(batch=Batch(max=256))
    def many(self, row: list[int]) -> list[int]:
        compute(RUN_S)
        return row

    @operation(batch=Batch(max=256, wait_ms=WAIT_MS))
    def patient(self, row: list[int]) -> list[int]:
        compute(RUN_S)
        return row


class Store(Component):
    def setup(self) -> None:
        self.add(Table())


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    calls = QUICK_CALLS if is_quick else CALLS
    single = QUICK_SINGLE_CALLS if is_quick else SINGLE_CALLS
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    with running({"store": f'components = ["{__name__}:Store"]'}) as system:
        client = system.client
        yield Sides(
            lambda: {
                "per_s": per_s(client, "many", calls),
                "sixteen_per_s": per_s(client, "sixteen", calls),
                "p99_ms": p99_ms(client, "patient", seconds),
            },
            lambda: {"per_s": per_s(client, "one", single), "p99_ms": p99_ms(client, "one", seconds)},
        )


def per_s(client: Client, name: str, count: int) -> float:
    numbers: Any = iter(range(count))
    return pipelined_per_s(lambda: client.submit(f"store.{name}", row=next(numbers)), count, OUTSTANDING)


def p99_ms(client: Client, name: str, seconds: float) -> float:
    """How long a caller waits who calls now and then."""
    return percentile(periodic_us(lambda: client.call(f"store.{name}", row=1), seconds), 0.99) / 1e3


def by(figure: str) -> Any:
    """How much more than single requests."""
    return lambda ours, reference: ours[figure] / reference["per_s"]


CASE = Case(
    name="batching",
    what="calls/s of an operation that costs 1 ms a batch, in batches of 256; reference: each request by itself",
    requirements=(
        Requirement("calls/s", ratio("per_s"), at_least=20),
        Requirement("calls/s of batches of 16", by("sixteen_per_s"), at_least=8),
        Requirement("p99 with a wait of 5 ms", ours("p99_ms"), at_most=WAIT_MS + 2 * RUN_S * 1e3, unit="ms"),
    ),
    open=both,
    rounds=3,
    quick_rounds=2,
)
