"""Run: the supervisor's loop. Observations become events, the director decides, and its effects are carried out.

One thread, one poll: the control socket, a pidfd and two pipes for each process, signals, and the output while lines wait.
No iteration blocks and each source has a share of it, so a death is seen within one iteration. Nothing is decided here:
director.py tells why something happens.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.addressing import supervisor_socket

from .cluster.tenure import Tenure
from .configuration.config import Config
from .control import status
from .control.control_socket import Answered, ControlSocket, Crowded, Heard, SupervisorCall, allow_descriptors
from .control.desk import SupervisorRoutes
from .control.limits import Limits
from .control.questions import Questions
from .control.reconfiguring import Reconfiguring
from .control.trials import Trials
from .direction import effects, events
from .direction.child.process import MOVABLE, Phase
from .direction.child.settings import settings_of
from .direction.director import Director
from .direction.draining import ANSWER_NS, body_of, drained
from .logs.collector import Ears, Logs, open_log
from .logs.output import Output
from .logs.pipes import LogPipe
from .poller import Poller
from .processes import cgroups, orphans, signals, urgency
from .processes.board_file import BoardFile
from .processes.guarding import Guarding
from .processes.looks import Looks
from .processes.placement import Placement
from .processes.run_dir import RunDir
from .processes.service_manager import ServiceManager
from .processes.spawn import Process, Spawner

#: Longest wait at the end for a slow reader of our output.
LAST_LINES_MS = 200


class SystemEnd(NamedTuple):
    """Exit code of a system, and the reason of its end."""

    exit_code: int
    #: Why it went down; empty if no reason was given.
    reason: str


def run(
    config: Config, output: Output | None, on_up: Callable[[tuple[str, ...]], None], notices: Sequence[str] = ()
) -> SystemEnd:
    """Bring the system up, keep it up, and take it down on a signal or `supervisor.down`. Main thread only.

    `output`: shows lines besides the log. `on_up`: called once the system has settled, with a line for each problem.
    `notices`: first lines of the log. Raises `FailedPrecondition` if the system runs already, or if its run directory or log
    folder cannot be used. Returns when no process is left.
    """
    allow_descriptors()
    with ExitStack() as stack:
        # From here on an interrupt is a graceful shutdown.
        signal_pipe = stack.enter_context(signals.as_events(signals.of_supervisor()))
        run_dir = RunDir(Path(config.run_dir), config.system.name, config.file)
        stack.callback(run_dir.close)
        logs = Logs(config, open_log(config), output, RealClock.now_ns)
        stack.callback(logs.close, LAST_LINES_MS)
        service = ServiceManager.of(os.environ, os.getpid(), logs.say)
        stack.callback(service.close)
        for notice in (*notices, *run_dir.reclaim()):
            logs.say(notice)
        left = [life.cgroup for life in run_dir.left if life.cgroup is not None]
        placement = Placement.of(
            config, lambda needed: cgroups.make(config.system.name, run_dir.path, left, is_needed=needed)
        )
        groups = placement.groups
        folder = None if groups.folder is None else str(groups.folder)
        run_dir.settle(folder)
        urgency.raise_own(is_alone=groups.folder is not None)
        stack.callback(groups.close, logs.say)
        nice = min(config.system.nice, default=0)
        guarding = Guarding(config.system.name, run_dir.mark, folder, nice, logs.say, RealClock.now_ns)
        stack.callback(guarding.close)
        orphans.adopt()
        stack.callback(lambda: orphans.kill_all((guarding.pid,)))
        return Supervisor(config, run_dir, placement, signal_pipe, logs, guarding, service, on_up, stack).run()


class _Running(NamedTuple):
    """A process and the readers of its output."""

    process: Process
    ears: Ears


class Supervisor:
    """Runs one system: observes its processes and carries out the director's effects."""

    def __init__(
        self,
        config: Config,
        run_dir: RunDir,
        placement: Placement,
        signal_pipe: signals.SignalPipe,
        logs: Logs,
        guarding: Guarding,
        service: ServiceManager,
        on_up: Callable[[tuple[str, ...]], None],
        stack: ExitStack,
    ) -> None:
        self._logs, self._say, self._on_up = logs, logs.say, on_up
        self._now_ns, self._run_dir = RealClock.now_ns, run_dir
        self._board = BoardFile(config.backplane)
        stack.callback(self._board.close)
        self._control = ControlSocket(supervisor_socket(run_dir.path), config.system.local_link)
        stack.callback(self._control.close)
        self._placement = placement
        slots, self._identities = self._board.slots, self._control.identities
        self._spawner = Spawner(
            config, self._board.fd, slots, placement, run_dir.mark, guarding.lifeline_fd, self._identities.token
        )
        self._director = Director(
            config.system.name,
            settings_of(config),
            role=ModuleState(config.system.role),
            random=random.random,
            first_generation=run_dir.first_generation,
            stuck_after_ns={name: config.stuck_after_ns(name) for name in config.backplane},
            node=config.carrier,
            node_name=config.node_name,
            is_in_cluster=config.cluster is not None,
        )
        self._tenure: Tenure | None = None
        if config.cluster is not None and config.node is not None:
            self._tenure = Tenure(config.cluster, config.node.name, self._director, self._take, self._say)
            stack.callback(self._tenure.close)
        self._looks = Looks(self._director.health, self._board, self._placement)
        self._running: dict[str, _Running] = {}
        stack.callback(self._kill_what_lives)
        processes = lambda: {name: running.process for name, running in self._running.items()}  # noqa: E731
        self._limits = Limits(placement, self._control, processes, take=self._take, warn=self._warn)
        self._questions = Questions(self._control, self._director, self._board, self._now_ns, self._status)
        self._reconfiguring = Reconfiguring(
            config, control=self._control, director=self._director, board=self._board, placement=placement,
            spawner=self._spawner, logs=logs, take=self._take, place=self._limits.place, now_ns=self._now_ns,
        )  # fmt: skip
        self._poller = Poller()
        self._trials = Trials(self._control, self._director, self._spawner, self._poller, self._take, self._now_ns)
        self._desk = SupervisorRoutes(
            control=self._control, director=self._director, questions=self._questions, trials=self._trials,
            reconfiguring=self._reconfiguring, tenure=self._tenure, take=self._take, status_now=self._status,
            change_limit=self._limits.change, say=self._say,
        )  # fmt: skip
        self._events: deque[events.Event] = deque()
        stack.callback(self._desk.close)
        self._outcome: SystemEnd | None = None
        self._guarding, self._service, self._signals = guarding, service, signal_pipe
        self._poller.watch(signal_pipe.fd, self._on_signals)
        self._control.watch(self._poller)
        guarding.watch(self._poller)
        if self._tenure is not None:
            self._tenure.watch(self._poller)

    def run(self) -> SystemEnd:
        """Loop until no process is left."""
        self._warn(self._placement.warnings())
        self._take(events.UpOrdered())
        while self._outcome is None:
            self._turn()
        return self._outcome

    def _turn(self) -> None:
        now_ns = self._now_ns()
        heard, gone = self._control.turn(now_ns)
        for one in heard:
            self._on_heard(one)
        for peer in gone:
            if (lost := self._identities.generation_of(peer)) is not None and lost[0] in self._running:
                self._take(events.LinkLost(*lost))
        wakes_at_ns = self._director.wakes_at_ns()
        if wakes_at_ns is not None and wakes_at_ns <= now_ns and self._outcome is None:
            self._take(events.TimePassed())
        self._looks.turn(now_ns, (running.process for running in self._running.values()), self._take)
        for turn in (self._logs.turn, self._reconfiguring.turn, self._trials.turn, self._service.turn):
            turn(now_ns)
        self._guarding.turn(now_ns)
        if self._tenure is not None and self._outcome is None:
            self._tenure.turn()
        if self._outcome is None:
            self._wait()

    def _wait(self) -> None:
        now_ns = self._now_ns()
        wakes = [self._director.wakes_at_ns(), self._control.next_wake_ns(now_ns), self._service.next_wake_ns(now_ns)]
        wakes += [self._looks.due_ns, self._logs.next_wake_ns(), self._guarding.due_ns]
        wakes += [self._reconfiguring.next_wake_ns(), self._trials.next_wake_ns()]
        wakes.append(None if self._tenure is None else self._tenure.next_wake_ns(now_ns))
        nearest_ns = min((wake for wake in wakes if wake is not None), default=None)
        self._poller.wait(nearest_ns, now_ns, lambda: self._outcome is None, room_in=self._logs.waits_for_fd())

    # Observations

    def _on_signals(self) -> None:
        for number in self._signals.read():
            if number in signals.ORDERS and self._outcome is None:
                # SIGHUP never kills: kernel and shell both send it when a terminal closes.
                is_final = self._director.mode == "stopping" and number is not signal.SIGHUP
                self._say(f"{number.name}: {'killing everything' if is_final else 'going down (again: kill at once)'}")
                self._take(events.DownOrdered(number.name, is_final=is_final))
        orphans.bury({each.process.pid for each in self._running.values()} | self._trials.pids | {self._guarding.pid})

    def _on_exit(self, running: _Running) -> None:
        process = running.process
        del self._running[process.backplane]
        self._poller.unwatch(process.pidfd)
        for _, pipe in running.ears.pipes:
            self._poller.unwatch(pipe.fd)
        self._poller.unwatch(running.ears.ring.wake_fd)
        last_words = self._logs.bury(running.ears)
        code = process.reap()
        self._control.forget(self._identities.peer_of(process.backplane, process.generation))
        self._run_dir.remove_socket(process.backplane, process.generation)
        is_oom = self._looks.memory.has_killed(code)
        self._take(events.Exited(process.backplane, process.generation, code, last_words, is_oom))

    def _on_print(self, ears: Ears, stream: str, pipe: LogPipe) -> None:
        if not self._logs.on_print(ears, stream, pipe):
            self._poller.unwatch(pipe.fd)
        if stream == "stderr" and self._director.health.awaits_stacks(ears.backplane) and self._outcome is None:
            self._take(events.Wrote(ears.backplane, ears.generation))

    def _on_heard(self, heard: Heard) -> None:
        if self._outcome is not None:
            return
        if isinstance(heard, SupervisorCall):
            self._desk.serve(heard)
        elif isinstance(heard, Answered):
            self._on_answered(heard)
        elif isinstance(heard, Crowded):
            self._warn([heard.line])
        else:
            generation = self._identities.generation_of(heard.peer)  # the identity itself is secret
            who = "{}, generation {}".format(*generation) if generation is not None else repr(heard.peer)
            self._say(f"malformed frame from {who} dropped (further ones are only counted): {heard.reason}")

    def _on_answered(self, answered: Answered) -> None:
        if self._questions.take(answered) or self._reconfiguring.take(answered):
            return
        move = answered.token  # the effect that made the call
        if isinstance(move, effects.Drain):
            self._take(drained(move, answered.result, answered.error))
            return
        assert isinstance(move, effects.Move)
        if answered.error is None:
            self._take(events.Moved(move.backplane, move.generation, move.component, move.state))
        else:
            reason = answered.error.message
            self._take(events.MoveFailed(move.backplane, move.generation, move.component, move.state, reason))

    # Reports

    def _status(self, statistics: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "config": self._reconfiguring.describe(),
            "cluster": self._tenure and self._tenure.describe(),
        } | status.status(
            self._director,
            self._board.read,
            lambda name: self._placement.describe(name) | self._logs.describe(name),
            self._logs.describe_file(),
            pid=os.getpid(),
            now_ns=self._now_ns(),
            wall_s=time.time(),
            statistics=statistics,
            unanswered=self._questions.unanswered,
        )

    def _warn(self, lines: list[str]) -> None:
        for line in lines:
            self._say(f"warning: {line}", "WARNING")

    # Decisions and effects

    def _take(self, event: events.Event) -> None:
        """Pass an event to the director and carry out its effects. Events that these raise are queued behind it."""
        self._events.append(event)
        if len(self._events) > 1:  # a nested call: the outer loop handles it
            return
        while self._events and self._outcome is None:
            for effect in self._director.handle(self._events[0], self._now_ns()):
                self._do(effect)
            self._events.popleft()
        if self._service.is_heard:
            self._service.tell(self._director.mode, status.headline(self._director))

    def _do(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Spawn():
                self._spawn(effect)
            case effects.Move():
                body = {"component": effect.component, "state": effect.state, "epoch": effect.epoch}
                self._call(effect.backplane, effect.generation, "control.move", body, effect, effect.limit_ns)
            case effects.Drain():
                limit_ns = effect.limit_ns + effect.stop_limit_ns + ANSWER_NS
                self._call(effect.backplane, effect.generation, "control.drain", body_of(effect), effect, limit_ns)
            case effects.Stop():
                self._placement.lift(effect.backplane)
                self._control.cast(self._identities.peer_of(effect.backplane, effect.generation), "control.stop", {})
            case effects.Kill() | effects.TakeStacks():
                running = self._running.get(effect.backplane)
                if running is not None and running.process.generation == effect.generation:
                    if isinstance(effect, effects.Kill):
                        running.process.kill()
                    else:
                        self._looks.ask_for_stacks(running.process, by_force=effect.by_force)
            case effects.ClearSlot():
                self._board.clear(effect.backplane)
            case effects.SendDirectory():
                self._send_directory(effect)
            case effects.Accept():
                self._warn(self._placement.registered(effect.backplane))
                self._logs.know(effect.backplane, self._director.children[effect.backplane].components.states)
                self._control.reply(effect.caller, self._placement.told(effect.backplane))
                self._reconfiguring.registered(effect.backplane)
            case effects.ReplyToCaller():
                self._control.reply(effect.caller, effect.result)
            case effects.Refuse():
                self._control.refuse(effect.caller, effect.error)
            case effects.Say():
                self._say(effect.text, "ERROR" if effect.is_error else "INFO")
            case effects.AnnounceUp():
                self._say(f"system {self._director.system!r} is up, pid {os.getpid()}")
                for problem in effect.problems:
                    self._say(f"but {problem}")
                self._on_up(effect.problems)
            case effects.End():
                self._say("down" if not effect.exit_code else f"down, exit code {effect.exit_code}: {effect.reason}")
                self._outcome = SystemEnd(effect.exit_code, effect.reason)

    def _spawn(self, effect: effects.Spawn) -> None:
        name, generation = effect.backplane, effect.generation
        try:
            ears = self._logs.listen(name, generation)
            try:
                process = self._spawner.spawn(name, generation, ears.ring)
            except OSError:
                self._logs.forget(ears)
                raise
        except OSError as error:
            self._take(events.SpawnFailed(name, generation, error.strerror or str(error)))
            return
        ears.pipes = (("stdout", LogPipe(process.stdout.fileno())), ("stderr", LogPipe(process.stderr.fileno())))
        running = self._running[name] = _Running(process, ears)
        self._poller.watch(process.pidfd, lambda: self._on_exit(running))
        self._poller.watch(ears.ring.wake_fd, lambda: ears.watch.wake(self._now_ns()))
        for stream, pipe in ears.pipes:
            self._poller.watch(pipe.fd, lambda stream=stream, pipe=pipe: self._on_print(ears, stream, pipe))  # type: ignore[misc]
        self._reconfiguring.spawned(name)
        self._take(events.Spawned(name, generation, process.pid, self._placement.folder_of(name)))

    def _call(
        self, backplane: str, generation: int, route: str, body: dict[str, Any], token: object, limit_ns: int
    ) -> None:
        peer = self._identities.peer_of(backplane, generation)
        self._control.call(peer, route, body, token, self._now_ns(), limit_ns)

    def _send_directory(self, effect: effects.SendDirectory) -> None:
        body = {"directory": effect.directory.to_body()}
        for child in self._director.children.values():
            if child.process.phase in (*MOVABLE, Phase.STOPPING):
                peer = self._identities.peer_of(child.name, child.process.generation)
                self._control.cast(peer, "control.directory", body)
        self._control.publish(effect.directory)

    def _kill_what_lives(self) -> None:
        """Kill and reap every process that is left: there is one only after an internal error."""
        for running in self._running.values():
            running.process.kill()
            self._logs.bury(running.ears)  # reaping closes what is read here
            running.process.reap()
