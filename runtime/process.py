"""One backplane, one process: `python -m appbackplane.runtime.process`, its `ProcessConfig` as msgpack on standard input.

Started by the supervisor, never by hand. The main thread is the sentinel; workers run user code. Exit code 0: it was told to
stop. Exit code 2: its configuration or a component is at fault (one line on standard error explains it). When the supervisor
dies, a starting process is killed at once; a serving one shuts down in order within `ORPHAN_TIMEOUT_S`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import setproctitle
from msgspec import UNSET

from appbackplane.transport import addressing
from appbackplane.transport.accept_gate import AcceptGate
from appbackplane.transport.directory import Registration
from appbackplane.transport.errors import BackplaneError, InvalidArgument
from appbackplane.transport.local_links import LocalLink, local_link

from . import otel
from .backplane import Backplane
from .execution.logs.async_log import AsyncLog, last_words
from .execution.logs.log_handler import LogHandler
from .execution.logs.log_ring import RingWriter
from .execution.records.recording import Recording
from .execution.records.span_export import SpanExport
from .execution.sentinel.forked import end_children_of
from .execution.sentinel.sentinel import SUPERVISOR_GONE, Sentinel
from .execution.sentinel.signals import heed_no_more, heed_orders
from .execution.sentinel.stacks import write_on_signal
from .execution.urgency.board import Board, OwnSlot
from .execution.urgency.os_priority import OsPriority, allowed
from .execution.workers.clock import RealClock
from .loading import DeclarationFault, first_line, load_component, told
from .objects.component import Component
from .process_config import LATENCY_DEFAULT_NS, LiveSettings, ProcessConfig

#: How long running actions may take to end once the process is told to stop. The supervisor has moved the components
#: down before, so no caller waits for an action that still runs.
STOP_TIMEOUT_S = 1.0
#: The same when the supervisor has been killed. No process may outlive it by a second, and its guardian, which waits longer
#: than this, needs part of that second to find and kill processes that do not end.
ORPHAN_TIMEOUT_S = 0.4
#: The GIL switch interval is the latency contract divided by this: 0.1 ms for 5 ms, with which urgent p99 behind 20 ms
#: actions was 1.4 ms (DESIGN section 5).
_SWITCH_FRACTION = 50
#: The interpreter's default; a longer interval has no benefit.
_SWITCH_MAX_S = 0.005
#: Thresholds of the garbage collector (`gc.set_threshold`). With the default (700, 10, 10) it takes 2 % of a process that works
#: through much data, such as indexing. With these it takes 0.2 %, in fewer but longer collections.
COLLECT_AFTER = (5_000, 5, 20)
_PR_SET_PDEATHSIG = 1

log = logging.getLogger("appbackplane.runtime")


def main() -> int:
    """Run one backplane until it is told to stop, or describe it; returns the exit code."""
    try:
        config = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=ProcessConfig)
    except msgspec.DecodeError as error:
        print(f"appbackplane.runtime.process: not a process configuration on standard input: {error}", file=sys.stderr)
        return 2
    write_on_signal()
    if config.lifeline_fd is not None:
        die_with_parent(config.lifeline_fd)
    if not config.describe:
        set_title(f"appbackplane: {config.system}/{config.backplane}")
    set_up_logging(config)
    if config.import_dir is not None:
        sys.path.insert(0, config.import_dir)
    gc.set_threshold(*COLLECT_AFTER)  # a component's module may set its own
    try:
        components = [load_component(name, config) for name in config.components]
        return describe(config, components) if config.describe else serve(config, components)
    except (BackplaneError, DeclarationFault) as error:
        if config.debug:
            log.error("backplane %s", config.backplane, exc_info=error.__cause__ or error)
        # Last: the supervisor reads the last line.
        print(f"backplane {config.backplane}: {first_line(error)}", file=sys.stderr)
        return 2


def set_up_logging(config: ProcessConfig) -> None:
    """Send log records into the ring that the supervisor reads; without a ring, to standard error."""
    if config.log_fd is None:
        logging.basicConfig(level=config.log_level, format="%(levelname)s %(name)s: %(message)s")
    else:
        ring = RingWriter(config.log_fd, config.log_wake_fd, waits=config.log_waits)
        LogHandler.install(ring, config.backplane, config.generation, config.log_level)


def describe(config: ProcessConfig, components: Sequence[Component]) -> int:
    """Print as JSON the registration that this process would send to the supervisor; returns the exit code."""
    backplane = assemble(config, components, local_link(config.local_link, "describe"), None)
    registration = Registration(config.backplane, config.generation, os.getpid(), "", backplane.entries())
    sys.stdout.write(json.dumps(msgspec.to_builtins(registration)) + "\n")
    return 0


def assemble(
    config: ProcessConfig,
    components: Sequence[Component],
    link: LocalLink,
    slot: OwnSlot | None,
    os_priority: OsPriority | None = None,
) -> Backplane:
    """Construct the backplane and set its components up. Raises `DeclarationFault`, `BackplaneError`."""
    try:
        return Backplane(config, components, clock=RealClock(), link=link, slot=slot, os_priority=os_priority)
    except BackplaneError:
        raise
    except Exception as error:
        where = "".join(f"{note}: " for note in getattr(error, "__notes__", ())[-1:])
        raise DeclarationFault(f"{where}{told(error, config)}") from error


def serve(config: ProcessConfig, components: Sequence[Component]) -> NoReturn:
    """Serve until the sentinel has a reason to stop, then end the process; never returns."""
    ring_handler = next((each for each in logging.getLogger().handlers if isinstance(each, LogHandler)), None)
    AsyncLog.install(count_lost=None if ring_handler is None else ring_handler.count_lost)
    take_turns(config.max_latency_ns or LATENCY_DEFAULT_NS)
    if config.affinity:
        os.sched_setaffinity(0, config.affinity)
    slot = None
    if config.board_fd is not None:
        slot = OwnSlot(Board(config.board_fd), config.board_slot, config.generation)
    identity = f"{config.backplane}-{config.generation}"
    run_dir = Path(config.run_dir)
    link = local_link(config.local_link, identity)
    os_priority = OsPriority(allowed(config.nice), config.cgroup)
    backplane = assemble(config, components, link, slot, os_priority)
    path = addressing.backplane_socket(run_dir, config.backplane, config.generation)
    link.bind(path)
    gate = AcceptGate(path) if config.local_link == "zeromq" else None
    record(config, backplane)
    sentinel = Sentinel(
        backplane.engine,
        local_link(config.local_link, f"{addressing.CONTROL}/{identity}", config.token),
        run_dir,
        gate=gate,
        lifeline_fd=config.lifeline_fd,
        slot=slot,
        statistics=backplane.statistics,
        why=backplane.why,
        configure=lambda given: configure(backplane, sentinel, given),
        os_priority=os_priority,
        max_latency_ns=config.max_latency_ns or LATENCY_DEFAULT_NS,
    )
    end_children_of(backplane.engine)
    backplane.on_cpu_limit = sentinel.change_limit
    if backplane.recording is not None:
        sentinel.on_keeper = backplane.recording.limit_is_kept_by
    heed_orders(sentinel.stop)
    # The objects that imports created are not garbage: excluding them keeps collections short.
    gc.collect()
    gc.freeze()
    helpers = [int(name) for name in os.listdir("/proc/self/task")]  # this thread, and ZeroMQ's
    backplane.start(config.threads)
    os_priority.set_helpers(helpers)
    if backplane.recording is not None:
        backplane.recording.start()  # after the helpers were listed: no urgent work waits for it
    if backplane.span_export is not None:
        backplane.span_export.start()
    board_slot = -1 if slot is None else config.board_slot
    entries = backplane.entries()
    sentinel.register(
        Registration(
            config.backplane, config.generation, os.getpid(), str(path), entries, board_slot, config.balance == "pull"
        )
    )
    if not config.dies_with_parent:
        outlive_parent()  # from now on the sentinel sees the supervisor's death, and running actions may finish
    reason = sentinel.run()
    heed_no_more()
    log.debug("stopping: %s", reason)
    is_orphan = reason == SUPERVISOR_GONE
    if is_orphan:
        die_in(ORPHAN_TIMEOUT_S)
    has_ended = backplane.stop(ORPHAN_TIMEOUT_S if is_orphan else STOP_TIMEOUT_S)
    sentinel.close()
    if not has_ended:
        log.warning("an operation did not end within %s s of being told to stop", STOP_TIMEOUT_S)
    end(0)


def end(exit_code: int) -> NoReturn:
    """End this process without the interpreter's shutdown, which would wait for threads that a component has started."""
    try:
        if last_words():
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(exit_code)


