"""Contents made by hand, of any size: what a page must look right with."""

from __future__ import annotations

import math
import random
from pathlib import Path as File

import msgspec
import numpy as np

from appbackplane.spark.report.contents import (
    Contents,
    Culprit,
    Inversion,
    Miss,
    OperationSummary,
    Path,
    ProposedChange,
    Slow,
    Step,
)
from appbackplane.spark.report.gathering import contents
from appbackplane.spark.report.overview import Overview

from ..made import EPOCH_NS, traffic
from .test_overview import actions

MADE_NS = EPOCH_NS + 3_600_000_000_000


def empty(since_ns: int | None = None) -> Contents:
    """Of a system that has recorded nothing yet, or nothing since then."""
    return contents(File("/run/shop"), Overview(), {}, made_ns=MADE_NS, by="Spark 4", since_ns=since_ns)


def of(total: Overview, operations: list[OperationSummary], **more: object) -> Contents:
    """With rows made by hand."""
    made = contents(File("/run/shop"), total, {"utilisation": busy_of(total)}, made_ns=MADE_NS, by="Spark 4")
    return msgspec.structs.replace(made, operations=operations, **more)


def busy_of(total: Overview) -> list[dict[str, object]]:
    """As the job tells it: a backplane that comes to its limit, and one that does little."""
    begin_ns, table = total.table()
    return [
        {"backplane": source.backplane, "node": source.node, "time_ns": begin_ns + n * total.width_ns,
         "busy": 0.9 / (1 + place) * (1 + math.sin(n / 9)) / 2, "cpu": 0.5 / (1 + place), "waiting": 3.0 * place}
        for place, source in enumerate(total.sources.values())
        for n in range(len(table))
    ]  # fmt: skip


def one() -> Contents:
    """A single action."""
    total = Overview()
    columns = {name: np.asarray(values)[:1] for name, values in traffic(1).items() if name != "boosted"}
    total.add_actions(actions("shop", columns))
    return of(total, [operation("shop.buy", 1, seed=1)])


def operation(name: str, count: int, *, seed: int, priority: int = 2) -> OperationSummary:
    """Figures as of a busy one."""
    rng = random.Random(seed)
    wait, run = 10 ** rng.uniform(4, 7), 10 ** rng.uniform(4, 7.5)
    return OperationSummary(
        component=name.partition(".")[0], operation=name, priority=priority, count=count,
        errors=count // 100 if seed % 3 == 0 else 0, cpu_ns=int(run * count * 0.7),
        wait_mean_ns=wait * 1.3, wait_p50_ns=wait, wait_p90_ns=wait * 4, wait_p99_ns=wait * 20, wait_max_ns=wait * 90,
        run_mean_ns=run * 1.2, run_p50_ns=run, run_p90_ns=run * 2, run_p99_ns=run * 7, run_max_ns=run * 31,
    )  # fmt: skip


def slow(number: int) -> Slow:
    """Each with another reason to be slow."""
    wait, run, cpu, rest = ((5, 1, 1, 0), (0, 9, 9, 0), (0, 9, 1, 0), (1, 1, 1, 12))[number % 4]
    second = 200_000_000 // (1 + number)
    return Slow(
        when_ns=EPOCH_NS + number * 10**10, backplane="index", component="index", operation="index.rebuild",
        object=f"index/shard-{number}", priority=5, wait_ns=wait * second, run_ns=run * second, cpu_ns=cpu * second,
        took_ns=(run + rest) * second, outcome=0, typical_ns=second / 7, trace="00c0ffee00c0ffee1234567812345678",
    )  # fmt: skip


def inversion(backplane: str, priority: int) -> Inversion:
    """The most urgent suffers most; the least cannot."""
    ns = 91_000_000_000 // (1 + priority) ** 3
    return Inversion(
        backplane=backplane, priority=priority, count=100_000, starved=priority // 2, inverted=812 // (1 + priority),
        inversion_ns=ns, inversion_max_ns=ns // 60, boosted_ns=ns // 9, overtaken=30, passed_by=priority * 100,
        wait_p50_ns=1e5, wait_p99_ns=4e6, wait_max_ns=9e8,
    )  # fmt: skip


def path() -> Path:
    """A call, what it called, and what that called."""
    ms = 1_000_000
    steps = [
        ("front", "front.page", 0, 0, 2 * ms, 240 * ms, 12 * ms),
        ("query", "query.search", 1, 8 * ms, 30 * ms, 190 * ms, 40 * ms),
        ("index", "index.lookup_of_all_that_was_ever_said", 2, 50 * ms, 90 * ms, 70 * ms, 70 * ms),
    ]
    names = ("backplane", "operation", "depth", "from_ns", "wait_ns", "took_ns", "own_ns")
    return Path(
        trace="00c0ffee00c0ffee1234567812345678", when_ns=EPOCH_NS + 10**10, total_ns=242 * ms, calls=3,
        steps=[Step(**dict(zip(names, step, strict=True))) for step in steps],
    )  # fmt: skip


def million(evil: str = "shop.buy") -> Contents:
    """A busy hour of four backplanes; `evil`: what an operation is called."""
    total = Overview()
    for number, (name, count) in enumerate(
        {"front": 600_000, "query": 300_000, "index": 90_000, "mail": 10_000}.items()
    ):
        columns = traffic(count, seed=number, per_s=count / 3_600)
        columns["took"] = (columns["took"] * (1 + 4 * np.sin(np.arange(count) / count * 9) ** 8)).astype(np.int64)
        total.add_actions(actions(name, columns))
    operations = [operation(evil, 500_000, seed=0, priority=0)]
    operations += [operation(f"part{n % 5}.work_{n}", 60_000 // (n + 1), seed=n, priority=n % 8) for n in range(1, 50)]
    return of(
        total,
        operations,
        misses=[
            Miss(component="shop", operation=evil, priority=0, with_deadline=9_999, missed=730, by_waiting=700,
                 late_p50_ns=4e6, late_max_ns=9e8),
            Miss(component="mail", operation="mail.send", priority=6, with_deadline=900, missed=2, by_waiting=0,
                 late_p50_ns=4e6, late_max_ns=5e6),
        ],
        inversions=[inversion("front", priority) for priority in range(4)],
        culprits=[
            Culprit(component="query", operation="query.search", traces=100, actions=120, queue_ns=3 * 10**9,
                    run_ns=4 * 10**9, other_ns=10**9, total_ns=8 * 10**9, share=0.66),
            Culprit(component="front", operation=evil, traces=100, actions=100, queue_ns=2 * 10**8,
                    run_ns=3 * 10**9, other_ns=9 * 10**8, total_ns=4_100_000_000, share=0.34),
        ],
        slow=[slow(number) for number in range(12)],
        paths=[path()],
        advice=[
            ProposedChange(target="backplane.front", key="threads", old=1, new=4, now_ms=120.4, predicted_ms=8.1, error=-0.031,
                   evidence="shop.buy (priority 0) waited 120 ms on average, while its 1 thread was blocked 83 % of the time.",
                   figure="mean wait of shop.buy (priority 0)"),
        ],
        notes=["backplane mail: mail.send waits too long, and no change of its settings would help"],
        patch="[backplane.front]\n# shop.buy (priority 0) waited 120 ms on average\nthreads = 4\n",
    )  # fmt: skip
