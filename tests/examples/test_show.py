"""What the program of the architectures counts."""

import pytest
from registry import ARCHITECTURES, HERE
from show import FILES, at_once, observe


def piece(
    began_ns: int, ended_ns: int, process: int = 1, thread: int = 1, application: str = "orders"
) -> dict[str, object]:
    """An answer of `work`."""
    return {
        "application": application, "process": process, "thread": thread, "began_ns": began_ns, "ended_ns": ended_ns
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spans", "most"),
    [([(0, 10)], 1), ([(0, 10), (10, 20)], 1), ([(0, 10), (5, 20), (9, 30)], 3), ([(0, 10), (2, 4), (6, 8)], 2)],
)
def test_at_once_counts_what_overlaps(spans: list[tuple[int, int]], most: int) -> None:
    """One that follows another at once is not beside it: else an event loop would seem to do two things."""
    assert at_once(piece(*span) for span in spans) == most


def test_threads_of_two_processes_are_two() -> None:
    """Thread numbers are unique in a host, but a test must not lean on that."""
    seen = observe([piece(0, 10**9, process=1), piece(0, 10**9, process=2, application="billing")])
    assert (seen.applications, seen.processes, seen.threads, seen.at_once, seen.seconds) == (2, 2, 2, 2, 1.0)


def test_every_architecture_is_shown() -> None:
    """A TOML that the program forgets is one that nobody sees."""
    assert sorted(FILES) == sorted(path.name for path in HERE.glob("*.toml"))
    assert sorted(path.name for path in (HERE / "station").glob("*.toml")) == sorted(
        each.station.name for each in ARCHITECTURES
    )
