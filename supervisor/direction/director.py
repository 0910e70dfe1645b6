"""Director: decides the next steps of a system. (event, now) in, effects out; no process is touched here.

It starts the backplanes, moves their components in the order of their dependencies (movement.py), judges deaths
(restart.py), and takes everything down in reverse. All waits are bounded: a start, a hook and a stop each have a limit, after
which the process is killed or the component left behind; a second order to go down kills at once. Until the system has
been up once, a process that cannot even be constructed ends the whole system, with its reason. After that only that
backplane, and those that its policy names, are restarted or given up. Once all have ended, and none is wanted back, the system
goes down. `run.py` carries the effects out.
"""

from __future__ import annotations

from collections.abc import Mapping

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import FailedPrecondition

from . import draining, events, group_restart, places, plan, replicas, standing_by, turnover
from .child.child import Child
from .child.process import MOVABLE, ChildProcess, Phase
from .child.settings import ChildSettings
from .effects import Accept, AnnounceUp, ClearSlot, Effect, End, Kill, Refuse, Say, SendDirectory, Spawn
from .health import HealthWatch
from .movement import Movement
from .ordered_restart import OrderedRestarts
from .restart import GiveUp, Random, StartAgain, is_wanted_back

#: How long SIGKILL may take while going down (0.9 s were measured for a throttled process: TRAPS 22). A process that
#: survives it is stuck in the kernel, so waiting longer is of no use.
KILL_LIMIT_NS = 10_000_000_000
#: Why a system goes down in which no process is left, and none is wanted back (restart.py).
ALL_ENDED = "all backplanes have ended"

PRIMARY, SECONDARY = ModuleState.PRIMARY, ModuleState.SECONDARY


