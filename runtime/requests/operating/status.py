"""Status: the state of a kernel for its operator: pools, lanes, workers, oldest waits, and why no request can make progress.

Figures of one moment, taken under the kernel's mutex. The ready pool may have a million entries, so it is only copied there,
and searched for its oldest request afterwards. Rates are of the last seconds: the kernel's
watchdog takes samples (`RateSampler`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..ledger.element import LANES, Element
from ..ledger.figures import Figures, figures_of

if TYPE_CHECKING:
    from ..ledger.ledger import Ledger

#: Samples that rates are taken over, two a second: 10 s. With fewer, requests of a second each make the figure jump; with
#: more, an operator waits for the effect of a change.
SAMPLES_MAX: Final = 21


class LaneStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One lane. `ready_max` and `executing_max` hold for it and the lanes above it together; None: it is not constrained."""

    lane: int
    ready: int
    ready_max: int | None
    executing: int
    executing_max: int | None
    rejoinable: int
    #: Time since its oldest ready request became ready; None: it has none.
    oldest_ms: float | None


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, and the requests that it has."""

    name: str
    state: str
    ended: int
    run_ms: float
    #: The request that it executes, for how long, and the reason if that waits; "" and None: none.
    executing: str
    for_ms: float | None
    waits_for: str
    #: Requests taken and not begun.
    holds: int


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Averages of the last `over_s` seconds."""

    over_s: float
    ended_per_s: float
    #: Share of the workers allowed that executed and did not wait in the kernel, averaged over the samples.
    busy_percent: float
    #: Mean time from post to begin: the sum over requests that began, divided by the number that ended.
    wait_ms: float | None


class KernelStatus(msgspec.Struct, frozen=True, kw_only=True):
    kernel: str
    #: "open", "held", "quiescing", "quiesced", "stopping" or "stopped".
    state: str
    #: Whether ready requests are held back.
    held: bool
    kind: str
    workers_max: int
    executing: int
    #: Executing, and waiting in the kernel for sub-requests or room.
    blocked: int
    #: Entries in use, and how many there may be.
    ready: int
    ready_max: int
    rejoinable: int
    rejoinable_max: int
    #: Posters that wait for an entry.
    posting: int
    owners: int
    #: Age of the oldest request that is posted and not begun; None: there is none.
    oldest_ms: float | None
    rates: Rates | None
    #: Why no request can make progress; None: one can.
    stall: str | None
    #: Why there are fewer worker processes than asked for (shortage.py); None: there are enough, or may come to be.
    shortage: str | None
    lanes: list[LaneStatus]
    workers: list[WorkerStatus]
    totals: dict[str, int]
    #: Commands that run by themselves: (time, line).
    schedule: list[tuple[str, str]]
    policy: dict[str, Any]


