"""Trials: before a restart, each backplane's components are imported and constructed in a separate process.

Otherwise, code that cannot be imported or constructed would turn an ordered restart into an outage: the serving process ends
first. The order reaches the director only if each backplane has described itself and fits the others (direction/plan.py);
else it is refused and nothing changes. `now` skips the trial, because it has to end hung processes in any case.

A trial has the supervisor's environment, as the next generation will. An order runs one trial at a time, because it shares
the machine with serving processes; one replica is tried for all. Cost: imports happen twice, and data that a constructor
loads is in memory twice meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from appbackplane.transport.directory import Registration
from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded, FailedPrecondition, Unavailable

from ..direction import group_restart, plan, replicas
from ..direction.director import Director
from ..direction.events import Event, RestartOrdered
from ..direction.orders import ORDERS_MAX
from ..poller import Poller
from ..processes.description import Describing, Undescribed
from ..processes.spawn import Spawner
from . import asked as meaning
from .control_socket import ControlSocket, SupervisorCall


@dataclass(slots=True)
class _Trial:
    """One order to restart, while its backplanes are tried."""

    order: RestartOrdered
    #: When the caller's time is over.
    ends_ns: int
    #: Backplanes still to be constructed, the present one first.
    left: list[str]
    present: Describing | None = None
    #: When the present process is killed.
    due_ns: int = 0
    described: list[Registration] = field(default_factory=list)
    #: Why the order is refused once its killed process has ended.
    error: BackplaneError | None = None


@dataclass(slots=True)
class Trials:
    """Trials of one system. Main thread only. Processes left at the end are killed with other orphans (orphans.py)."""

    control: ControlSocket
    director: Director
    spawner: Spawner
    poller: Poller
    #: Pass an event to the director.
    take: Callable[[Event], None]
    now_ns: Callable[[], int]
    _trials: list[_Trial] = field(default_factory=list, init=False)

    def restart(self, asked: SupervisorCall) -> None:
        """Serve `supervisor.restart`. Raises `InvalidArgument`, `NotFound`, `Busy`."""
        order = RestartOrdered(asked.caller, *meaning.restart(asked))
        if order.is_now or self.director.mode == "stopping":
            self.take(order)
            return
        names = self.director.restarts.concerned(order)
        if len(self._trials) >= ORDERS_MAX:
            raise Busy(f"{ORDERS_MAX} orders to restart are being tried already", retry_after=1.0)
        trial = _Trial(order, self.now_ns() + order.limit_ns, self._one_of_each_family(names))
        self._trials.append(trial)
        self._go_on(trial)

    def turn(self, now_ns: int) -> None:
        """Kill trials that take too long; all of them when the system goes down."""
        for trial in [trial for trial in self._trials if trial.error is None and trial.present is not None]:
            if self.director.mode == "stopping":
                self._kill(trial, Unavailable("the system is going down"))
            elif trial.due_ns <= now_ns:
                waited = "in the time given" if trial.due_ns == trial.ends_ns else "within its start_limit"
                self._kill(trial, DeadlineExceeded(f"backplane {trial.left[0]!r}: not constructed {waited}"))

    def next_wake_ns(self) -> int | None:
        """When the next trial will have taken too long; None: none runs."""
        return min((trial.due_ns for trial in self._trials if trial.error is None), default=None)

    @property
    def pids(self) -> set[int]:
        """Trial processes; they are reaped here."""
        return {trial.present.pid for trial in self._trials if trial.present is not None}

    def _one_of_each_family(self, names: Iterable[str]) -> list[str]:
        families: dict[str, str] = {}
        for name in names:
            families.setdefault(self.director.children[name].settings.replica_of or name, name)
        return list(families.values())

    def _go_on(self, trial: _Trial) -> None:
        """Start the next trial; after the last, pass the order on."""
        if not trial.left:
            self._end(trial)
            return
        name = trial.left[0]
        child = self.director.children.get(name)
        if child is None or child.departure.is_removed:
            self._refuse(trial, FailedPrecondition(f"backplane {name!r} has been removed from the configuration"))
            return
        try:
            present = trial.present = Describing(self.spawner.describe(name))
        except OSError as error:
            because = f"backplane {name!r}: no process could be started: {error.strerror}"
            self._refuse(trial, FailedPrecondition(because))
            return
        trial.due_ns = min(trial.ends_ns, self.now_ns() + child.settings.start_limit_ns)
        self.poller.watch(present.pidfd, lambda: self._on_exit(trial, present))
        for pipe in present.pipes:
            self.poller.watch(pipe.fd, lambda pipe=pipe: None if pipe.read() else self.poller.unwatch(pipe.fd))  # type: ignore[misc]

    def _kill(self, trial: _Trial, error: BackplaneError) -> None:
        assert trial.present is not None
        trial.error = error
        trial.present.kill()

    def _on_exit(self, trial: _Trial, present: Describing) -> None:
        for fd in (present.pidfd, *(pipe.fd for pipe in present.pipes)):
            self.poller.unwatch(fd)
        trial.present = None
        try:
            described = present.end()
        except Undescribed as error:
            name = trial.left[0]
            because = str(error).removeprefix(f"backplane {name}: ")
            self._refuse(trial, trial.error or FailedPrecondition(f"backplane {name!r}: {because}"))
            return
        if trial.error is not None:
            self._refuse(trial, trial.error)
            return
        trial.described.append(described)
        del trial.left[0]
        self._go_on(trial)

    def _end(self, trial: _Trial) -> None:
        if misfits := self._misfits(trial.described):
            self._refuse(trial, FailedPrecondition("\n".join(misfits)))
            return
        self._trials.remove(trial)
        self.take(msgspec.structs.replace(trial.order, limit_ns=max(1, trial.ends_ns - self.now_ns())))

    def _misfits(self, described: Iterable[Registration]) -> list[str]:
        """Problems of the whole plan that the new registrations would add."""
        children = self.director.children
        in_common, has_node = replicas.in_common(children), bool(self.director.directory.node)
        now = {each.backplane: each for each in group_restart.registrations(children)}
        then = dict(now)
        for new in described:
            family = in_common.get(new.backplane)
            alike = [name for name in now if family is not None and in_common.get(name) == family]
            then |= {name: msgspec.structs.replace(new, backplane=name) for name in (new.backplane, *alike)}
        known = plan.find(now.values(), in_common, has_node=has_node)
        return [
            finding.text
            for finding in plan.find(then.values(), in_common, has_node=has_node)
            if finding.is_error and finding not in known
        ]

    def _refuse(self, trial: _Trial, error: BackplaneError) -> None:
        self._trials.remove(trial)
        error.message += "; nothing was restarted"
        self.control.refuse(trial.order.caller, error)
