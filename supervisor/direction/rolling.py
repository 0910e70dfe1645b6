"""Rolling: replicas that start again one after the other, so that the others answer meanwhile. Pure.

The next one is taken only when nobody else of them is missing and the last one has been where it is to be for `SETTLE_NS`;
those that are missing anyway come first. At the first one that does not come back it stops: what is wrong with the new
process is wrong with all that would follow, and the old ones still answer. A replica that starts again by itself meanwhile
is done. What `restart.strategy` says of others is for deaths: here nobody is taken along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appbackplane.transport.errors import FailedPrecondition

from .child import Child, Phase

#: How long a new process has to stay up before the next old one goes. Callers send their calls there within milliseconds:
#: what dies of the first of them has died by then. Longer, and each replica takes so much longer to be done.
SETTLE_NS = 500_000_000
#: No process, and none to come.
_GONE = (Phase.FAILED, Phase.ENDED)


@dataclass(frozen=True, slots=True)
class Begin:
    """This one is restarted now."""

    backplane: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Until something happens, or this time."""

    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """All are up, none of them as it was."""


@dataclass(frozen=True, slots=True)
class Stop:
    """It goes no further."""

    because: str


Step = Begin | Wait | Done | Stop


class Rolling:
    """One rolling restart, from when it was ordered."""

    def __init__(self, children: Mapping[str, Child], names: Iterable[str], *, is_forced: bool = False) -> None:
        """Of these backplanes. Raises `FailedPrecondition` where nobody would answer meanwhile, unless it `is_forced`."""
        self._children, self._is_forced = children, is_forced
        #: Those to be restarted, with the generations that they had.
        self._old = {name: children[name].generation for name in names}
        #: The one that is on its way.
        self.present: str | None = None
        for name in self._old:
            if not self._others(name) and not is_forced:
                text = (
                    f"backplane {name!r} has no replicas: nobody would answer meanwhile (restart it without --rolling)"
                )
                raise FailedPrecondition(text)

    def step(self, now_ns: int) -> Step:
        """What is to be done now; ask again whenever something has happened."""
        if self.present is not None:
            step = self._look(self._children[self.present], now_ns)
            if step is not None:
                return step
            self.present = None
        left = self.left()
        if not left:
            return Done()
        name = next((name for name in left if not self._children[name].is_in_service), left[0])
        step = self._may_go(self._children[name])
        if isinstance(step, Begin):
            self.present = name
        return step

    def left(self) -> list[str]:
        """Those that are as they were."""
        children = self._children
        return [name for name, old in self._old.items() if name in children and children[name].generation == old]

    def touches(self, other: Rolling) -> bool:
        """Whether they may not go on at the same time."""
        return not self._families().isdisjoint(other._families())

    def _look(self, child: Child, now_ns: int) -> Step | None:
        """None: it is back."""
        tries = child.generation - self._old[child.name]
        if tries == 0 and (child.is_leaving or child.phase is Phase.WAITING or child.is_living):
            return Wait()
        if child.phase in _GONE or tries > 1 or not child.is_living:
            return Stop(f"{child.name} did not come back: {child.reason}")
        for component, failure in child.failures.items():
            return Stop(
                f"{child.name} did not come back: {component} did not become {failure.to.value}: {failure.reason}"
            )
        if child.up_since_ns is None:
            return Wait()
        settled_ns = child.up_since_ns + SETTLE_NS
        return Wait(settled_ns) if now_ns < settled_ns else None

    def _may_go(self, child: Child) -> Step:
        if child.is_leaving:
            return Wait()  # by somebody else's order, after which it is new
        if not child.is_in_service or (self._is_forced and not self._others(child.name)):
            return Begin(child.name)  # nobody loses anything by it, or that is wanted
        others = [other for other in self._others(child.name) if other.phase not in _GONE]
        if not others:
            return Stop(f"{child.name} is the last one that answers")
        return Begin(child.name) if all(other.is_in_service for other in others) else Wait()

    def _others(self, name: str) -> list[Child]:
        family = self._children[name].replica_of
        return [
            child
            for child in self._children.values()
            if child.replica_of is not None and child.replica_of == family and child.name != name
        ]

    def _families(self) -> set[str]:
        return {self._children[name].replica_of or name for name in self._old}
