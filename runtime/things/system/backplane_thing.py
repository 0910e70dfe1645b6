"""Backplane thing: one backplane of the system, with its figures, restart and scale, and notices of its end and start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Protocol

import msgspec

from ..declaring import action, event, prop
from ..thing import Thing
from .properties import BackplaneProperties, Death, RestartedBackplane, Start
from .status import ProcessState

Count = Annotated[int, msgspec.Meta(ge=0)]
#: Threads or replicas, as `appbackplane scale` takes them.
ScaleCount = Annotated[int, msgspec.Meta(ge=1, le=256)]


class BackplaneOrders(Protocol):
    """The part of the component that a thing needs for its actions."""

    async def restart(self, backplane: str, *, rolling: bool) -> list[RestartedBackplane]: ...
    async def scale(self, backplane: str, *, threads: int | None, replicas: int | None) -> None: ...


class BackplaneThing(Thing):
    """A backplane of this system: one operating system process, and the components that run in it."""

    title = "Backplane"
    #: Its figures change, and are read, while a restart of it is awaited.
    interleaves = True

    def __init__(self, orders: BackplaneOrders, backplane: str) -> None:
        self._orders, self._backplane = orders, backplane
        self._now = BackplaneProperties()

    def take(self, now: BackplaneProperties, news: Iterable[Death | Start]) -> None:
        """Publish changed values, and events. The component posts it as an action; it is no operation."""
        self._now = now
        for each in news:
            if isinstance(each, Death):
                self.died.emit(each)
            else:
                self.started.emit(each)
        self.notify_changes()

    @prop(observable=True, priority=2)
    def state(self) -> ProcessState:
        """The phase of its process. `failed`: given up; `ended`: exited, and not to be started again."""
        return self._now.state

    @prop(observable=True, priority=2)
    def reason(self) -> str:
        """Why its last process ended, if it did without an order."""
        return self._now.reason

    @prop(observable=True, priority=2)
    def pid(self) -> Count | None:
        """The id of its process."""
        return self._now.pid

    @prop(observable=True, priority=2)
    def restarts(self) -> Count:
        """How many processes it has had after its first one, ordered restarts included."""
        return self._now.restarts

    @prop(observable=True, priority=2, unit="percent", title="CPU")
    def cpu(self) -> Annotated[float, msgspec.Meta(ge=0)]:
        """CPU time of its process in the last second, as a share of one core. Changes by less than 2 are not told."""
        return self._now.cpu

    @prop(observable=True, priority=2, unit="byte")
    def memory(self) -> Count:
        """Resident memory of its process. Changes by less than 2 % are not told."""
        return self._now.memory

    @prop(observable=True, priority=2)
    def queued(self) -> Count:
        """Actions that wait for their turn."""
        return self._now.queued

    @prop(observable=True, priority=2)
    def running(self) -> Count:
        """Running actions, at most 10, without those declared to take long."""
        return self._now.running

    @prop(priority=2, unit="second")
    def waiting_since(self) -> Annotated[float, msgspec.Meta(ge=0)]:
        """For how long its oldest call or action is outstanding, running ones included; 0: there is none."""
        return self._now.waiting_since

    @prop(priority=2)
    def waiting_for(self) -> str:
        """Why, as `appbackplane why` says it. Empty in the first second, and beyond the four oldest of the system."""
        return self._now.waiting_for

    died = event(Death, description="Its process has ended without an order, or could not be started.")
    started = event(Start, description="A new process of it is up.")

    @action(is_long=True)
    async def restart(self, rolling: bool = False) -> list[RestartedBackplane]:
        """Replace its process, which ends its calls in progress first. `rolling`: all replicas, each while the others serve."""
        return await self._orders.restart(self._backplane, rolling=rolling)

    @action(is_long=True)
    async def scale(self, threads: ScaleCount | None = None, replicas: ScaleCount | None = None) -> None:
        """Change the number of its threads, and of its replicas, which then all have so many threads."""
        await self._orders.scale(self._backplane, threads=threads, replicas=replicas)
