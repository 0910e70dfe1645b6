"""What one backplane process is told at birth: its share of the TOML, the descriptors it inherits, its generation.

The supervisor writes it as JSON to the child's standard input; both sides check it with msgspec. Times are in
nanoseconds here: the TOML's "5ms" has been understood once, by `supervisor/config.py`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of a `ProcessConfig` can be another while the process runs, by the same names; what is left out stays."""

    threads: Annotated[int, msgspec.Meta(ge=1, le=256)] | UnsetType = UNSET
    quotas: tuple[_Natural, ...] | UnsetType = UNSET
    tick_ns: _Positive | UnsetType = UNSET
    cpu_limit: _Positive | UnsetType | None = UNSET
    cpu_exempt: _Natural | UnsetType = UNSET
    max_latency_ns: _Positive | UnsetType = UNSET
    slow_action_ns: _Positive | UnsetType = UNSET
    log_level: _Natural | UnsetType = UNSET


class ReplayPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of calls with an idempotency key (execution/replays.py), and no longer than any of these allows."""

    count: int = 10_000
    keep_ns: int = 600_000_000_000
    #: Bytes.
    size: int = 64 << 20


class RecordPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be recorded on the disk (execution/recording.py): bytes in all, how long, and bytes a file."""

    size: _Positive
    age_ns: _Positive
    segment: _Positive


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything `runtime/process.py` needs to assemble one backplane."""

    system: str
    backplane: str
    generation: int = 1
    run_dir: str
    #: By which the supervisor knows the control link of this generation (supervisor/control/identities.py).
    token: str = ""
    #: "module:Class" each.
    components: tuple[str, ...]
    #: Class name to keyword arguments of the component.
    settings: dict[str, dict[str, Any]] = {}
    #: The TOML's own folder: first on sys.path.
    import_dir: str | None = None
    board_fd: int | None = None
    board_slot: int = 0
    #: The memory of its log ring, and the eventfd that wakes its reader (execution/log_ring.py); None: standard error.
    log_fd: int | None = None
    log_wake_fd: int = -1
    #: Whether a log call waits for room in it; else the line is lost.
    log_waits: bool = False
    #: Of the root logger, by Python's number.
    log_level: int = 20
    #: Read end of a pipe whose write end only the supervisor holds: end of file means it died.
    lifeline_fd: int | None = None

    #: Whether the kernel is to kill it when the supervisor dies, whatever it runs: others may be primary then.
    dies_with_parent: bool = False

    threads: int = 1
    priorities: int = 8
    #: Actions a priority may run before the next is served; 0 is unlimited, the last repeats. Empty: the default rule.
    quotas: tuple[int, ...] = ()
    #: Which object goes first within one priority: that which came first, or that whose work has the nearer deadline.
    order: Literal["fifo", "deadline"] = "fifo"
    tick_ns: int = 1_000_000_000
    #: Percent of one core; None: no limit.
    cpu_limit: int | None = None
    #: Priorities, from the top, that run although the CPU budget is spent.
    cpu_exempt: int = 0
    max_latency_ns: int = 5_000_000
    slow_action_ns: int = 50_000_000
    #: Whether more urgent work may run beside an action that overruns its quantum, in a thread of its own.
    preempt: bool = True
    affinity: tuple[int, ...] = ()
    #: OS nice of priority 0, 1, …; the last repeats. Empty: left alone.
    nice: tuple[int, ...] = ()
    #: The folder of its own cgroup, where its weight is; None: it shares one with the others, or there are none.
    cgroup: str | None = None
    replay: ReplayPolicy = ReplayPolicy()
    #: None: actions are not recorded.
    record: RecordPolicy | None = None
    #: Topics whose messages are recorded where they are published.
    recorded_topics: dict[str, RecordPolicy] = {}
    #: Remote tracebacks travel with INTERNAL.
    debug: bool = False
    #: Construct, print the registration as JSON and exit.
    describe: bool = False
