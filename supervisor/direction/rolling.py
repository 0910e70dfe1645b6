"""Rolling: restarts replicas one after the other, so that the others serve meanwhile. Pure.

Replicas that do not serve come first. The next one is restarted only when all others serve and the last one has been up for
`SETTLE_NS`. At the first one that does not come back it stops: the error would repeat in all that follow, and the old ones
still serve. A replica that restarts by itself meanwhile counts as done. `restart.strategy` is for deaths: here no other
backplane is restarted with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from appbackplane.transport.errors import FailedPrecondition

from .child.child import Child
from .child.process import GONE, Phase

#: How long a new process has to stay up before the next old one goes. Callers send calls to it within milliseconds, so a
#: process that dies of its first calls has died by then. A longer time would delay each replica by as much.
SETTLE_NS = 500_000_000


class Begin(msgspec.Struct, frozen=True):
    """Step: restart this backplane now."""

    backplane: str


class Wait(msgspec.Struct, frozen=True):
    """Step: wait for an event, or until this time."""

    until_ns: int | None = None


class RollingDone(msgspec.Struct, frozen=True):
    """Step: all are restarted and up."""


class RollingStop(msgspec.Struct, frozen=True):
    """Step: end the rolling restart with an error."""

    because: str


Step = Begin | Wait | RollingDone | RollingStop


class Rolling:
    """One rolling restart, from the order to its end."""

    def __init__(self, children: Mapping[str, Child], names: Iterable[str], *, is_forced: bool = False) -> None:
        """`names`: the backplanes to restart. Raises `FailedPrecondition` for one without replicas, unless `is_forced`."""
        self._children, self._is_forced = children, is_forced
        #: The backplanes to restart, with their generations before.
        self._old = {name: children[name].process.generation for name in names}
        #: The backplane that is being restarted.
        self.present: str | None = None
        for name in self._old:
            if not self._others(name) and not is_forced:
                text = f"backplane {name!r} has no replicas to answer meanwhile (restart it without --rolling)"
                raise FailedPrecondition(text)

    def step(self, now_ns: int) -> Step:
        """The next step. Call it again after every event."""
        if self.present is not None:
            step = self._look(self._children[self.present], now_ns)
            if step is not None:
                return step
            self.present = None
        left = self.left()
        if not left:
            return RollingDone()
        name = next((name for name in left if not self._children[name].is_in_service), left[0])
        step = self._may_go(self._children[name])
        if isinstance(step, Begin):
            self.present = name
        return step

    def left(self) -> list[str]:
        """The backplanes that still have their old generation."""
        children = self._children
        return [
            name for name, old in self._old.items() if name in children and children[name].process.generation == old
        ]

    def touches(self, other: Rolling) -> bool:
        """Whether both concern replicas of one name, so that only one may go on at a time."""
        return not self._families().isdisjoint(other._families())

    def _look(self, child: Child, now_ns: int) -> Step | None:
        """The step for a backplane that is being restarted; None: it is up again and settled."""
        tries = child.process.generation - self._old[child.name]
        if tries == 0 and (
            child.departure.is_leaving or child.process.phase is Phase.WAITING or child.process.is_living
        ):
            return Wait()
        if child.process.phase in GONE or tries > 1 or not child.process.is_living:
            return RollingStop(f"{child.name} did not come back: {child.history.reason}")
        for component, failure in child.components.failures.items():
            return RollingStop(
                f"{child.name} did not come back: {component} did not become {failure.to.value}: {failure.reason}"
            )
        if child.history.up_since_ns is None:
            return Wait()
        settled_ns = child.history.up_since_ns + SETTLE_NS
        return Wait(settled_ns) if now_ns < settled_ns else None

    def _may_go(self, child: Child) -> Step:
        if child.departure.is_leaving:
            return Wait()  # another order restarts it, and then it is done
        if not child.is_in_service or (self._is_forced and not self._others(child.name)):
            return Begin(child.name)  # it serves no callers, or the interruption is wanted
        others = [other for other in self._others(child.name) if other.process.phase not in GONE]
        if not others:
            return RollingStop(f"{child.name} is the last replica that answers")
        return Begin(child.name) if all(other.is_in_service for other in others) else Wait()

    def _others(self, name: str) -> list[Child]:
        family = self._children[name].settings.replica_of
        return [
            child
            for child in self._children.values()
            if child.settings.replica_of is not None and child.settings.replica_of == family and child.name != name
        ]

    def _families(self) -> set[str]:
        return {self._children[name].settings.replica_of or name for name in self._old}
