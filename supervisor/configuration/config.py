"""Config: one TOML file per system, validated completely before anything starts (DESIGN section 8).

Each key is converted on its own, so that one run reports every problem: file, dotted key, the expected value, and the key
that a mistyped one probably meant. An unknown key is an error: a limit that is silently not applied is found at night.
Only `load` and `read` touch the file; everything else is a function of its text and the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from appbackplane.runtime.objects.adaptive import AIM_MAX_MS, AIM_MIN_MS
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.scheduling.time_shares import STARVATION_DEFAULT_NS, check_shares
from appbackplane.transport.addressing import SUPERVISOR, backplane_socket, default_run_dir, supervisor_socket
from appbackplane.transport.discovery import NO_ROOT, is_root, tables_of
from appbackplane.transport.errors import CallerError

from . import (
    cluster_settings,
    log_settings,
    node_settings,
    permission_settings,
    record_settings,
    replica_names,
    trace_settings,
)
from .cluster_settings import ClusterSettings
from .log_settings import LogSettings, Size
from .metrics_address import problem_of
from .node_settings import NodeSettings
from .reader import Duration, Patience, Reader, duration_in_words, hint, shown
from .record_settings import RecordSettings, TopicSettings
from .trace_settings import TraceSettings

#: Names become file names, socket names and words of routes: no dots, no slashes, nothing that a shell would expand.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
#: "module:Class", or "module:flow.stage".
COMPONENT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
FAIR_BY = re.compile(r"source|principal|arguments\.[A-Za-z_]\w*")
#: A backplane takes one board slot and one socket path: board.SLOTS_MAX and link.PATH_BYTES_MAX. A pure module may not
#: import those; a test keeps the values equal.
BACKPLANES_MAX, SOCKET_PATH_BYTES_MAX = 256, 107
#: Tables at the top level of the file.
TABLES = ("system", "backplane", "record", "topic", "trace", "node", "peers", "cluster", "permissions")
_SECOND_NS = 1_000_000_000
#: A generation this high has restarted once a second for eleven days; its socket path must still fit.
GENERATION_MAX = 999_999
#: Larger values are typing errors: a day of actions between two ticks, ten thousand cores. They also fit the machine words
#: that carry them.
_QUOTA_MAX, _CPU_LIMIT_MAX = 1_000_000_000, 1_000_000
_RESTARTS_MAX = 1_000_000
#: About a GiB of cached calls.
_REPLAYS_MAX = 1_000_000
#: A tick costs 1 to 2 us; at 1 ms or more that stays below a hundredth of the time.
_TICK_MIN_NS = 1_000_000
#: Heartbeats come every 250 ms and may be late: a shorter limit would kill healthy backplanes.
_STUCK_AFTER_MIN_NS = _SECOND_NS
#: Threads take turns every fiftieth of `max_latency` (runtime/process.py); the interpreter's switch interval is 1 us at least.
_MAX_LATENCY_MIN_NS = 50_000


class ConfigError(CallerError):
    """The TOML is invalid. `problems`: every problem found, one line each."""

    def __init__(self, file: str, problems: Collection[str]) -> None:
        self.lines = tuple(f"{file}: {problem}" for problem in problems)
        super().__init__("\n".join(self.lines))
        self.file, self.problems = file, tuple(problems)


class RestartPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a backplane is restarted after its process died (restart.py), in the terms of Erlang/OTP."""

    #: Restart the backplane that died; it and its dependents; or all backplanes.
    strategy: Literal["one_for_one", "rest_for_one", "one_for_all"] = "one_for_one"
    #: Restart always; unless the process ended by itself with exit code 0; or never.
    type: Literal["permanent", "transient", "temporary"] = "permanent"
    #: Restarts allowed within the period; one more death and the backplane is given up. 0: never restarted.
    max: Annotated[int, msgspec.Meta(ge=0, le=_RESTARTS_MAX)] = 5
    within_ns: Duration = msgspec.field(default=Duration(60 * _SECOND_NS), name="within")
    #: Delay before the second restart in a row: about one start, so that a crash loop takes half a core at worst.
    backoff_ns: Duration = msgspec.field(default=Duration(200_000_000), name="backoff")
    #: Longest delay: after the cause is mended, the backplane is back within this.
    backoff_max_ns: Duration = msgspec.field(default=Duration(10 * _SECOND_NS), name="backoff_max")
    #: Uptime that ends the row. A start costs 0.25 s of CPU: restarts after ten times as long cost a tenth of a core at most.
    healthy_after_ns: Duration = msgspec.field(default=Duration(3 * _SECOND_NS), name="healthy_after")
    #: Highest state of a given-up backplane's dependents; "shutdown": the whole system goes down.
    on_give_up: Literal["secondary", "down", "shutdown"] = "secondary"


class ReplaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """replay = {...}: bounds of a backplane's idempotency cache (runtime/execution/intake/idempotency_cache.py)."""

    #: Number of entries: the default takes 6 MB with the keys, plus the replies.
    count: Annotated[int, msgspec.Meta(ge=0, le=_REPLAYS_MAX)] = 10_000
    #: Lifetime of an entry: a program that is restarted, or a person who tries again, comes back within minutes.
    keep_ns: Duration = msgspec.field(default=Duration(600 * _SECOND_NS), name="keep")
    #: Bytes of all entries together.
    size: Size = Size(64 << 20)


class AdmissionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """admission = {...}: which requests from outside a backplane admits (runtime/scheduling/adaptive_limit.py)."""

    #: How long a request may queue; None: until its deadline.
    aim_ns: Duration | None = msgspec.field(default=None, name="aim")


class SystemConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[system]: name, target role, and defaults of all backplanes."""

    name: str
    #: Target state of the components.
    role: Literal["primary", "secondary"] = "primary"
    run_dir: str | None = None
    #: What carries messages between the processes of this host: ZeroMQ, or Unix sockets, which wake fewer threads.
    local_link: Literal["zeromq", "unix"] = "zeromq"
    #: OS nice of priority 0, 1, …; the last repeats. Empty: nice is not set.
    nice: tuple[Annotated[int, msgspec.Meta(ge=-20, le=19)], ...] = ()
    #: How long a process may take to register, and a component's hook to finish. Hooks load indexes.
    start_limit_ns: Duration = msgspec.field(default=Duration(60 * _SECOND_NS), name="start_limit")
    #: How long a component's last hook, and then its process, may take before it is killed.
    stop_limit_ns: Duration = msgspec.field(default=Duration(10 * _SECOND_NS), name="stop_limit")
    #: How long a backplane may finish accepted work in a graceful shutdown; then it refuses calls that have not begun. As long
    #: as most callers wait: nobody waits any more for work that is queued longer.
    drain_limit_ns: Duration = msgspec.field(default=Duration(10 * _SECOND_NS), name="drain_limit")
    #: Longest time without a heartbeat, or without progress while work is ready, before a backplane is replaced. Callers wait
    #: 30 s by default: after twice that nobody waits any more, and slow but healthy work has finished something.
    stuck_after_ns: Patience = msgspec.field(default=Patience(60 * _SECOND_NS), name="stuck_after")
    #: Default of every backplane; a backplane's own `restart` overrides it key by key.
    restart: RestartPolicy = RestartPolicy()
    log: LogSettings = LogSettings()
    #: "HOST:PORT" for Prometheus; None: no port.
    metrics: str | None = None
    #: Whether HOST may be an address that other machines reach.
    metrics_public: bool = False


class BackplaneConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[backplane.NAME]: one process, or several alike."""

    #: "module:Class" each.
    components: tuple[str, ...]
    #: Number of identical processes, NAME-1, NAME-2, …; 1: one process with this very name.
    replicas: Annotated[int, msgspec.Meta(ge=1, le=BACKPLANES_MAX)] = 1
    #: Which of them serves a call without a key: each in turn, or the next that has room for it.
    balance: Literal["turns", "pull"] = "turns"
    #: "primary": its components go above `start` on the cluster's primary node alone; None: on every node.
    only_on: Literal["primary"] | None = None
    threads: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    priorities: Annotated[int, msgspec.Meta(ge=1, le=255)] = 8
    #: Quota of each priority, 0: unlimited; the last repeats. Empty: the default rule of the scheduler.
    quotas: tuple[Annotated[int, msgspec.Meta(ge=0, le=_QUOTA_MAX)], ...] = ()
    #: Within one priority: first come, first served, or the nearer deadline first. Or time shares instead of quotas.
    order: Literal["fifo", "deadline", "shares"] = "fifo"
    #: Percent of the time by priority, 100 together; and how long a priority may starve that has work.
    shares: tuple[Annotated[int, msgspec.Meta(ge=0, le=100)], ...] = ()
    max_starvation_ns: Duration = msgspec.field(default=Duration(STARVATION_DEFAULT_NS), name="max_starvation")
    #: Within one priority each key gets its share: "source", "principal", or "arguments.NAME". None: `order` alone.
    fair_by: str | None = None
    #: Pattern of a key to its weight; 1 where none fits.
    weights: dict[str, Annotated[int, msgspec.Meta(ge=1, le=1000)]] = {}
    tick_ns: Duration = msgspec.field(default=Duration(_SECOND_NS), name="tick")
    #: Percent of one core; None: no limit.
    cpu_limit: Annotated[int, msgspec.Meta(ge=1, le=_CPU_LIMIT_MAX)] | None = None
    #: Priorities, from the top, that run although the CPU budget is spent (law 5).
    cpu_exempt: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: How long an action may wait before it begins, or it is counted and reported; None: as long as it takes.
    max_latency_ns: Duration | None = msgspec.field(default=None, name="max_latency")
    slow_action_ns: Duration = msgspec.field(default=Duration(50_000_000), name="slow_action")
    affinity: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()
    #: Pattern of a source to the priority of its requests, or "refuse" (runtime/execution/intake/sources.py).
    sources: dict[str, Annotated[int, msgspec.Meta(ge=0)] | Literal["refuse"]] = {}
    preempt: bool = True
    restart: RestartPolicy = RestartPolicy()
    replay: ReplaySettings = ReplaySettings()
    admission: AdmissionSettings = AdmissionSettings()
    #: These four replace the system's values; None: the system's.
    start_limit_ns: Duration | None = msgspec.field(default=None, name="start_limit")
    stop_limit_ns: Duration | None = msgspec.field(default=None, name="stop_limit")
    drain_limit_ns: Duration | None = msgspec.field(default=None, name="drain_limit")
    stuck_after_ns: Patience | None = msgspec.field(default=None, name="stuck_after")
    #: Class name to keyword arguments of the component.
    settings: dict[str, Any] = {}


