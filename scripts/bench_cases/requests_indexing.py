"""requests_indexing: indexing the standard library through the request kernel, on two cores; reference: one process alone.

Both use the functions of `examples/codesearch`: every file is read, hashed, tokenized, and its portions taken in by the same
eight shards. Ours is the example's system (five worker processes, of which a feeder and one that waits need no core; `query`
in a process of its own) with the settings of its TOML but for `nice`: the reference has none, and others on the machine would
decide. The reference is plain loops in one process, where nothing travels and nobody is asked. A round is a full one over
what is indexed already. Both must have found the same. What ours costs beyond the work itself shows in `cpu_s`: with more
than 1.18 times the reference's, two cores cannot be 1.7 times as fast. A surprise would be less than that.

    python -m bench_cases.requests_indexing      the reference: a round for each line that it hears
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from .harness.case import Case, Figures, Requirement, Sides
from .harness.machine import cpu_s
from .harness.processes import hear, program, say
from .harness.systems import System, running

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "codesearch"))

from codesearch.index import Index
from codesearch.indexing import FILE_BYTES_MAX, GROUP_BYTES, SLICE_LINES
from codesearch.query import Query
from codesearch.shard_index import ShardIndex
from codesearch.tokens import Portion, Scan, batches, decode, portions
from codesearch.tree import source_files

__all__ = ["CASE", "Index", "Query"]

SHARDS, WORKERS, CORES = 8, 5, 2
#: One round of it takes 3 s; a machine that is busy with something else, many times that.
ROUND_S_MAX = 300.0
SYSTEM = {
    "query": f'components = ["{__name__}:Query"]\n[backplane.query.settings.Query]\nshards = {SHARDS}',
    "index": f"""components = ["{__name__}:Index"]
max_latency = "50ms"
[backplane.index.settings.Index.policy]
kind = "processes"
workers = {WORKERS}
mode = "lanes"
lanes = [0, 20, 60]
base = 5""",
    "worker": f"""components = ["appbackplane.runtime.requests:RequestWorker"]
replicas = {WORKERS}
preempt = false
max_latency = "250ms"
slow_action = "1s"
[backplane.worker.settings.RequestWorker]
kernel = "{__name__}:Index"
""",
}


@contextmanager
def both(_is_quick: bool) -> Iterator[Sides]:
    with (
        cores(CORES),
        running(SYSTEM) as system,
        program("requests_indexing") as alone,
    ):
        found: dict[str, dict[str, int]] = {}

        def ours() -> Figures:
            figures, found["ours"] = kernel_round(system)
            return compared(figures)

        def reference() -> Figures:
            say(alone, "go")
            told = json.loads(hear(alone))
            found["reference"] = told.pop("found")
            return compared(told)

        def compared(figures: Figures) -> Figures:
            if len({json.dumps(each, sort_keys=True) for each in found.values()}) > 1:
                raise RuntimeError(f"the two have not done the same work: {found}")
            return figures

        yield Sides(ours, reference)


def kernel_round(system: System) -> tuple[Figures, dict[str, int]]:
    """A full round of the system; and what is in its index."""
    client, pids = system.client, system.pids().values()
    client.call("index.at_rest", timeout=ROUND_S_MAX)
    before, used = client.call("index.progress"), cpu_s(pids)
    began = time.perf_counter()
    client.call("index.rebuild", timeout=ROUND_S_MAX)
    client.call("index.at_rest", timeout=ROUND_S_MAX)
    seconds = time.perf_counter() - began
    figures = {"s": seconds, "cpu_s": cpu_s(pids) - used}
    after, statistics = client.call("index.progress"), client.call("query.statistics")
    found = {name: after[name] - before[name] for name in ("files", "bytes", "entries", "failed")}
    return figures, found | {name: statistics[name] for name in ("words", "beyond")}


class Alone:
    """The same work, in one process."""

    def __init__(self) -> None:
        self._shards = [ShardIndex() for _ in range(SHARDS)]
        self._digests: dict[str, bytes] = {}

    def round(self) -> dict[str, int]:
        """All files; what was found, and is in the index."""
        files = size = entries = failed = pending = 0
        found: list[Portion] = []
        for folder in source_files(Path(sysconfig.get_paths()["stdlib"])):
            for path in folder:
                files += 1
                data = Path(path).read_bytes()
                if len(data) > FILE_BYTES_MAX:
                    failed += 1
                    continue
                self._digests[path] = blake2b(data, digest_size=16).digest()
                scan = Scan(decode(data)[0])
                while not scan.advance(SLICE_LINES):
                    pass
                found += portions(path, scan, SHARDS)
                size += len(data)
                entries += len(scan.tokens) + len(scan.definitions)
                pending += len(data)
                if pending >= GROUP_BYTES:
                    self._take_in(found)
                    found, pending = [], 0
        self._take_in(found)
        statistics = [shard.statistics() for shard in self._shards]
        return {
            "files": files, "bytes": size, "entries": entries, "failed": failed,
            "words": sum(each["words"] for each in statistics), "beyond": sum(each["beyond"] for each in statistics),
        }  # fmt: skip

    def _take_in(self, found: list[Portion]) -> None:
        for shard, batch in batches(found, SHARDS):
            for portion in batch:
                self._shards[shard].ingest(portion)


@contextmanager
def cores(count: int) -> Iterator[None]:
    """This thread, and all that it starts meanwhile, on so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def speed_up(ours: Figures, reference: Figures) -> float:
    return reference["s"] / ours["s"]


def main() -> None:
    """The reference."""
    alone = Alone()
    for _ in sys.stdin:
        began, used = time.perf_counter(), time.process_time()
        found = alone.round()
        figures = {"s": time.perf_counter() - began, "cpu_s": time.process_time() - used}
        print(json.dumps(figures | {"found": found}), flush=True)


CASE = Case(
    name="requests_indexing",
    what="index the standard library by the request kernel on two cores; reference: one process, plain loops",
    requirements=(Requirement("times as fast", speed_up, at_least=1.7),),
    open=both,
    rounds=8,
    quick_rounds=1,
)


if __name__ == "__main__":
    main()
