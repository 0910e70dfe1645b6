"""Tenure: connects one supervisor with its cluster: the lease decides, and its effects are carried out here.

Called in each iteration of the supervisor's loop, by its thread alone. The lease's decisions go to the log and the status
(`describe`). Time is CLOCK_BOOTTIME, which goes on while the machine sleeps.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState

from ..configuration.cluster_settings import ClusterSettings
from ..direction import standing_by
from ..direction.child.process import GONE
from ..direction.director import Director
from ..direction.events import Event, Granted, Withdrawn
from ..poller import Poller
from ..processes.deadman import Deadman
from . import lease as decided
from .keeper import Keeper
from .lease import ClusterRole, Lease
from .opening import open_store
from .record import Snapshot

#: Longest wait for the store's answer at shutdown; without it other nodes wait for the lease to run out.
_LAST_S = 1.0


class Tenure:
    """One system's membership of its cluster; main thread only."""

    def __init__(
        self, settings: ClusterSettings, node: str, director: Director, take: Callable[[Event], None],
        say: Callable[..., None],
    ) -> None:  # fmt: skip
        """`take`: pass an event to the director. Raises `FailedPrecondition` where the store cannot be used."""
        self._settings, self._director, self._take, self._say = settings, director, take, say
        self.now_ns = RealClock.boot_ns
        #: Name of this node.
        self.node = node
        self._lease = Lease(settings.name, node, secrets.token_hex(8), int(settings.ttl_ns), self.now_ns())
        self._deadman = Deadman()
        self._keeper = Keeper(open_store(settings))
        self._poller: Poller | None = None

    def watch(self, poller: Poller) -> None:
        """Have the store's answers wake the poll."""
        self._poller = poller
        poller.watch(self._keeper.fd, lambda: None)  # only wakes the poll: each iteration takes the answer

    def turn(self) -> None:
        """Take the store's answer, and carry out the effects that are due."""
        answer = self._keeper.take()
        if answer is not None:
            self._carry_out(self._lease.heard(answer, self.now_ns()))
        is_clear = standing_by.is_clear(self._director.children)
        self._carry_out(self._lease.turn(self.now_ns(), is_candidate=self._is_candidate(), is_clear=is_clear))

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When to call `turn` at the latest, by the clock of `now_ns`."""
        next_ns = self._lease.next_ns()
        return None if next_ns is None else now_ns + max(0, next_ns - self.now_ns())

    def name_primary(self, node: str) -> None:
        """Ask that this node become primary, once the present one has stepped down."""
        record = self._lease.record
        if record is None or record.holder != node:
            self._lease.wish = node

    def describe(self) -> dict[str, Any]:
        """The cluster part of the status."""
        lease, record = self._lease, self._lease.record
        is_known = record is not None and bool(record.holder)
        return {
            "name": self._settings.name,
            "node": lease.me,
            "role": lease.phase.value,
            "primary": record.holder if record is not None and is_known else None,
            "epoch": None if record is None else record.epoch,
            "since": record.since_s if record is not None and is_known else None,
            "next": (lease.wish or (record.next if record is not None else "")) or None,
            "ttl": self._settings.ttl_ns / 1e9,
            "lease": self._settings.shown,
            "problem": self._problem(),
        }

    def close(self) -> None:
        """No process is left: give the lease back, so that no node waits for it to run out."""
        if self._poller is not None:
            self._poller.unwatch(self._keeper.fd)
        if standing_by.is_clear(self._director.children):
            self._deadman.set(None)
            answer = self._keeper.wait(_LAST_S)
            if answer is not None:
                self._lease.heard(answer, self.now_ns())
            last = self._lease.release()
            if last is not None and not self._keeper.is_busy:
                self._keeper.ask(last)
                is_done = isinstance(self._keeper.wait(_LAST_S), Snapshot)
                self._say(
                    "the lease was given back" if is_done else "the lease could not be given back: it expires by itself"
                )
        self._keeper.close(0.0 if self._keeper.is_busy else _LAST_S)

    def _is_candidate(self) -> bool:
        """Whether this node can do a primary's work: it is up, wanted there, and has not given up a backplane that is needed. A
        primary that has given one up keeps the lease: another node might fail at it as well, and so on."""
        director = self._director
        if director.movement.role is not ModuleState.PRIMARY or director.mode not in ("up", "stopping"):
            return False
        if self._lease.phase is not ClusterRole.SECONDARY:
            return True  # also during a graceful shutdown: it keeps the lease until that is done
        if director.mode == "stopping":
            return False
        return not any(
            child.settings.is_primary_only and child.process.phase in GONE for child in director.children.values()
        )

    def _problem(self) -> str | None:
        if self._lease.has_twin:
            return f"another node calls itself {self._lease.me!r}, too, and is primary"
        return f"its store does not answer: {self._lease.problem}" if self._lease.problem else None

    def _carry_out(self, effects: list[decided.Effect]) -> None:
        for effect in effects:
            match effect:
                case decided.ReadRecord():
                    self._keeper.ask(effect)
                case decided.Swap():
                    self._keeper.ask(self._dated(effect))
                case decided.Fuse():
                    self._deadman.set(effect.at_ns)
                case decided.BecomePrimary():
                    self._take(Granted(effect.epoch))
                case decided.Withdraw():
                    self._take(Withdrawn(effect.because, self._by_their_clock(effect.gone_by_ns)))
                case decided.LogMessage():
                    self._say(effect.text, "ERROR" if effect.is_error else "INFO")

    def _dated(self, swap: decided.Swap) -> decided.Swap:
        """Stamp a new record with its date, for people."""
        if swap.record.holder != self._lease.me or swap.record.since_s:
            return swap
        dated = msgspec.structs.replace(swap.record, since_s=RealClock.unix_ns() / 1e9)
        return decided.Swap(swap.version, dated)

    def _by_their_clock(self, at_ns: int | None) -> int | None:
        """Convert a moment of the lease's clock to the director's."""
        return None if at_ns is None else RealClock.now_ns() + max(0, at_ns - self.now_ns())