class Config(msgspec.Struct, frozen=True):
    """The validated configuration of one system."""

    file: str
    system: SystemConfig
    #: In file order, which is the order of board slots and of every listing; each replica has its own entry.
    backplane: dict[str, BackplaneConfig]
    #: The TOML's own folder: first on sys.path of every backplane.
    import_dir: str
    run_dir: str
    #: `up --debug`: remote tracebacks travel with INTERNAL.
    debug: bool = False
    #: The shared name of replicas, to their own names.
    replicas: dict[str, tuple[str, ...]] = {}
    #: None: actions are not recorded.
    record: RecordSettings | None = None
    topics: dict[str, TopicSettings] = {}
    #: None: no spans are exported.
    trace: TraceSettings | None = None
    #: None: every caller may use all things.
    permissions: PermissionPolicy | None = None
    #: None: this system knows no other nodes.
    node: NodeSettings | None = None
    #: Address of each seed node, to the name of its key.
    peers: dict[str, str] = {}
    #: None: the role is the one in [system].
    cluster: ClusterSettings | None = None

    @property
    def carrier(self) -> str:
        """Name of the backplane that carries messages to other nodes; "": none."""
        return "" if self.node is None else node_settings.BACKPLANE

    @property
    def node_name(self) -> str:
        """Name of this node among the others; "": this system is none."""
        return "" if self.node is None else self.node.name

    @property
    def replica_of(self) -> dict[str, str]:
        """Each replica's own name, to the name that it shares with the others."""
        return {name: common for common, names in self.replicas.items() for name in names}

    def drain_limit_ns(self, backplane: str) -> int:
        """The backplane's own limit, or the system's."""
        own = self.backplane[backplane].drain_limit_ns
        return int(self.system.drain_limit_ns if own is None else own)

    def stuck_after_ns(self, backplane: str) -> int:
        """The backplane's own limit, or the system's; 0: never stuck."""
        own = self.backplane[backplane].stuck_after_ns
        return int(self.system.stuck_after_ns if own is None else own)


