"""Process configuration of one backplane: its share of the TOML, the descriptors it inherits, its generation.

The supervisor writes it as msgpack to the child's standard input; both sides check it with msgspec. Times are in
nanoseconds here: `supervisor/configuration/config.py` has parsed the TOML's "5ms".
"""

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

#: The latency by which threads take turns in a backplane that declares none: ten actions of 0.5 ms, the quantum.
LATENCY_DEFAULT_NS = 5_000_000
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a `ProcessConfig` that can change while the process runs, by the same names. An unset field stays."""

    threads: Annotated[int, msgspec.Meta(ge=1, le=256)] | UnsetType = UNSET
    quotas: tuple[_Natural, ...] | UnsetType = UNSET
    tick_ns: _Positive | UnsetType = UNSET
    cpu_limit: _Positive | UnsetType | None = UNSET
    cpu_exempt: _Natural | UnsetType = UNSET
    max_latency_ns: _Positive | UnsetType | None = UNSET
    slow_action_ns: _Positive | UnsetType = UNSET
    log_level: _Natural | UnsetType = UNSET


class ReplayPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the idempotency cache (intake/idempotency_cache.py): an answer is dropped once one limit is reached."""

    count: int = 10_000
    keep_ns: int = 600_000_000_000
    #: Bytes of all calls kept.
    size: int = 64 << 20


class RecordPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of recording to disk (execution/records/recording.py): total bytes, maximum age, and bytes of one file."""

    size: _Positive
    age_ns: _Positive
    segment: _Positive


class TracePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where spans are exported to (execution/records/span_export.py), and the share of traces that begin here and are."""

    otlp: str
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


class PermissionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The permissions of things (permissions/): their file, the audit log, and the principals that may do everything."""

    file: str
    audit: str
    operators: tuple[str, ...] = ()
    #: Nodes, by the names of their keys, that say on whose behalf they call.
    nodes: tuple[str, ...] = ()


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything `runtime/process.py` needs to assemble one backplane."""

    system: str
    backplane: str
    generation: int = 1
    run_dir: str
    #: Authenticates the control link of this generation to the supervisor (supervisor/control/identities.py).
    token: str = ""
    #: Each as "module:Class".
    components: tuple[str, ...]
    #: Class name of the component to keyword arguments of its constructor.
    settings: dict[str, dict[str, Any]] = {}
    #: The TOML's own folder: first on sys.path.
    #: What carries frames between the processes of this host (transport/local_links.py).
    local_link: Literal["zeromq", "unix"] = "zeromq"
    import_dir: str | None = None
    board_fd: int | None = None
    board_slot: int = 0
    #: Memory of the log ring buffer, and the eventfd that wakes its reader (execution/logs/log_ring.py); None: standard error.
    log_fd: int | None = None
    log_wake_fd: int = -1
    #: Whether a log call waits for room in a full ring; else the line is lost.
    log_waits: bool = False
    #: Level of the root logger, as Python's number.
    log_level: int = 20
    #: Read end of a pipe whose write ends the supervisor and its guardian hold: end of file means that both are gone.
    lifeline_fd: int | None = None

    #: Whether the kernel kills this process at the supervisor's death, even amid work: another node may become primary then.
    dies_with_parent: bool = False

    threads: int = 1
    priorities: int = 8
    #: Actions a priority may run before the next is served; 0 is unlimited, the last repeats. Empty: the default rule.
    quotas: tuple[int, ...] = ()
    #: Order of ready objects: within one priority first come first served, or earliest deadline first; or by time shares of the
    #: priorities, first come first served within one.
    order: Literal["fifo", "deadline", "shares"] = "fifo"
    #: With `order = "shares"`: percent of the time by priority, 100 together; and how long a priority may starve.
    shares: tuple[int, ...] = ()
    max_starvation_ns: Annotated[int, msgspec.Meta(ge=1)] = 60_000_000_000
    #: Whose share a request takes within its priority (intake/fairness.py); None: first come, first served. And by pattern
    #: of that key: how much more than others it gets.
    fair_by: str | None = None
    weights: dict[str, int] = {}
    #: How long a request from outside may queue (scheduling/adaptive_limit.py); None: as long as its deadline allows.
    aim_ns: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: Whether callers take turns among its replicas, or keep their calls until one has room (execution/intake/grants.py).
    balance: Literal["turns", "pull"] = "turns"
    tick_ns: int = 1_000_000_000
    #: Percent of one core; None: no limit.
    cpu_limit: int | None = None
    #: Number of priorities, from the most urgent, that run even when the CPU budget is spent.
    cpu_exempt: int = 0
    #: The latency contract: how long an action may wait before it begins; None: there is none.
    max_latency_ns: int | None = None
    slow_action_ns: int = 50_000_000
    #: Whether more urgent work may run on a relief thread beside an action that overruns its quantum.
    preempt: bool = True
    affinity: tuple[int, ...] = ()
    #: OS nice of priority 0, 1, …; the last repeats. Empty: nice is not changed.
    nice: tuple[int, ...] = ()
    #: Folder of this backplane's own cgroup, with its weight file; None: a shared cgroup, or no cgroups.
    cgroup: str | None = None
    replay: ReplayPolicy = ReplayPolicy()
    #: By pattern of a source (execution/intake/sources.py): the priority of its requests, or "refuse".
    sources: dict[str, int | Literal["refuse"]] = {}
    #: None: every caller may use all things.
    permissions: PermissionPolicy | None = None
    #: None: actions are not recorded.
    record: RecordPolicy | None = None
    #: Topics whose messages are recorded where they are published.
    recorded_topics: dict[str, RecordPolicy] = {}
    #: None: no spans are exported.
    trace: TracePolicy | None = None
    #: Whether INTERNAL errors carry the remote traceback.
    debug: bool = False
    #: Whether to construct the components, print the registration as JSON and exit.
    describe: bool = False

    @property
    def incarnation(self) -> str:
        """Eight digits for the addresses of this process: others than those of any other process of the backplane.

        From its token, which the supervisor draws at random for each generation: one in 4 billion is drawn twice.
        """
        return hashlib.blake2b(f"{self.token}{self.generation}".encode(), digest_size=4).hexdigest()
