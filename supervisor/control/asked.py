"""Asked: parses and validates the bodies of calls to the supervisor, and refuses callers that may not ask."""

from __future__ import annotations

import msgspec

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Registration
from appbackplane.transport.errors import InvalidArgument

from ..configuration import node_settings
from .control_socket import SupervisorCall
from .status import STATISTICS_LIMIT_NS


def registration(asked: SupervisorCall) -> Registration:
    """The registration of a backplane, which must come over its own control link. Raises `InvalidArgument`."""
    try:
        registration = msgspec.convert(asked.body.get("registration"), Registration)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"supervisor.register: {error}") from error
    if asked.sender != (registration.backplane, registration.generation):
        who = f"{registration.backplane} generation {registration.generation}"
        raise InvalidArgument(f"supervisor.register: {who} may only register over its own control link")
    return registration


#: States to which a system or a component can be moved by order.
ROLES = (ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN)
#: Longest wait for an order: a day; a caller that needs longer asks again.
LIMIT_S_MAX = 86_400


def move(asked: SupervisorCall) -> tuple[ModuleState, str | None, int]:
    """(state, component, backplane or None for all, how long the caller waits in ns). Raises `InvalidArgument`."""
    to, component, limit_s = (asked.body.get(key) for key in ("state", "component", "timeout"))
    if to not in [state.value for state in ROLES]:
        raise InvalidArgument(f"supervisor.move: state: expected {', '.join(ROLES)}, got {to!r}")
    if component is not None and not isinstance(component, str):
        raise InvalidArgument(
            f"supervisor.move: component: expected a name, also of a backplane, or nil, got {component!r}"
        )
    return ModuleState(to), component, limit_ns("supervisor.move", limit_s)


def node(asked: SupervisorCall) -> str:
    """Name of the node that is to become primary. Raises `InvalidArgument`."""
    name = asked.body.get("node")
    if not isinstance(name, str) or not node_settings.NAME.fullmatch(name):
        raise InvalidArgument(f"supervisor.hand_over: node: expected the name of a node, got {name!r}")
    return name


#: Backplanes in one order: more do not fit on a board.
RESTARTED_MAX = 256


def restart(asked: SupervisorCall) -> tuple[tuple[str, ...], int, bool, bool, bool]:
    """(backplanes, how long the caller waits in ns, kill, roll, roll even without replicas). Raises `InvalidArgument`."""
    names, limit_s = asked.body.get("backplanes"), asked.body.get("timeout")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"supervisor.restart: backplanes: expected a list of names, got {names!r}")
    if not 1 <= len(names) <= RESTARTED_MAX:
        raise InvalidArgument(f"supervisor.restart: backplanes: expected 1 to {RESTARTED_MAX} names, got {len(names)}")
    is_now, is_rolling, is_forced = (asked.body.get(key) is True for key in ("now", "rolling", "force"))
    if is_now and is_rolling:
        raise InvalidArgument(
            "supervisor.restart: now and rolling exclude each other: a kill loses the calls that a rolling restart keeps"
        )
    return tuple(names), limit_ns("supervisor.restart", limit_s), is_now, is_rolling, is_forced


def limit_ns(route: str, limit_s: object) -> int:
    """How long the caller waits. Raises `InvalidArgument`."""
    if not isinstance(limit_s, int | float) or isinstance(limit_s, bool) or not 0 < limit_s <= LIMIT_S_MAX:
        raise InvalidArgument(f"{route}: timeout: expected 0 to {LIMIT_S_MAX} seconds, got {limit_s!r}")
    return round(limit_s * 1e9)


class StatusOptions(msgspec.Struct, frozen=True):
    """Options of one `supervisor.status` call."""

    has_statistics: bool
    #: Includes histogram buckets, for a caller that subtracts and adds them.
    has_buckets: bool
    #: How long a backplane may take to answer; after that, its board stands in for it.
    limit_ns: int


def look(asked: SupervisorCall) -> StatusOptions:
    """Options in the body of `supervisor.status`. Raises `InvalidArgument`."""
    body = asked.body
    limit = body.get("limit", STATISTICS_LIMIT_NS / 1e9)
    if not isinstance(limit, int | float) or not 0 < limit * 1e9 <= STATISTICS_LIMIT_NS:
        raise InvalidArgument(
            f"supervisor.status: limit: expected seconds, above 0 and up to {STATISTICS_LIMIT_NS / 1e9:g}, got {limit!r}"
        )
    has_buckets = bool(body.get("buckets"))
    return StatusOptions(has_buckets or bool(body.get("statistics")), has_buckets, round(limit * 1e9))


def limit(asked: SupervisorCall) -> tuple[str, int, int | None]:
    """(backplane, generation, percent of one core; None: no limit), over its own control link. Raises `InvalidArgument`."""
    percent = asked.body.get("cpu_limit")
    if asked.sender is None:
        raise InvalidArgument("supervisor.limit is for backplanes: call backplane.NAME.limits cpu_limit=PERCENT")
    if percent is not None and (type(percent) is not int or percent < 1):
        raise InvalidArgument(f"supervisor.limit: cpu_limit: expected a whole number above 0 or nil, got {percent!r}")
    return (*asked.sender, percent)
