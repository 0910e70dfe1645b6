"""Director: what happens next in a system. (event, now) in, effects out; no process is touched here.

Brings the backplanes up, moves their components in the order of their dependencies (lifecycle.py), judges deaths
(restart.py), and takes everything down in reverse. All waits have an end: a start, a hook and a stop each have a limit,
after which the process is killed; a second order to go down kills at once. Before the system has been up once a failure
that would repeat itself ends everything, with its reason; after that only the backplane concerned is restarted or given
up. `run.py` is the doer.
"""

from __future__ import annotations

from collections.abc import Mapping

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport import directory
from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import FailedPrecondition

from . import plan
from .child import Child, Phase
from .config import RestartPolicy
from .effects import Accept, AnnounceUp, ClearSlot, Effect, End, Kill, Move, Refuse, Say, SendDirectory, Spawn, Stop
from .events import (
    DownOrdered,
    Event,
    Exited,
    LinkLost,
    Moved,
    MoveFailed,
    Placed,
    Registered,
    Spawned,
    SpawnFailed,
    TimePassed,
    UpOrdered,
)
from .lifecycle import Standing, moves_down, moves_up
from .restart import sentence

#: How long SIGKILL may take while going down (0.9 s were measured for a throttled process: TRAPS 22). A process that
#: survives it is stuck in the kernel, and waiting for it helps nobody.
KILL_LIMIT_NS = 10_000_000_000