def load(path: Path) -> Config:
    """Read and check `path`. Raises `ConfigError` with every problem."""
    return parse(read(path), path.absolute(), os.sched_getaffinity(0))


def read(path: Path) -> str:
    """Text of the file, without a byte order mark. Raises `ConfigError`."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8: {error}"
        raise ConfigError(str(path), [f"cannot be read: {reason}"]) from error


def parse(text: str, path: Path, cpus: Collection[int] | None = None) -> Config:
    """Check the text of a file that lies at `path`, for a machine with these CPUs. Raises `ConfigError`."""
    try:
        table = tables_of(text)
    except ValueError as error:
        raise ConfigError(str(path), [f"not TOML: {error}"]) from error
    reader = Reader()
    for key in table:
        if key not in TABLES:
            reader.unknown((key,), TABLES)
    sections = table.get("backplane")
    if not isinstance(sections, dict) or not sections:
        reader.say(("backplane",), 'expected at least one table: [backplane.main] with components = ["module:Class"]')
        sections = {}
    node, peers = node_settings.read(reader, table, path.parent)
    cluster = cluster_settings.read(reader, table, path.parent)
    sections = {**sections, **node_settings.backplanes(node, peers)}
    counts = replica_names.counts(sections, BACKPLANES_MAX)
    if (count := sum(counts.values())) > BACKPLANES_MAX:
        reader.say(("backplane",), f"{count} backplanes, at most {BACKPLANES_MAX} fit on a board")
    for name, problem in replica_names.problems(counts):
        reader.say(("backplane", name, "replicas"), problem)
    system = reader.table(SystemConfig, table.get("system"), ("system",))
    _check_nice(reader, system.get("nice", ()))
    restart = system.get("restart", RestartPolicy())
    _check_restart(reader, ("system",), restart)
    for key, problem in log_settings.problems(system.get("log", LogSettings())):
        reader.say(("system", "log", key), problem)
    if cannot_listen := problem_of(system.get("metrics"), is_public=system.get("metrics_public", False)):
        reader.say(("system", "metrics"), cannot_listen)
    _check_stuck_after(reader, ("system",), system, table.get("system"))
    names = {name: replica_names.names(name, count) for name, count in counts.items()}
    run_dir = _run_dir(reader, system, path, names)
    backplanes = {}
    for name, section in sections.items():
        at = ("backplane", name)
        if name == SUPERVISOR:  # its callers would be connected to the supervisor
            reader.say(at, "the name is the supervisor's own: choose another")
        elif not NAME.fullmatch(name):
            reader.say(at, "expected a name of letters, digits, - and _, beginning with a letter or digit")
        backplanes[name] = backplane = reader.table(BackplaneConfig, section, at, {"restart": restart})
        if backplane.get("restart", restart) != restart:  # problems of the system's table are reported already
            _check_restart(reader, at, backplane["restart"])
        _check_components(reader, at, backplane)
        _check_policy(reader, at, backplane, section)
        _check_stuck_after(reader, at, backplane, section)
        _check_affinity(reader, at, backplane.get("affinity", ()), cpus)
    record, topics = record_settings.read(reader, table)
    trace = trace_settings.read(reader, table)
    permissions = permission_settings.read(reader, table, path.parent)
    if reader.problems:
        raise ConfigError(str(path), reader.problems)
    return Config(
        file=str(path),
        system=SystemConfig(**system),
        backplane={each: BackplaneConfig(**values) for name, values in backplanes.items() for each in names[name]},
        import_dir=str(path.parent),
        run_dir=str(run_dir),
        replicas={name: alike for name, alike in names.items() if len(alike) > 1},
        record=record,
        topics=topics,
        trace=trace,
        permissions=permissions,
        node=node,
        peers=peers,
        cluster=cluster,
    )


def settings_of(table: Mapping[str, Any], name: str) -> BackplaneConfig:
    """The settings of one backplane, apart from any file: checked as in [backplane.NAME]. Raises `ConfigError`."""
    reader, at = Reader(), ("backplane", name)
    section = {"components": ["module:Class"], **table}
    values = reader.table(BackplaneConfig, section, at)
    _check_components(reader, at, values)
    _check_policy(reader, at, values, section)
    if reader.problems:
        raise ConfigError("settings", reader.problems)
    return BackplaneConfig(**values)


def _check_components(reader: Reader, at: tuple[str, ...], backplane: dict[str, Any]) -> None:
    components = backplane.get("components")
    if components is not None:
        if not components:
            reader.say((*at, "components"), 'expected at least one "module:Class"')
        for index, component in enumerate(components):
            if not COMPONENT.fullmatch(component):
                reader.say((*at, f"components[{index}]"), f'expected "module:Class", got {shown(component)}')
            if component in components[:index]:
                reader.say((*at, f"components[{index}]"), f"{component!r} is listed twice")
        classes = [component.rpartition(":")[2] for component in components]
        for name, settings in backplane.get("settings", {}).items():
            if name not in classes:
                reader.say((*at, "settings", name), f"no component here has this class ({hint(name, classes)})")
            if not isinstance(settings, dict):
                reader.say((*at, "settings", name), f"expected a table of keyword arguments, got {shown(settings)}")
            elif (number := _unsendable(settings)) is not None:
                reader.say((*at, "settings", name), f"expected whole numbers of at most 64 bits, got {shown(number)}")
    quotas, priorities = backplane.get("quotas", ()), backplane.get("priorities", 8)
    if len(quotas) > priorities:
        reader.say((*at, "quotas"), f"expected at most {priorities}, one a priority, got {len(quotas)}")


def _check_shares(reader: Reader, at: tuple[str, ...], backplane: dict[str, Any], order: str) -> None:
    shares = backplane.get("shares", ())
    if order != "shares":
        for key in ("shares", "max_starvation_ns"):
            if key in backplane:
                reader.say((*at, key.removesuffix("_ns")), 'needs order = "shares": else quotas share the work out')
        return
    for key in ("quotas", "fair_by"):
        if backplane.get(key):
            reader.say((*at, key), f'excludes order = "shares": either shares of time or {key} decide who is next')
    if backplane.get("max_starvation_ns", STARVATION_DEFAULT_NS) < _TICK_MIN_NS:
        reader.say((*at, "max_starvation"), "expected 1ms or more: a shorter one would leave nothing of the shares")
    try:
        check_shares(shares, backplane.get("priorities", 8))
    except ValueError as error:
        reader.say((*at, "shares"), str(error).removeprefix("shares: "))


def _unsendable(value: Any) -> int | None:
    """A whole number that does not fit the message to the process."""
    if isinstance(value, dict | list):
        found = (_unsendable(item) for item in (value.values() if isinstance(value, dict) else value))
        return next((number for number in found if number is not None), None)
    return value if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else None


def _check_policy(reader: Reader, at: tuple[str, ...], backplane: dict[str, Any], section: Any) -> None:
    if backplane.get("tick_ns", _TICK_MIN_NS) < _TICK_MIN_NS:
        problem = f"expected 1ms or more, got {shown(section['tick'])}: a shorter tick would be spent on accounting"
        reader.say((*at, "tick"), problem)
    if backplane.get("max_latency_ns", _MAX_LATENCY_MIN_NS) < _MAX_LATENCY_MIN_NS:
        problem = (
            f"expected 50us or more, got {shown(section['max_latency'])}: threads switch every 1/50 of it, "
            "and Python's shortest switch interval is 1us"
        )
        reader.say((*at, "max_latency"), problem)
    aim_ns = getattr(backplane.get("admission"), "aim_ns", None)
    if aim_ns is not None and not AIM_MIN_MS <= aim_ns / 1e6 <= AIM_MAX_MS:
        reader.say(
            (*at, "admission", "aim"),
            f"expected {AIM_MIN_MS:g} ms to {AIM_MAX_MS // 3_600_000} h, got {duration_in_words(aim_ns)}",
        )
    fair_by = backplane.get("fair_by")
    if fair_by is not None and not FAIR_BY.fullmatch(fair_by):
        reader.say((*at, "fair_by"), f"expected 'source', 'principal' or 'arguments.NAME', got {shown(fair_by)}")
    order = backplane.get("order", "fifo")
    if fair_by is not None and order == "deadline":
        reader.say((*at, "fair_by"), 'excludes order = "deadline": either shares or deadlines decide who is next')
    _check_shares(reader, at, backplane, order)
    if fair_by is None and backplane.get("weights"):
        reader.say((*at, "weights"), "without fair_by nothing is shared: set fair_by, too")
    exempt, priorities = backplane.get("cpu_exempt", 0), backplane.get("priorities", 8)
    for pattern, rule in backplane.get("sources", {}).items():
        if rule != "refuse" and rule >= priorities:
            reader.say(
                (*at, "sources", pattern), f'expected a priority of 0 to {priorities - 1}, or "refuse", got {rule}'
            )
    if exempt >= priorities:
        problem = f"expected at most {priorities - 1}, or cpu_limit would apply to none of the {priorities} priorities"
        reader.say((*at, "cpu_exempt"), f"{problem}, got {exempt}")


def _check_stuck_after(reader: Reader, at: tuple[str, ...], table: dict[str, Any], section: Any) -> None:
    if 0 < (table.get("stuck_after_ns") or 0) < _STUCK_AFTER_MIN_NS:
        problem = f'expected 1s or more, or "never", got {shown(section["stuck_after"])}: heartbeats come every 250 ms'
        reader.say((*at, "stuck_after"), problem)


def _check_restart(reader: Reader, at: tuple[str, ...], restart: RestartPolicy) -> None:
    if restart.backoff_max_ns < restart.backoff_ns:
        least, most = restart.backoff_ns / 1e9, restart.backoff_max_ns / 1e9
        problem = f"expected backoff ({least:g} s) or more: the wait grows from there, got {most:g} s"
        reader.say((*at, "restart", "backoff_max"), problem)


def _check_nice(reader: Reader, nice: tuple[int, ...]) -> None:
    for index, (above, below) in enumerate(pairwise(nice)):
        if below < above:
            problem = (
                f"expected {above} or more, got {below}: priority {index} must be at least as urgent as {index + 1}"
            )
            reader.say(("system", f"nice[{index + 1}]"), problem)


def _check_affinity(
    reader: Reader, at: tuple[str, ...], affinity: tuple[int, ...], cpus: Collection[int] | None
) -> None:
    for index, cpu in enumerate(affinity):
        if cpu in affinity[:index]:
            reader.say((*at, f"affinity[{index}]"), f"{cpu} is listed twice")
        elif cpus is not None and cpu not in cpus:  # the kernel would drop it silently
            here = ", ".join(map(str, sorted(cpus)))
            reader.say((*at, f"affinity[{index}]"), f"CPU {cpu} is not available to it (available: {here})")


def _run_dir(reader: Reader, system: dict[str, Any], path: Path, names: Mapping[str, Sequence[str]]) -> Path:
    """The run directory; every socket path in it must fit. `names`: each table's backplanes (several: replicas)."""
    name, given = system.get("name", ""), system.get("run_dir")
    if "name" in system and not NAME.fullmatch(name):
        reader.say(("system", "name"), f"expected letters, digits, - and _, got {shown(name)}")
    if given is not None and (not given or "\0" in given):
        reader.say(("system", "run_dir"), f"expected a path, got {given!r}")
        given = None
    try:
        run_dir = default_run_dir(name) if given is None else path.parent / Path(given).expanduser()
    except RuntimeError:  # raised by pathlib
        home = str(given).partition("/")[0]
        reader.say(("system", "run_dir"), f"no home folder of {home!r}")
        return path.parent
    if is_root(run_dir):
        reader.say(("system", "run_dir"), f"{NO_ROOT}, got {given!r}")
    sockets = [
        (declared, backplane_socket(run_dir, each, GENERATION_MAX))
        for declared, alike in names.items()
        for each in alike
    ]
    for declared, socket in [*sockets, ("", supervisor_socket(run_dir))]:
        if len(os.fsencode(socket)) > SOCKET_PATH_BYTES_MAX:
            problem = (
                f"{socket} is longer than a socket path may be ({SOCKET_PATH_BYTES_MAX} bytes): choose a shorter one"
            )
            if given is None:  # a default path, not the user's
                problem += ", or a [system] run_dir"
            reader.say(_longest(name, given, declared), problem)
            break
    return run_dir


def _longest(system: str, run_dir: str | None, backplane: str) -> tuple[str, ...]:
    """Of the keys that the user wrote, the one with the largest part in a socket path that is too long."""
    written = {("system", "name"): system, ("backplane", backplane): backplane}
    if run_dir is not None:
        written = {("system", "run_dir"): run_dir, ("backplane", backplane): backplane}
    return max(written, key=lambda key: len(written[key]))