def record(config: ProcessConfig, backplane: Backplane) -> None:
    """Begin to record actions and topics, and to export spans, as configured.

    Raises `DeclarationFault` if the files cannot be prepared, or OpenTelemetry is not installed.
    """
    if config.trace is not None:
        if not otel.is_installed():
            raise DeclarationFault(f"trace: {otel.NEEDS}")
        backplane.span_export = SpanExport(config, backplane.engine)
    try:
        recording = Recording(config, backplane.engine)
        backplane.applying.recover()  # reads recorded messages: before the recording thread removes old ones
    except OSError as error:
        raise DeclarationFault(f"cannot record: {error.filename}: {error.strerror}") from error
    backplane.recording = recording


def take_turns(max_latency_ns: int) -> None:
    """Set the GIL switch interval for this latency contract."""
    sys.setswitchinterval(min(_SWITCH_MAX_S, max_latency_ns / 1e9 / _SWITCH_FRACTION))


def configure(backplane: Backplane, sentinel: Sentinel, given: Any) -> None:
    """Apply changed settings from the supervisor. Raises `InvalidArgument`; then nothing has changed."""
    try:
        settings = msgspec.convert(given, LiveSettings)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"control.configure: {error}") from error
    backplane.configure(settings)
    if settings.max_latency_ns is not UNSET:
        sentinel.max_latency_ns = settings.max_latency_ns or LATENCY_DEFAULT_NS
        take_turns(sentinel.max_latency_ns)
    if settings.log_level is not UNSET:
        logging.getLogger().setLevel(settings.log_level)


def set_title(title: str) -> None:
    """Set the title that `ps` shows. Keeps the environment, which lies behind the arguments: it identifies our processes."""
    os.environ["SPT_NOENV"] = "1"
    setproctitle.setproctitle(title)
    del os.environ["SPT_NOENV"]


def die_with_parent(lifeline_fd: int) -> None:
    """Have the kernel kill this process when its parent dies, until `outlive_parent`. Main thread only.

    While user code is imported no thread polls the lifeline, and there is no work yet that would have to be finished.
    """
    _set_death_signal(signal.SIGKILL)
    lifeline = select.poll()
    lifeline.register(lifeline_fd, select.POLLIN)
    if lifeline.poll(0):  # the parent died before the call
        os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with_parent`, to shut down in order. The guardian bounds that time (supervisor/processes/guardian.py)."""
    _set_death_signal(0)


def die_in(seconds: float) -> None:
    """Have the kernel kill this process in `seconds`, even if user code keeps the GIL. Main thread only."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _set_death_signal(number: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


if __name__ == "__main__":
    end(main())
