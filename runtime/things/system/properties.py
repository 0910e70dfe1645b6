"""Properties: the values and the events of one backplane, from two answers of the supervisor in a row. Pure.

A figure that wavers by little keeps its value, so an idle system publishes nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .status import BackplaneEntry, ProcessState

#: A change of the CPU share below this, in percent of a core, is not told. An idle backplane takes 0.1 to 1, by its
#: heartbeats and timers, and its share wavers by as much.
CPU_STEP: Final = 2.0
#: An action that runs for as many seconds counts where no statistics have come: none were asked for while nothing ran, or the
#: backplane did not answer. Shorter ones would be told whenever a heartbeat meets a timer.
RUNS_S: Final = 1.0
#: A change of the memory by less than one part in this many is not told: allocators give back and take pages all the time.
MEMORY_PARTS: Final = 50


class Death(msgspec.Struct, frozen=True):
    """A process ended without an order, or could not be started."""

    #: As in `appbackplane status`: the exit code or signal with the last line of output, or the kernel's out of memory. Behind
    #: it, why the backplane is not started again, if so.
    reason: str
    #: The process; null if there was none, or several have ended since the last notice.
    pid: int | None
    #: It died too often, and stays down.
    is_given_up: bool
    #: Deaths since the last notice: above 1 if processes die faster than they are looked at. `reason` is that of the last one.
    count: int


class Start(msgspec.Struct, frozen=True):
    """A new process is up."""

    pid: int
    #: Its processes after the first one.
    restarts: int


class RestartedBackplane(msgspec.Struct, frozen=True):
    """A backplane that an action has restarted, and the number of its new process."""

    backplane: str
    generation: int


class BackplaneProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of one backplane."""

    state: ProcessState = "waiting"
    pid: int | None = None
    restarts: int = 0
    reason: str = ""
    #: Percent of one core.
    cpu: float = 0.0
    #: Resident bytes.
    memory: int = 0
    queued: int = 0
    running: int = 0
    #: Seconds that its oldest call is outstanding; 0: there is none.
    waiting_since: float = 0.0
    waiting_for: str = ""


def properties_of(
    entry: BackplaneEntry, known: BackplaneProperties, *, cpu: float | None, memory: int, waiting_for: str = ""
) -> BackplaneProperties:
    """The properties now. `known`: those before. `cpu`: percent of a core; None: not known yet. `memory`: bytes."""
    board, statistics, oldest = entry.board, entry.statistics, entry.oldest
    is_same = entry.pid is not None and entry.pid == known.pid
    running = 0
    if statistics is not None:
        running = len(statistics.running)
    elif board is not None and board.running_for is not None:
        running = int(board.running_for >= RUNS_S)
    share = (known.cpu if is_same else 0.0) if cpu is None else cpu
    return BackplaneProperties(
        state=entry.state,
        pid=entry.pid,
        restarts=entry.restarts,
        reason=entry.reason or "",
        cpu=known.cpu if is_same and abs(share - known.cpu) < CPU_STEP else round(share, 1),
        memory=known.memory if is_same and abs(memory - known.memory) * MEMORY_PARTS < known.memory else memory,
        queued=0 if board is None else board.queued,
        running=running,
        waiting_since=0.0 if oldest is None else round(oldest[0], 3),
        waiting_for=waiting_for,
    )


def cpu_share(before: BackplaneEntry | None, now: BackplaneEntry, passed_s: float) -> float | None:
    """Percent of one core between the heartbeats of two answers, `passed_s` seconds apart. None: there is no new heartbeat."""
    if before is None or before.generation != now.generation or before.board is None or now.board is None:
        return None
    ages = before.board.heartbeat_age, now.board.heartbeat_age
    if ages[0] is None or ages[1] is None:
        return None
    between_s = passed_s + ages[0] - ages[1]
    # Two answers within one heartbeat have the same figures, except for rounding.
    return max(0.0, (now.board.cpu - before.board.cpu) / between_s * 100) if between_s > 0.1 else None


def news_of(before: BackplaneEntry | None, now: BackplaneEntry) -> tuple[Death | Start, ...]:
    """The deaths and the start between two answers. `before`: None: there was no such backplane."""
    news: list[Death | Start] = []
    count = now.deaths - (0 if before is None else before.deaths)
    if count > 0:
        pid = None if before is None or count > 1 else before.pid
        news.append(Death(now.reason or "", pid, now.state == "failed", count))
    was_registered = before is not None and before.generation == now.generation and before.is_registered
    if now.is_registered and not was_registered and now.pid is not None:
        news.append(Start(now.pid, now.restarts))
    return tuple(news)
