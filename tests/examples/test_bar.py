"""The bar of index.py shows what `index.progress` says, on a terminal and elsewhere."""

from codesearch import bar
from rich.console import Console


def a_look(done: int = 450, failed: int = 0) -> bar.Look:
    """As index.py sees a round."""
    progress = {
        "root": "/usr/lib/python3/" + "deep/" * 30, "round_files": 1800, "round_files_done": done, "round_bytes": 9_000_000,
        "round_failed": failed, "workers": 5, "executing": [0, 1, 3, 1], "ready": 80,
    }  # fmt: skip
    return bar.Look(progress, 2.0)


def test_a_round_is_a_line_or_a_picture_that_fits() -> None:
    """Files, rates, the lanes and what failed: all of it where there is no terminal, too."""
    assert bar.line(a_look(failed=2)) == (
        " 25 % |   450 of 1800 files |   225 files/s,   4.5 MB/s"
        " | 5 of 5 workers (1 feeder, 3 files, 1 parts), 80 wait | 2 failed"
    )
    assert bar.summary(a_look()) == "450 files, 9.0 MB in 2.0 s: 225 files/s, 4.5 MB/s, 0 failed"
    assert bar.line(bar.Look(dict(a_look().progress, round_files=0), 0.0)).startswith("  0 %"), (
        "before anything is known"
    )
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(bar.draw(a_look(failed=2)))
    text = capture.get()
    assert " 25 %  450 of 1800 files  225 files/s, 4.5 MB/s  2 failed" in text
    assert "5 of 5 workers (1 feeder, 3 files, 1 parts), 80 wait" in text
    assert len(text.splitlines()) == 3
    assert all(len(row) <= 80 for row in text.splitlines())
