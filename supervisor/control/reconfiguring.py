"""Reconfiguring: replaces the running configuration: `supervisor.reload`, `supervisor.scale`.

direction/reconfiguration.py plans the change; here the plan is checked again and carried out, all or nothing. The supervisor
applies its own settings, backplanes receive those that can change while they run, and the director gets the restarts. A
process that registers later receives them then; one that is spawned later starts with them. Nothing blocks: the caller gets
its reply once everything has settled, or when its time is over.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.runtime.execution.urgency.board import SLOTS_MAX
from appbackplane.runtime.process_config import LiveSettings, ProcessConfig
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument, Unavailable

from ..configuration.config import Config, ConfigError, parse
from ..direction import draining, group_restart
from ..direction.child.child import Child
from ..direction.child.process import GONE, Phase
from ..direction.director import Director
from ..direction.effects import Caller
from ..direction.events import Event, Reconfigured
from ..direction.reconfiguration import Plan, needed, plain, plan
from ..direction.scaling import scaled
from ..logs.collector import Logs
from ..processes.board_file import BoardFile
from ..processes.placement import Placement
from ..processes.spawn import Spawner, process_config
from .asked import LIMIT_S_MAX, limit_ns
from .control_socket import Answered, ControlSocket, SupervisorCall

#: A sentinel applies new settings within an iteration. One that takes longer is stopped, or cannot get the interpreter lock;
#: it still applies them when it goes on.
CONFIGURE_LIMIT_NS = 5_000_000_000


class _Token(msgspec.Struct, frozen=True):
    """A `control.configure` call to one backplane."""

    backplane: str
    generation: int


class _Job(msgspec.Struct):
    """A change in progress; its caller waits."""

    caller: Caller
    plan: Plan
    ends_ns: int
    #: Backplane to the generation that is to be replaced.
    before: dict[str, int]
    #: Backplanes that were sent settings and have not answered.
    told: set[str] = set()
    problems: list[str] = []


class Reconfiguring:
    """Applies configurations to one system, one at a time."""

    def __init__(
        self,
        config: Config,
        *,
        control: ControlSocket,
        director: Director,
        board: BoardFile,
        placement: Placement,
        spawner: Spawner,
        logs: Logs,
        take: Callable[[Event], None],
        place: Callable[[str, int | None], dict[str, Any]],
        now_ns: Callable[[], int],
    ) -> None:
        """`take`: pass an event to the director. `place`: change a running backplane's CPU limit; the placement to tell it."""
        #: The configuration in force, and the file's as last read.
        self.running = self._file = config
        self._control, self._director, self._board, self._placement = control, director, board, placement
        self._spawner, self._logs, self._take, self._place, self._now_ns = spawner, logs, take, place, now_ns
        #: Settings that the present process of each backplane has.
        self._known: dict[str, ProcessConfig] = {}
        self._leaving: set[str] = set()
        self._job: _Job | None = None

    # Requests

    def reload(self, asked: SupervisorCall) -> None:
        """Apply this text as the configuration. Raises `InvalidArgument`, `FailedPrecondition`, `Busy`."""
        file, text = asked.body.get("file"), asked.body.get("text")
        if not isinstance(file, str) or not isinstance(text, str) or not os.path.isabs(file):
            raise InvalidArgument(
                "supervisor.reload: expected `file`, an absolute path, and `text`, the content of that file"
            )
        try:
            new = parse(text, Path(file), os.sched_getaffinity(0))
        except ConfigError as error:
            raise InvalidArgument(error.message) from error
        self._serve(asked, msgspec.structs.replace(new, debug=self.running.debug), text, is_file=True)

    def scale(self, asked: SupervisorCall) -> None:
        """Change the number of one backplane's threads or replicas. Raises `NotFound`, `InvalidArgument`, and as `reload`."""
        body = asked.body
        new = scaled(self.running, str(body.get("backplane")), body.get("threads"), body.get("replicas"))
        self._serve(asked, new, "", is_file=False)

    def describe(self) -> dict[str, Any]:
        """For the status: the file, and each key whose running value differs from it."""
        said = plan(self.running, self._file).changes
        return {
            "file": self._file.file,
            "differs": {change.name: {"running": plain(change.old), "file": plain(change.new)} for change in said},
        }

    def _serve(self, asked: SupervisorCall, new: Config, text: str, *, is_file: bool) -> None:
        wait_ns = limit_ns(asked.route, asked.body.get("timeout", LIMIT_S_MAX))
        steps = plan(self.running, new)
        problems = steps.problems() + needed(steps, group_restart.registrations(self._director.children))
        digest = hashlib.sha256(json.dumps([steps.as_data(), text]).encode()).hexdigest()
        answer = {"file": new.file, "plan": steps.as_data(), "digest": digest, "problems": problems}
        if asked.body.get("dry_run"):
            self._control.reply(asked.caller, answer)
            return
        if problems:
            raise FailedPrecondition("\n".join(problems))
        if asked.body.get("digest", digest) != digest:
            raise FailedPrecondition(
                "the system or its file has changed since the plan was made: nothing was done, make a new plan"
            )
        self._check_free(steps)
        self._begin(asked.caller, steps, new, wait_ns)
        if is_file:
            self._file = new

    def _check_free(self, steps: Plan) -> None:
        if self._director.mode != "up":
            raise FailedPrecondition(f"the system is {self._director.mode}: it can be changed when it is up")
        departures = {child.name: child.departure for child in self._director.children.values()}
        changing = [name for name, each in departures.items() if each.is_removed or each.is_leaving]
        if self._job is not None or changing or self._director.restarts.orders:
            who = f" ({', '.join(changing)})" if changing else ""
            raise Busy(f"the system is being changed{who}: try again when that is done", retry_after=1.0)
        if len(self._board.slots) + len(steps.added) > SLOTS_MAX:
            raise FailedPrecondition(
                f"no room for {len(steps.added)} more backplanes beside those being removed: add them in a second reload"
            )

    # Carrying out

    def _begin(self, caller: Caller, steps: Plan, new: Config, limit_ns: int) -> None:
        old, self.running = self.running, new
        children = self._director.children
        before = {name: children[name].process.generation for name in steps.restarted} | dict.fromkeys(steps.added, 0)
        self._job = job = _Job(caller, steps, self._now_ns() + limit_ns, before)
        self._spawner.config = new
        self._logs.configure(new)
        for name in steps.added:
            self._board.add(name)
        for name, share in new.backplane.items():
            self._placement.configure(name, share.cpu_limit, is_exempt=bool(share.cpu_exempt))
        self._leaving.update(steps.removed)
        for name in new.backplane:
            if name in children and name not in steps.restarted and children[name].process.phase is Phase.UP:
                self._tell(children[name], job)
        self._take(Reconfigured(old, new, steps))

    def spawned(self, backplane: str) -> None:
        """A process was spawned with the present configuration."""
        self._known[backplane] = process_config(self.running, backplane)

    def registered(self, backplane: str) -> None:
        """A backplane registered: send it the settings that changed since its spawn."""
        if backplane in self.running.backplane:
            self._tell(self._director.children[backplane], self._job)

    def _tell(self, child: Child, job: _Job | None) -> None:
        name = child.name
        now = process_config(self.running, name)
        settings = {
            key: getattr(now, key)
            for key in LiveSettings.__struct_fields__
            if getattr(now, key) != getattr(self._known[name], key)
        }
        if not settings:
            return
        self._known[name] = now
        is_placed = not settings.keys().isdisjoint(("cpu_limit", "cpu_exempt"))
        body = {"settings": settings, "placed": self._place(name, now.cpu_limit) if is_placed else None}
        generation = child.process.generation
        peer, token = self._control.identities.peer_of(name, generation), _Token(name, generation)
        self._control.call(peer, "control.configure", body, token, self._now_ns(), CONFIGURE_LIMIT_NS)
        if job is not None:
            job.told.add(name)

    def take(self, answered: Answered) -> bool:
        """Take the end of a call. False: it was no `control.configure`."""
        token = answered.token
        if not isinstance(token, _Token):
            return False
        if self._job is not None and token.backplane in self._job.told:
            self._job.told.discard(token.backplane)
            child = self._director.children.get(token.backplane)
            # A backplane that is dead, or unreachable because its death has not been seen yet, restarts with the new settings.
            is_dying = isinstance(answered.error, Unavailable)
            is_it = child is not None and child.process.is_at(token.generation)
            if answered.error is not None and not is_dying and is_it:
                self._job.problems.append(f"backplane {token.backplane!r}: {answered.error.message}")
        return True

    def turn(self, now_ns: int) -> None:
        """Forget removed backplanes, and reply once the change is done or its time is over."""
        for name in [name for name in self._leaving if name not in self._director.children]:
            self._leaving.discard(name)
            self._known.pop(name, None)
            self._board.remove(name)
            self._placement.remove(name)
        job = self._job
        if job is None:
            return
        if self._director.mode != "up":
            self._job = None
            self._control.refuse(job.caller, Unavailable("the system is going down"))
            return
        missing = [*job.told, *(name for name in job.before if self._is_coming(name, job)), *self._leaving]
        is_moving = (
            any(change.key == "role" for change in job.plan.changes) and not self._director.movement.is_settled()
        )
        missing += ["components move"] if is_moving else []
        if missing and now_ns < job.ends_ns:
            return
        self._job = None
        problems = job.problems + [line for name in job.before for line in self._problems_of(name)]
        again = [self._director.children[name] for name in job.before]
        if missing:
            problems.append(f"not done yet, and still in progress: {', '.join(missing)}")
        self._control.reply(
            job.caller,
            {
                "file": self._file.file,
                "plan": job.plan.as_data(),
                "problems": problems,
                "unfinished": draining.unfinished(again),
                "generations": {child.name: child.process.generation for child in again},
                "differs": self.describe()["differs"],
            },
        )

    def next_wake_ns(self) -> int | None:
        """When the caller's time is over; None: no change is in progress."""
        return None if self._job is None else self._job.ends_ns

    def _is_coming(self, name: str, job: _Job) -> bool:
        child = self._director.children[name]
        if child.process.generation <= job.before[name]:
            return True
        return child.history.up_since_ns is None and not self._problems_of(name)

    def _problems_of(self, name: str) -> list[str]:
        child = self._director.children[name]
        if child.process.phase in GONE:
            return [f"backplane {name!r}: {child.history.reason}"]
        return [
            f"backplane {name!r}: component {component!r} did not become {failure.to.value}: {failure.reason}"
            for component, failure in child.components.failures.items()
            if failure.is_given_up
        ]
