"""Spawn: starts backplane processes, and ends and reaps them.

Exec only, from the main thread, no code between (TRAPS 20). Each process has a group of its own, so that all of it can be
killed. It stays in the supervisor's session, because nice does not count between sessions (DESIGN section 5). It learns of
the supervisor's death by a pipe (guarding.py), and we of its death by a pidfd. After its death, the rest of its group is
killed before the group's number can be used again. About a millisecond a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from appbackplane.runtime.execution.logs.log_ring import RingReader
from appbackplane.runtime.observation.log_line import LEVELS
from appbackplane.runtime.process_config import ProcessConfig, ReplayPolicy

from ..configuration import record_settings, trace_settings
from ..configuration.config import BackplaneConfig, Config
from . import leftovers
from .placement import Placement

#: -P: imports come from the TOML's own folder, not from the one in which `up` happened to be typed.
COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "appbackplane.runtime.process")


class Process:
    """One generation of a backplane, from its spawn until it is reaped."""

    def __init__(self, config: ProcessConfig, popen: subprocess.Popen[bytes], before_kill: Callable[[], None]) -> None:
        self.backplane, self.generation = config.backplane, config.generation
        self.pid = popen.pid
        #: Readable once it is dead.
        self.pidfd = os.pidfd_open(popen.pid)
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.stdout, self.stderr = popen.stdout, popen.stderr
        self._popen, self._before_kill = popen, before_kill

    def kill(self) -> None:
        """SIGKILL to its whole group."""
        self._before_kill()
        # Not reaped yet, so the number is still its own, even if it is dead.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Call after its pidfd was readable: end its group, and return its exit code; below 0 is a signal."""
        self.kill()
        code = self._popen.wait()
        self.stdout.close()
        self.stderr.close()
        os.close(self.pidfd)
        return code


@dataclass(slots=True)
class Spawner:
    """Starts the processes of one system."""

    #: Configuration of the next generation of each backplane.
    config: Config
    board_fd: int
    slots: Mapping[str, int]
    placement: Placement
    #: Identifies all our descendants (leftovers.py).
    mark: str
    #: Closes at our end (guarding.py).
    lifeline_fd: int
    #: Of a backplane and a generation; it identifies the control link (control/identities.py).
    token: Callable[[str, int], str]

    def spawn(self, backplane: str, generation: int, ring: RingReader) -> Process:
        """Start one generation, whose log is read from `ring`. Raises OSError if no process can be started."""
        placement = self.placement
        placement.begin(backplane)
        config = msgspec.structs.replace(
            process_config(self.config, backplane),
            generation=generation,
            token=self.token(backplane, generation),
            board_fd=self.board_fd,
            board_slot=self.slots[backplane],
            lifeline_fd=self.lifeline_fd,
            log_fd=ring.fd,
            log_wake_fd=ring.wake_fd,
            cgroup=placement.folder_of(backplane),
        )
        with placement.groups.entered(backplane):
            fds = (self.board_fd, self.lifeline_fd, ring.fd, ring.wake_fd)
            popen = start(config, pass_fds=fds, environment=leftovers.environment(self.mark))
        return Process(config, popen, lambda: placement.lift(backplane))

    def describe(self, backplane: str) -> Process:
        """Start a process that constructs the next generation, prints its registration, and ends. Raises OSError."""
        config = to_describe(self.config, backplane, lifeline_fd=self.lifeline_fd)
        popen = start(config, pass_fds=(self.lifeline_fd,), environment=leftovers.environment(self.mark))
        return Process(config, popen, lambda: None)


def start(
    config: ProcessConfig, pass_fds: Sequence[int] = (), environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[bytes]:
    """A new process, with pipes for its output. Raises OSError."""
    # A memfd, not a pipe: a child that never reads cannot make us wait, however long its settings are.
    stdin = os.memfd_create("appbackplane-config", os.MFD_CLOEXEC)
    try:
        with open(stdin, "wb", closefd=False) as file:
            # Not JSON, which has neither `inf` nor `nan`: a component got None for them. Dates travel as text.
            file.write(msgspec.msgpack.encode(msgspec.to_builtins(config)))
        os.lseek(stdin, 0, os.SEEK_SET)
        return subprocess.Popen(
            # The last word is for `ps`, until the process sets a title, which has the room of these words.
            (*COMMAND, f"{config.system}/{config.backplane}"),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
            pass_fds=pass_fds,
            # Unbuffered, so that output is shown at once, and is not lost at a death.
            env={"PYTHONUNBUFFERED": "1", **os.environ, **environment},
        )
    finally:
        os.close(stdin)


def to_describe(config: Config, backplane: str, lifeline_fd: int | None = None) -> ProcessConfig:
    """Configuration of a process that only describes its components."""
    return msgspec.structs.replace(process_config(config, backplane), lifeline_fd=lifeline_fd, describe=True)


def process_config(config: Config, backplane: str) -> ProcessConfig:
    """Configuration of every process of a backplane, without what one generation has for itself."""
    share: BackplaneConfig = config.backplane[backplane]
    return ProcessConfig(
        system=config.system.name,
        backplane=backplane,
        run_dir=config.run_dir,
        local_link=config.system.local_link,
        components=share.components,
        settings=share.settings,
        import_dir=config.import_dir,
        dies_with_parent=config.cluster is not None,
        log_waits=config.system.log.when_full == "wait",
        log_level=LEVELS["DEBUG" if config.debug else config.system.log.level],
        threads=share.threads,
        priorities=share.priorities,
        quotas=share.quotas,
        order=share.order,
        shares=share.shares,
        max_starvation_ns=int(share.max_starvation_ns),
        balance=share.balance,
        fair_by=share.fair_by,
        weights=share.weights,
        aim_ns=None if share.admission.aim_ns is None else int(share.admission.aim_ns),
        tick_ns=int(share.tick_ns),
        cpu_limit=share.cpu_limit,
        cpu_exempt=share.cpu_exempt,
        max_latency_ns=None if share.max_latency_ns is None else int(share.max_latency_ns),
        slow_action_ns=int(share.slow_action_ns),
        preempt=share.preempt,
        affinity=share.affinity,
        sources=share.sources,
        nice=config.system.nice,
        replay=ReplayPolicy(share.replay.count, int(share.replay.keep_ns), int(share.replay.size)),
        record=None if config.record is None or not config.record.actions else record_settings.policy(config.record),
        recorded_topics={name: record_settings.policy(topic) for name, topic in config.topics.items() if topic.record},
        trace=trace_settings.policy(config.trace),
        permissions=config.permissions,
        debug=config.debug,
    )