class RateSampler:
    """Samples of the figures, as many as rates are taken over."""

    def __init__(self) -> None:
        self._samples: deque[Figures] = deque(maxlen=SAMPLES_MAX)

    def add(self, figures: Figures) -> None:
        """Add a sample; the oldest one goes."""
        self._samples.append(figures)

    def rates(self, now: Figures) -> Rates | None:
        """Rates since the oldest sample; None: there is none."""
        samples = [*self._samples, now]
        then = samples[0]
        if now.at_ns <= then.at_ns:
            return None
        span_ns = now.at_ns - then.at_ns
        ended = now.ended_total - then.ended_total
        waited_ns = now.wait_ns_total - then.wait_ns_total
        return Rates(
            over_s=round(span_ns / 1e9, 3),
            ended_per_s=round(ended * 1e9 / span_ns, 1),
            busy_percent=round(sum(min(1.0, _busy(each)) for each in samples) * 100 / len(samples), 1),
            wait_ms=_ms(waited_ns // ended) if ended else None,
        )


class LedgerView:
    """The state of a ledger at one moment. Made under the kernel's mutex, read without it."""

    def __init__(self, ledger: Ledger, now_ns: int) -> None:
        self.figures = figures_of(ledger, now_ns)
        self.policy = ledger.policy
        self.entries_limits = ledger.entries.limits
        self.executing_limits = ledger.executing.limits
        self._ready = ledger.ready.copied()
        #: When the oldest waiting poster posted; 0: none waits.
        self.posting_ns = min([each.posted_ns for each in ledger.posters], default=0)
        self.held = {
            name: (_doing(held.elements[0]) if held.elements else None, max(0, len(held.elements) - 1))
            for name, held in ledger.workers.items()
        }

    def oldest_ns(self) -> list[int]:
        """By lane: when its oldest ready request became ready; 0: it has none."""
        return [min([place[2].ready_ns for place in places], default=0) for places in self._ready]


def status_of(
    sight: LedgerView, name: str, state: str, *, held: bool, stall: str | None, shortage: str | None,
    workers: Sequence[Mapping[str, Any]], rates: Rates | None, schedule: Sequence[tuple[str, str]],
) -> KernelStatus:  # fmt: skip
    """The status of a kernel. `workers`: as its executor lists them."""
    figures, policy = sight.figures, sight.policy
    now_ns = figures.at_ns
    oldest_ns = sight.oldest_ns()
    waiting_ns = [at for at in (*oldest_ns, sight.posting_ns) if at]
    names = [each["name"] for each in workers]
    known = {each["name"]: str(each.get("state", "up")) for each in workers}
    return KernelStatus(
        kernel=name,
        state=state,
        held=held,
        kind=policy.kind if policy.kernel == "local" else policy.kernel,
        workers_max=policy.workers,
        executing=figures.executing,
        blocked=figures.blocked,
        ready=sum(figures.ready),
        ready_max=policy.ready,
        rejoinable=sum(figures.rejoinable),
        rejoinable_max=policy.rejoin,
        posting=figures.posting,
        owners=figures.owners,
        oldest_ms=_ms(now_ns - min(waiting_ns)) if waiting_ns else None,
        rates=rates,
        stall=stall,
        shortage=shortage,
        lanes=[
            LaneStatus(
                lane=lane,
                ready=figures.ready[lane],
                ready_max=_limit(sight.entries_limits, lane),
                executing=figures.executing_lanes[lane],
                executing_max=_limit(sight.executing_limits, lane),
                rejoinable=figures.rejoinable[lane],
                oldest_ms=_ms(now_ns - oldest_ns[lane]) if oldest_ns[lane] else None,
            )
            for lane in range(LANES)
        ],
        workers=[
            _worker(each, known.get(each, "leaving"), sight, now_ns)
            for each in [*names, *(other for other in sight.held if other not in known)]
        ],
        totals={
            field.removesuffix("_total"): getattr(figures, field)
            for field in figures.__struct_fields__
            if field.endswith("_total") and not field.endswith("_ns_total")
        },
        schedule=[*schedule],
        policy=msgspec.to_builtins(policy),
    )


def _worker(name: str, state: str, sight: LedgerView, now_ns: int) -> WorkerStatus:
    ended, run_ns, _ = sight.figures.by_worker.get(name, (0, 0, 0))
    doing, holds = sight.held.get(name, (None, 0))
    what, since_ns, waits_for = doing or ("", 0, "")
    return WorkerStatus(
        name=name,
        state=("waits" if waits_for else "executes") if what else "rests" if state == "up" else state,
        ended=ended,
        run_ms=_ms(run_ns),
        executing=what,
        for_ms=_ms(now_ns - since_ns) if what else None,
        waits_for=waits_for,
        holds=holds,
    )


def _doing(element: Element) -> tuple[str, int, str]:
    return f"{element.runnable} in lane {element.lane}", element.started_ns, element.waits_for


def _busy(figures: Figures) -> float:
    return (figures.executing - figures.blocked) / figures.workers


def _limit(limits: Sequence[int], lane: int) -> int | None:
    return limits[lane] if lane < len(limits) else None


def _ms(ns: int) -> float:
    return round(ns / 1e6, 3)