class Director:
    """One system, from the first spawn to the last death."""

    def __init__(
        self,
        system: str,
        policies: Mapping[str, RestartPolicy],
        *,
        role: ModuleState,
        first_generation: int = 1,
        start_limit_ns: int,
        stop_limit_ns: int,
    ) -> None:
        self.system, self.role = system, role
        self.children = {
            name: Child(name, policy, first_generation=first_generation, generation=first_generation - 1)
            for name, policy in policies.items()
        }
        self.directory = Directory(system=system)
        #: "starting", "up", "stopping" or "down".
        self.mode = "starting"
        #: When it was ordered up, and when it came into its present mode.
        self.begun_ns = self.since_ns = 0
        #: Why it is going down.
        self.reason = ""
        self._exit_code = 0
        self._start_limit_ns, self._stop_limit_ns = start_limit_ns, stop_limit_ns
        self._is_planned = False
        self._effects: list[Effect] = []

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """What is to be done about `event`, in order."""
        assert self.mode != "down", "nothing happens to a system that has ended"
        match event:
            case UpOrdered():
                self.begun_ns = self.since_ns = now_ns
                for child in self.children.values():
                    self._spawn(child, now_ns)
            case Spawned():
                if (child := self.children[event.backplane]).is_at(event.generation):
                    child.pid, child.cgroup = event.pid, event.cgroup
            case Placed():
                if (child := self.children[event.backplane]).is_at(event.generation):
                    child.cgroup = event.cgroup
                    self._send_directory()
            case SpawnFailed():
                self._on_death(
                    self.children[event.backplane], f"cannot be started: {event.reason}", now_ns, repeats=True
                )
            case Registered():
                self._on_registered(event, now_ns)
            case Moved():
                self._on_moved(event, now_ns)
            case MoveFailed():
                self._on_move_failed(event, now_ns)
            case LinkLost():
                child = self.children[event.backplane]
                if child.is_at(event.generation, Phase.UP):
                    self._kill(child, "closed its control link", now_ns)
            case Exited():
                self._on_exited(event, now_ns)
            case DownOrdered():
                self._on_down_ordered(event, now_ns)
            case TimePassed():
                self._on_time(now_ns)
        self._advance(now_ns)
        effects, self._effects = self._effects, []
        return effects

    def wakes_at_ns(self) -> int | None:
        """When to send `TimePassed`, unless something else happens first."""
        return min((c.deadline_ns for c in self.children.values() if c.deadline_ns is not None), default=None)

    def standings(self) -> dict[str, Standing]:
        """All components of the system."""
        return {name: standing for child in self.children.values() for name, standing in child.standings().items()}

    # Up

    def _spawn(self, child: Child, now_ns: int) -> None:
        child.generation += 1
        child.enter(Phase.STARTING, now_ns, now_ns + self._start_limit_ns)
        self._effects.append(Spawn(child.name, child.generation))

    def _on_registered(self, event: Registered, now_ns: int) -> None:
        registration = event.registration
        child = self.children.get(registration.backplane)
        is_it = child is not None and child.is_at(registration.generation, Phase.STARTING)
        if child is None or not is_it or registration.pid != child.pid:
            who = f"{registration.backplane} generation {registration.generation}"
            self._effects.append(Refuse(event.caller, FailedPrecondition(f"{who} is not expected to register now")))
            return
        child.register(registration, now_ns)
        self._effects.append(Accept(event.caller, child.name))
        self._send_directory()
        if self._is_planned:
            errors = [finding.text for finding in self._findings() if finding.is_error]
            if errors:
                self._kill(child, f"does not fit any more: {errors[0]}", now_ns)

    def _on_moved(self, event: Moved, now_ns: int) -> None:
        child = self.children[event.backplane]
        if child.is_at(event.generation, Phase.UP) and event.component in child.moving:
            child.states[event.component] = child.moving.pop(event.component)
            self._limit_hooks(child, now_ns)

    def _on_move_failed(self, event: MoveFailed, now_ns: int) -> None:
        child = self.children[event.backplane]
        if not child.is_at(event.generation, Phase.UP) or event.component not in child.moving:
            return
        del child.moving[event.component]
        self._limit_hooks(child, now_ns)
        reason = f"component {event.component!r} did not become {event.state}: {event.reason}"
        if self.mode == "stopping":
            self._effects.append(Say(f"backplane {child.name!r}: {reason}", is_error=True))
            if event.state == ModuleState.DOWN.value:
                child.states[event.component] = ModuleState.DOWN
        elif self.mode == "starting" and child.restarts == 0:
            child.reason = reason
            self._abort(f"backplane {child.name!r}: {reason}", now_ns)
        else:
            self._kill(child, reason, now_ns)

    # Deaths

    def _kill(self, child: Child, reason: str, now_ns: int) -> None:
        child.reason = reason
        child.enter(Phase.KILLED, now_ns, now_ns + KILL_LIMIT_NS if self.mode == "stopping" else None)
        self._effects.append(Kill(child.name, child.generation))

    def _on_exited(self, event: Exited, now_ns: int) -> None:
        child = self.children[event.backplane]
        if not child.is_at(event.generation):
            return
        self._effects.append(ClearSlot(child.name))
        if child.phase is Phase.KILLED and child.reason:
            reason = child.reason
        else:
            reason = _obituary(event.code, event.last_words)
        if child.phase is Phase.STOPPING and event.code == 0:
            self._bury(child, now_ns)
            return
        # An exit code is the process's own word, and it would say the same again; a signal came from outside.
        self._on_death(child, reason, now_ns, repeats=event.code >= 0 or child.phase is Phase.KILLED)

    def _on_death(self, child: Child, reason: str, now_ns: int, *, repeats: bool) -> None:
        was = child.phase
        was_up_ns = self._bury(child, now_ns)
        child.reason = reason
        line = f"backplane {child.name!r}: {reason}"
        if self.mode == "stopping":
            if was is not Phase.KILLED:
                self._effects.append(Say(f"{line}, while going down", is_error=True))
        elif self.mode == "starting" and repeats:
            child.enter(Phase.FAILED, now_ns)
            self._abort(line, now_ns)
        else:
            child.history, at_ns = child.history.after_death(child.policy, was_up_ns, now_ns)
            if at_ns is None:
                child.reason = f"{reason}; given up: {sentence(child.policy)}"
                child.enter(Phase.FAILED, now_ns)
                line = f"backplane {child.name!r}: {child.reason}"
                if self.mode == "starting":
                    self._abort(line, now_ns)
                else:
                    self._effects.append(Say(line, is_error=True))
            else:
                when = "now" if at_ns <= now_ns else f"in {(at_ns - now_ns) / 1e9:.1f} s"
                self._effects.append(Say(f"{line}; starting it again {when}", is_error=True))
                child.enter(Phase.WAITING, now_ns, at_ns)

    def _bury(self, child: Child, now_ns: int) -> int:
        was_up_ns = child.bury(now_ns)
        child.enter(Phase.DOWN, now_ns)
        if child.registration is not None:
            self._send_directory()
        return was_up_ns

    # Down

    def _on_down_ordered(self, event: DownOrdered, now_ns: int) -> None:
        if self.mode != "stopping":
            self._go_down(event.because, now_ns)
        if event.is_final:
            self._exit_code = 1
            for child in self.children.values():
                if child.is_living and child.phase is not Phase.KILLED:
                    self._kill(child, "killed: ordered twice to go down", now_ns)

    def _abort(self, reason: str, now_ns: int) -> None:
        """It cannot come up."""
        if self.mode != "stopping":
            self._exit_code = 1
            self._effects.append(Say(reason, is_error=True))
            self._go_down(reason, now_ns)

    def _go_down(self, reason: str, now_ns: int) -> None:
        self._enter("stopping", now_ns)
        self.reason = reason
        for child in self.children.values():
            if child.phase is Phase.WAITING:
                child.enter(Phase.DOWN, now_ns)
            elif child.phase is Phase.STARTING:
                self._kill(child, "", now_ns)  # it serves nobody yet
            elif child.phase is Phase.KILLED:
                child.deadline_ns = now_ns + KILL_LIMIT_NS
            else:
                self._limit_hooks(child, now_ns)

    def _limit_hooks(self, child: Child, now_ns: int) -> None:
        """While stopping: a hook on its way up gets no longer than one on its way down, which has its own limit."""
        if self.mode == "stopping" and child.phase is Phase.UP:
            rising = any(to is not ModuleState.DOWN for to in child.moving.values())
            if not rising:
                child.deadline_ns = None
            elif child.deadline_ns is None:
                child.deadline_ns = now_ns + self._stop_limit_ns

    def _on_time(self, now_ns: int) -> None:
        for child in self.children.values():
            if child.deadline_ns is None or child.deadline_ns > now_ns:
                continue
            if child.phase is Phase.WAITING:
                self._spawn(child, now_ns)
            elif child.phase is Phase.STARTING:
                self._kill(child, f"did not register within {self._start_limit_ns / 1e9:g} s", now_ns)
            elif child.phase is Phase.KILLED:
                self._exit_code = 1
                text = (
                    f"backplane {child.name!r}: process {child.pid} survives SIGKILL (stuck in the kernel): left behind"
                )
                self._effects.append(Say(text, is_error=True))
                self._on_death(child, "left behind", now_ns, repeats=True)
            else:
                self._exit_code = 1
                reason = f"did not stop within {self._stop_limit_ns / 1e9:g} s"
                self._effects.append(Say(f"backplane {child.name!r}: {reason}: killed", is_error=True))
                self._kill(child, reason, now_ns)

    # What follows from where everybody is

    def _advance(self, now_ns: int) -> None:
        if self.mode == "starting" and not self._is_planned:
            self._try_plan(now_ns)
        if self.mode == "stopping":
            self._advance_down(now_ns)
        elif self._is_planned:
            self._advance_up(now_ns)
        for child in self.children.values():
            if child.phase is Phase.WAITING and child.deadline_ns is not None and child.deadline_ns <= now_ns:
                self._spawn(child, now_ns)

    def _try_plan(self, now_ns: int) -> None:
        if not all(child.phase is Phase.UP for child in self.children.values()):
            return
        findings = self._findings()
        self._effects += [
            Say(f"warning: {finding.text}", is_error=True) for finding in findings if not finding.is_error
        ]
        errors = [finding.text for finding in findings if finding.is_error]
        if errors:
            self._abort("\n".join(errors), now_ns)
        self._is_planned = not errors

    def _advance_up(self, now_ns: int) -> None:
        for name, to in moves_up(self.standings(), self.role):
            self._move(name, to, self._start_limit_ns)
        for child in self.children.values():
            if child.up_since_ns is None and child.has_reached(self.role):
                child.up_since_ns = now_ns
                if self.mode == "up":
                    self._effects.append(Say(f"backplane {child.name!r}: up again, generation {child.generation}"))
        if self.mode == "starting" and all(child.up_since_ns is not None for child in self.children.values()):
            self._enter("up", now_ns)
            self._effects.append(AnnounceUp())

    def _advance_down(self, now_ns: int) -> None:
        for name in moves_down(self.standings()):
            self._move(name, ModuleState.DOWN, self._stop_limit_ns)
        for child in self.children.values():
            if child.phase is Phase.UP and child.holds_nothing():
                child.enter(Phase.STOPPING, now_ns, now_ns + self._stop_limit_ns)
                self._effects.append(Stop(child.name, child.generation))
        if not any(child.is_living for child in self.children.values()):
            self._enter("down", now_ns)
            self._effects.append(End(self._exit_code, self.reason))

    def _move(self, component: str, to: ModuleState, limit_ns: int) -> None:
        child = next(c for c in self.children.values() if component in c.states)
        child.moving[component] = to
        self._effects.append(Move(child.name, child.generation, component, to.value, limit_ns))

    def _enter(self, mode: str, now_ns: int) -> None:
        self.mode, self.since_ns = mode, now_ns

    def _findings(self) -> list[plan.Finding]:
        return plan.find(c.registration for c in self.children.values() if c.registration is not None)

    def _send_directory(self) -> None:
        registered = [c.registration for c in self.children.values() if c.registration is not None]
        down = {name for name, child in self.children.items() if child.phase not in (Phase.UP, Phase.STOPPING)}
        cgroups = {name: child.cgroup for name, child in self.children.items()}
        self.directory = directory.build(self.system, self.directory.version + 1, registered, down, cgroups)
        self._effects.append(SendDirectory(self.directory))


def _obituary(code: int, last_words: str) -> str:
    how = f"killed by signal {-code}" if code < 0 else f"exited with {code}"
    return f"{how}: {last_words}" if last_words and code != 0 else how
