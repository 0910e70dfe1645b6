"""Progress: a progress bar while Spark works; nothing if standard error is not a terminal.

On standard error, so that standard output can go to a file, and erased when the answer is there. A thread polls Spark's task
counts ten times a second; it only reads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Time between two polls of Spark.
LOOK_S = 0.1


class StepProgress:
    """`step` names the present step; the bar shows how far it is."""

    def __init__(self, bar: Any, steps: int) -> None:
        """`bar`: a rich progress bar; None: show nothing."""
        self._bar = bar
        self._steps = steps
        self._done = 0.0
        self._task = None if bar is None else bar.add_task("starting Spark", total=steps)
        self._spark: SparkSession | None = None

    def watch(self, spark: SparkSession) -> None:
        """Call once Spark has started: from then on its tasks are counted, too."""
        self._spark = spark

    def step(self, text: str) -> None:
        """Begin the next step, and count the previous one as finished."""
        if self._bar is not None:
            self._done += 1
            self._bar.update(self._task, description=text, completed=self._done)

    def look(self) -> None:
        """Advance the bar within the present step, by its finished tasks."""
        tasks, done = self._tasks()
        if tasks:
            self._bar.update(self._task, completed=min(self._steps, self._done + done / tasks))

    def _tasks(self) -> tuple[int, int]:
        if self._spark is None:
            return 0, 0
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numTasks for stage in known), sum(stage.numCompletedTasks for stage in known)


@contextmanager
def shown(steps: int) -> Iterator[StepProgress]:
    """Show a bar with so many steps; the start of Spark is the first."""
    if not sys.stderr.isatty():
        yield StepProgress(None, steps)
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        progress = StepProgress(bar, steps)
        over = threading.Event()
        looking = threading.Thread(target=_look, args=(progress, over), name="progress", daemon=True)
        looking.start()
        try:
            yield progress
        finally:
            over.set()
            looking.join()


def _look(progress: StepProgress, over: threading.Event) -> None:
    from py4j.protocol import Py4JError

    while not over.wait(LOOK_S):
        try:
            progress.look()
        except (Py4JError, OSError):  # Spark has ended, or is about to: the main thread reports why
            return
