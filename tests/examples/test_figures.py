"""The figures that the demonstration shows are those of the calls that were made."""

import math

from codesearch.figures import BulkMeter, Latencies, Second, Throughput, line, summary
from codesearch.view import draw
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

NS = st.integers(0, 10**11)


@given(st.lists(NS, min_size=1), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_are_those_of_the_sorted_list(latencies: list[int], percent: int) -> None:
    """A figure that flatters is worse than none: at most 10 % above the true one (a lone digit and a bit), never below."""
    figures = Latencies()
    for ns in latencies:
        figures.record(ns)
    true_ns = sorted(latencies)[math.ceil(len(latencies) * percent / 100) - 1]
    assert true_ns <= round(figures.percentile_ms(percent) * 1e6) <= true_ns * 1.1
    assert figures.percentile_ms(100) == max(latencies) / 1e6


@given(st.lists(NS, max_size=20), st.lists(NS, max_size=20))
def test_seconds_add_up_to_the_whole(first: list[int], second: list[int]) -> None:
    """The figures since the start are kept by adding seconds: a call that is lost there was perhaps the slowest."""
    parts, whole = [Latencies(), Latencies()], Latencies()
    for figures, latencies in zip(parts, (first, second), strict=True):
        for ns in latencies:
            figures.record(ns)
            whole.record(ns)
    total = Latencies()
    for figures in parts:
        total.add(figures)
    assert (total.count, total.max_ns) == (whole.count, whole.max_ns)
    assert [total.percentile_ms(p) for p in (50, 99)] == [whole.percentile_ms(p) for p in (50, 99)]


def test_nothing_measured_is_zero() -> None:
    """A second without an answer must not end the show."""
    assert Latencies().percentile_ms(99) == 0.0
    assert Throughput().files_s == Throughput().megabytes_s == 0.0


def progress(files: int, size: int) -> dict[str, int]:
    """What `index.progress` counts."""
    return {"files": files, "bytes": size, "entries": files * 10}


def test_rates_are_differences_and_survive_a_restart() -> None:
    """Counters run on; those of a restarted index begin at zero, and a negative rate would be nonsense."""
    meter = BulkMeter()
    meter.update(progress(100, 1_000_000), 0)
    bulk = meter.update(progress(150, 3_000_000), 500_000_000)
    assert (bulk.files_s, bulk.megabytes_s) == (100.0, 4.0)
    again = meter.update(progress(10, 100), 1_000_000_000)
    assert (again.files, again.bytes) == (10, 100)
    assert (meter.total.files, meter.total.bytes, meter.total.seconds) == (60, 2_000_100, 1.0)


def a_second(errors_count: int = 0) -> Second:
    """One as the demonstration sees it."""
    urgent = Latencies()
    urgent.record(1_500_000)
    return Second(
        elapsed_s=3,
        urgent=urgent,
        urgent_total=urgent,
        errors_count=errors_count,
        text="gather",
        hits=[{"file": "/lib/asyncio/tasks.py", "line": 728, "context": "def gather(*coros_or_futures):"}],
        bulk=Throughput(files=400, bytes=8_000_000, seconds=1.0),
        progress={
            "root": "/lib", "round": 2, "round_files": 1800, "round_files_done": 450, "files": 2250, "bytes": 9**9
        },
        host={"cpu_percent": 98.0, "cpus": 2, "memory_used": 2e9, "memory_total": 8e9},
    )  # fmt: skip


def test_a_line_and_the_summary_say_what_was_measured() -> None:
    """What is not a terminal gets lines that a person and `grep` can read."""
    assert line(a_second()) == (
        "   3 s | urgent p50  1.50 ms, p99   1.50 ms (1 searches) | bulk   400 files/s,   8.0 MB/s"
        " | round 2: 450/1800 files | cpu  98 %"
    )
    assert "2 failed" in line(a_second(errors_count=2))
    text = summary(a_second().urgent, 2, Throughput(400, 8_000_000, 0, 2.0), 1)
    assert text.splitlines() == [
        "urgent: 1 searches, 2 failed, p50 1.50 ms, p99 1.50 ms, slowest 1.50 ms",
        "bulk:   400 files, 8.0 MB in 2 s and 1 rounds: 200 files/s, 4.0 MB/s",
    ]


def test_the_picture_fits_and_shows_paths_below_the_root() -> None:
    """What a file holds is text, not markup, and must not break the picture."""
    console = Console(width=80, force_terminal=False)
    second = a_second()
    second.hits[0]["context"] = "[bold]x[/nothing] = 1"
    with console.capture() as capture:
        console.print(draw(second))
    text = capture.get()
    assert "asyncio/tasks.py:728  [bold]x[/nothing] = 1" in text
    assert "/lib/asyncio" not in text
    assert "1.50 ms" in text
    assert all(len(row) <= 80 for row in text.splitlines())