class Director:
    """The state machine of one system, from the first spawn to the last death."""

    def __init__(
        self,
        system: str,
        settings: Mapping[str, ChildSettings],
        *,
        role: ModuleState,
        random: Random,
        first_generation: int = 1,
        stuck_after_ns: Mapping[str, int] | None = None,
        node: str = "",
        node_name: str = "",
        is_in_cluster: bool = False,
    ) -> None:
        """`settings`: of each backplane, by name. `random`: 0 to 1. `stuck_after_ns`: health.py. `node`: the backplane that
        connects to other nodes; `node_name`: of this node among them. `is_in_cluster`: this node begins as secondary, until
        it is `Granted` to be primary.
        """
        self.system, self._node, self._node_name = system, node, node_name
        self._past = turnover.Past(first_generation)
        self.children = {
            name: Child(name, each, ChildProcess(self._past.before(name))) for name, each in settings.items()
        }
        self.movement = Movement(self.children, role, random, SECONDARY if is_in_cluster else PRIMARY)
        self.restarts = OrderedRestarts(self.children, self.movement)
        self.health = HealthWatch(self.children, stuck_after_ns or {})
        self.directory = Directory(system=system, node=node, node_name=node_name, missing=tuple(self.children))
        #: "starting", "up", "stopping" or "down".
        self.mode = "starting"
        #: When it was ordered up, and when it entered its current mode.
        self.begun_ns = self.since_ns = 0
        #: Why it is going down.
        self.reason = ""
        self._exit_code = 0
        self._random = random
        self._effects: list[Effect] = []

    def handle(self, event: events.Event, now_ns: int) -> list[Effect]:
        """Returns the effects to carry out for `event`, in order."""
        assert self.mode != "down", "nothing happens to a system that has ended"
        if getattr(event, "backplane", None) not in (None, *self.children):
            return []  # a late event of a backplane that was removed
        match event:
            case events.UpOrdered():
                self.begun_ns = self.since_ns = now_ns
                for child in self.children.values():
                    self._spawn(child, now_ns)
            case events.Spawned():
                if (child := self.children[event.backplane]).process.is_at(event.generation):
                    child.process.spawned(event.pid, event.cgroup)
            case events.Placed():
                if (child := self.children[event.backplane]).process.is_at(event.generation):
                    child.process.placed(event.cgroup)
                    self._send_directory()
            case events.SpawnFailed():
                reason = f"cannot be started: {event.reason}"
                self._on_death(self.children[event.backplane], reason, now_ns, repeats=True)
            case events.Registered():
                self._on_registered(event, now_ns)
            case events.Moved():
                self._on_moved(event, now_ns)
            case events.MoveFailed():
                self._on_move_failed(event, now_ns)
            case events.LinkLost():
                child = self.children[event.backplane]
                if child.process.is_at(event.generation, *MOVABLE):
                    self._kill(child, "closed its control link", now_ns)
            case events.Exited():
                self._on_exited(event, now_ns)
            case events.MoveOrdered():
                self.movement.order(event, now_ns)
            case events.Granted():
                self.movement.limit(PRIMARY, event.epoch)
                self._effects.append(Say(f"this node is primary, epoch {event.epoch}"))
                self._send_directory()
            case events.Withdrawn():
                self.movement.limit(SECONDARY)
                self._effects += standing_by.step_down(self.children, event, now_ns)
                self._send_directory()
            case events.Reconfigured():
                self._on_reconfigured(event, now_ns)
            case events.RestartOrdered():
                self._effects += self.restarts.order(event, now_ns, is_going_down=self.mode == "stopping")
            case events.Drained():
                self._effects += draining.ended(self.children[event.backplane], event)
            case events.DownOrdered():
                self._on_down_ordered(event, now_ns)
            case events.Looked() | events.Wrote():
                self._effects += self.health.take(event, now_ns, is_judging=self.mode == "up")
            case events.TimePassed():
                self._on_time(now_ns)
        for child in standing_by.overdue(self.children, now_ns):
            self._kill(child, "was still primary after its node had become secondary", now_ns)
        for child, reason in self.health.due(now_ns, is_judging=self.mode == "up"):
            self._kill(child, reason, now_ns)
        self._advance(now_ns)
        if (self.directory.unready, self.directory.node, self.directory.node_name) != (
            replicas.unready(self.children),
            self._node,
            self._node_name,
        ):
            self._send_directory()
        effects, self._effects = self._effects, []
        return effects

    def wakes_at_ns(self) -> int | None:
        """When to send `TimePassed`, unless something else happens first."""
        waits = [
            child.process.deadline_ns
            for child in self.children.values()
            if child.process.deadline_ns is not None and not group_restart.is_held(self.children, child)
        ]
        others = (*(each.wakes_at_ns() for each in (self.movement, self.restarts, self.health)),)
        others = (*others, standing_by.wakes_at_ns(self.children))
        waits += [at_ns for at_ns in others if at_ns is not None]
        return min(waits, default=None)

    # Up

    def _spawn(self, child: Child, now_ns: int) -> None:
        child.spawn(now_ns)
        self._effects.append(Spawn(child.name, child.process.generation))

    def _on_registered(self, event: events.Registered, now_ns: int) -> None:
        registration = event.registration
        child = self.children.get(registration.backplane)
        is_it = child is not None and child.process.is_at(registration.generation, Phase.STARTING)
        if child is None or not is_it or registration.pid != child.process.pid:
            who = f"{registration.backplane} generation {registration.generation}"
            self._effects.append(Refuse(event.caller, FailedPrecondition(f"{who} is not expected to register now")))
            return
        child.register(registration, now_ns)
        self._effects.append(Accept(event.caller, child.name))
        self._send_directory()
        if self.movement.is_planned:
            errors = [finding.text for finding in self._findings() if finding.is_error]
            if errors:
                self._kill(child, f"no longer fits the system: {errors[0]}", now_ns)

    def _on_moved(self, event: events.Moved, now_ns: int) -> None:
        child = self.children[event.backplane]
        if child.process.is_at(event.generation, *MOVABLE) and event.component in child.components.moving:
            self.movement.moved(child, event)
            self._limit_hooks(child, now_ns)

    def _on_move_failed(self, event: events.MoveFailed, now_ns: int) -> None:
        child = self.children[event.backplane]
        if child.process.is_at(event.generation, *MOVABLE) and event.component in child.components.moving:
            because = self.movement.failed(child, event, now_ns)
            if because is not None:
                self._abort(because, now_ns)
            self._limit_hooks(child, now_ns)

    # Deaths

    def _kill(self, child: Child, reason: str, now_ns: int) -> None:
        child.kill(reason, now_ns, now_ns + KILL_LIMIT_NS if self.mode == "stopping" else None)
        self._effects.append(Kill(child.name, child.process.generation))

    def _on_exited(self, event: events.Exited, now_ns: int) -> None:
        child = self.children[event.backplane]
        if not child.process.is_at(event.generation):
            return
        self._effects.append(ClearSlot(child.name))
        was_killed = child.process.phase is Phase.KILLED
        reason = child.history.reason if was_killed and child.history.reason else self.health.obituary(event)
        # A process that exits with a code would do so again; a signal came from outside.
        repeats = event.code >= 0 or was_killed
        self._on_death(child, reason, now_ns, repeats=repeats, is_normal=event.code == 0)

    def _on_death(self, child: Child, reason: str, now_ns: int, *, repeats: bool, is_normal: bool = False) -> None:
        was, was_leaving = child.process.phase, child.departure.is_leaving
        was_up_ns = self._bury(child, now_ns)
        line = f"backplane {child.name!r}: {reason}"
        if self.mode == "stopping" or was_leaving:
            is_in_order = was is Phase.STOPPING and is_normal
            if not is_in_order:
                child.history.note(reason)
                if was is not Phase.KILLED:
                    self._effects.append(Say(f"{line}, while going down", is_error=True))
            if self.mode != "stopping":
                group_restart.has_gone(child, now_ns)
                if not is_in_order:
                    self._effects += draining.cut(self.children, child)
            return
        child.history.die(reason)
        # At first start a failed construction is not retried; a process that had registered is judged by its policy.
        is_let_go = child.components.registration is not None and not is_wanted_back(
            child.settings.policy, is_normal=is_normal
        )
        if self.mode == "starting" and repeats and not is_let_go:
            child.stay_down(Phase.FAILED, reason, now_ns)
            self._abort(line, now_ns)
        else:
            is_normal = is_normal and was is not Phase.KILLED
            verdict = child.history.judge_end(
                child.settings.policy, is_normal=is_normal, up_ns=was_up_ns, now_ns=now_ns, random=self._random
            )
            if isinstance(verdict, StartAgain):
                self._start_again(child, line, verdict.at_ns, now_ns)
            elif isinstance(verdict, GiveUp):
                self._give_up(child, f"{reason}; given up: {verdict.because}", now_ns)
            else:
                child.stay_down(Phase.ENDED, f"{reason}; {verdict.because}", now_ns)
                self._effects.append(Say(f"backplane {child.name!r}: {child.history.reason}", is_error=not is_normal))

    def _start_again(self, child: Child, line: str, at_ns: int, now_ns: int) -> None:
        leaving = group_restart.begin(self.children, child, at_ns, now_ns)
        when = "now" if at_ns <= now_ns else f"in {(at_ns - now_ns) / 1e9:.1f} s"
        names = ", ".join(other.name for other in leaving)
        with_whom = f", and with it {names} ({child.settings.policy.strategy})" if leaving else ""
        self._effects.append(Say(f"{line}; starting it again {when}{with_whom}", is_error=True))
        self._effects += draining.cut(self.children, child)
        for other in leaving:
            self._limit_hooks(other, now_ns)

    def _give_up(self, child: Child, reason: str, now_ns: int) -> None:
        child.stay_down(Phase.FAILED, reason, now_ns)
        line = f"backplane {child.name!r}: {reason}"
        if self.mode == "starting" or child.settings.policy.on_give_up == "shutdown":
            self._abort(line, now_ns)
        else:
            self._effects.append(Say(line + self.movement.consequence(child, child.components.states), is_error=True))

    def _bury(self, child: Child, now_ns: int) -> int:
        was_up_ns = child.bury(now_ns)
        if child.components.registration is not None:
            self._send_directory()
        return was_up_ns

    def _on_reconfigured(self, event: events.Reconfigured, now_ns: int) -> None:
        assert self.mode == "up", "who asks looks at the mode"
        self._effects += turnover.begin(self.children, self.movement, event, now_ns, self._past)
        self.health.configure({name: event.new.stuck_after_ns(name) for name in event.new.backplane})
        self._node, self._node_name = event.new.carrier, event.new.node_name

    # Down

    def _on_down_ordered(self, event: events.DownOrdered, now_ns: int) -> None:
        if self.mode != "stopping":
            self._go_down(event.because, now_ns)
        if event.is_final:
            self._exit_code = 1
            for child in self.children.values():
                if child.process.is_living and child.process.phase is not Phase.KILLED:
                    self._kill(child, "killed: ordered a second time to go down", now_ns)

    def _abort(self, reason: str, now_ns: int) -> None:
        """Take the system down with exit code 1, because it cannot start or go on."""
        if self.mode != "stopping":
            self._exit_code = 1
            self._effects.append(Say(reason, is_error=True))
            self._go_down(reason, now_ns)

    def _go_down(self, reason: str, now_ns: int) -> None:
        self._enter("stopping", now_ns)
        given_up = [child.name for child in self.children.values() if child.process.phase is Phase.FAILED]
        self.reason = reason
        if given_up and not self._exit_code:
            self._exit_code = 1
            self.reason = f"{reason}; had been given up: {', '.join(given_up)}"
        self.movement.is_going_down = True
        self.movement.refuse_orders()
        self._effects += self.restarts.refuse_all()
        for child in self.children.values():
            draining.order(child)
            if child.process.phase is Phase.WAITING:
                child.process.enter(Phase.DOWN, now_ns)
            elif child.process.phase is Phase.STARTING:
                self._kill(child, "", now_ns)  # it has no callers yet
            elif child.process.phase is Phase.KILLED:
                child.process.set_deadline(now_ns + KILL_LIMIT_NS)
            else:
                self._limit_hooks(child, now_ns)

    def _limit_hooks(self, child: Child, now_ns: int) -> None:
        if self.mode == "stopping" or child.departure.is_leaving:
            draining.limit_hooks(child, now_ns)

    def _on_time(self, now_ns: int) -> None:
        if (because := self.movement.time_passed(now_ns)) is not None:
            self._abort(because, now_ns)
        for child in self.children.values():
            if child.process.deadline_ns is None or child.process.deadline_ns > now_ns:
                continue
            if child.process.phase is Phase.WAITING:
                continue  # `_advance` spawns it
            if child.process.phase is Phase.STARTING:
                self._kill(child, f"did not register within {child.settings.start_limit_ns / 1e9:g} s", now_ns)
            elif child.process.phase is Phase.KILLED:
                self._exit_code = 1
                survives = f"process {child.process.pid} survives SIGKILL (stuck in the kernel): left behind"
                self._effects.append(Say(f"backplane {child.name!r}: {survives}", is_error=True))
                self._on_death(child, "left behind", now_ns, repeats=True)
            else:
                if self.mode == "stopping":
                    self._exit_code = 1
                reason = draining.too_late(child)
                self._effects.append(Say(f"backplane {child.name!r}: {reason}: killed", is_error=True))
                self._kill(child, reason, now_ns)

    # Consequences of the current state

    def _advance(self, now_ns: int) -> None:
        if turnover.sweep(self.children, self._past):
            self._send_directory()
        if self.mode == "starting" and not self.movement.is_planned:
            self._try_plan(now_ns)
        news = self.restarts.advance(now_ns)
        while True:  # moves may complete an order, so that the next one for its backplane begins
            self._effects += [*news, *self.movement.advance(now_ns)]
            self._see_up(now_ns)
            if not (news := self.restarts.advance(now_ns)):
                break
        if self.mode == "up" and all(child.process.phase is Phase.ENDED for child in self.children.values()):
            self._effects.append(Say(f"{ALL_ENDED}: going down"))
            self._go_down(ALL_ENDED, now_ns)
        # Only once all that have to go are known: dependents are drained before their dependencies.
        if begun := draining.begin(self.children, now_ns, is_going_down=self.mode == "stopping"):
            self._send_directory()
            self._effects += begun
        self._effects += self.movement.advance(now_ns)  # for backplanes without work to finish
        self._effects += draining.let_go(self.children, now_ns, is_going_down=self.mode == "stopping")
        self._see_end(now_ns)
        for child in self.children.values():
            is_due = child.process.deadline_ns is not None and child.process.deadline_ns <= now_ns
            if child.process.phase is Phase.WAITING and is_due and not group_restart.is_held(self.children, child):
                self._spawn(child, now_ns)

    def _try_plan(self, now_ns: int) -> None:
        can_be_judged = (Phase.UP, Phase.ENDED)
        for child in self.children.values():
            if child.components.registration is None or child.process.phase not in can_be_judged:
                return
        findings = self._findings()
        warnings = [finding.text for finding in findings if not finding.is_error]
        self._effects += [Say(f"warning: {text}", is_error=True) for text in warnings]
        errors = [finding.text for finding in findings if finding.is_error]
        if errors:
            self._abort("\n".join(errors), now_ns)
        self.movement.is_planned = not errors

    def _see_up(self, now_ns: int) -> None:
        if self.mode == "stopping" or not self.movement.is_planned:
            return
        targets = self.movement.targets(self.movement.standings())
        for child in self.children.values():
            if child.history.up_since_ns is None and not child.departure.is_leaving and child.has_reached(targets):
                child.history.see_up(now_ns)
                if self.mode == "up":
                    up = "up again" if child.process.restarts else "up"
                    self._effects.append(Say(f"backplane {child.name!r}: {up}, generation {child.process.generation}"))
        if self.mode == "starting" and self.movement.is_settled():
            self._enter("up", now_ns)
            self._effects.append(AnnounceUp(tuple(self.movement.problems())))

    def _see_end(self, now_ns: int) -> None:
        if self.mode == "stopping" and not any(child.process.is_living for child in self.children.values()):
            self._enter("down", now_ns)
            self._effects.append(End(self._exit_code, self.reason))

    def _enter(self, mode: str, now_ns: int) -> None:
        self.mode, self.since_ns = mode, now_ns

    def _findings(self) -> list[plan.PlanFinding]:
        replica_of, has_node = replicas.in_common(self.children), bool(self._node)
        return plan.find(group_restart.registrations(self.children), replica_of, has_node=has_node)

    def _send_directory(self) -> None:
        version, ceiling = self.directory.version + 1, self.movement.ceiling
        self.directory = places.directory_of(self.system, version, self.children, self._node, ceiling, self._node_name)
        self._effects.append(SendDirectory(self.directory))
