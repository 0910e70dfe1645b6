"""Call checks: check the values that a user gives for a call, before it is opened.

A value of the wrong type would make the callee drop the whole frame as malformed, and the caller would learn of it only at
its deadline. So it is refused here, at once, and the error names the route and the argument.
"""

from collections.abc import Mapping
from typing import Any, Final

from .address import split_route
from .call_spec import CallSpec
from .errors import InvalidArgument, text_of
from .operand import take_operands

#: Default timeout of a call (DESIGN 12.5): long enough for bulk work in a full queue, short enough that people are still
#: there to notice a lost callee.
TIMEOUT_DEFAULT_S: Final = 30.0
#: The same in ns: the deadline, from its arrival, of a call that names none.
TIMEOUT_DEFAULT_NS: Final = int(TIMEOUT_DEFAULT_S * 1e9)
#: Longest timeout, a week: longer work is started by one call and queried by others. (In milliseconds it fits the int of
#: poll(2).)
TIMEOUT_MAX_S: Final = 7 * 86_400.0
#: Most items that the callee of a stream may run ahead: more would be computed in vain for a reader that loses interest.
WINDOW_MAX: Final = 65_536
#: The same unless the caller chooses (scripts/bench streams). The callee bounds the bytes as well (stream_action.py).
WINDOW_DEFAULT: Final = 1_024
#: Types of most arguments: with these alone, a call has no stream and no operand.
_PLAIN: Final = frozenset((str, int, float, bool, bytes, list, dict, tuple, type(None)))
#: Longest key, characters: a UUID has 36, and the callee keeps each key for minutes.
IDEMPOTENCY_KEY_MAX: Final = 255


def asked(
    route: Any, key: Any, priority: Any, timeout: Any, arguments: Any, keywords: dict[str, Any],
    idempotency_key: Any = None, is_retried: Any = False,
) -> CallSpec:  # fmt: skip  # hot: scripts/bench call_rtt
    """A checked call with all its arguments in one map. Raises `InvalidArgument`."""
    body = keywords if arguments is None else body_of(route, arguments, keywords)
    spec = CallSpec(
        route, body, key=key, priority=priority, timeout=timeout, idempotency_key=idempotency_key, is_retried=is_retried
    )
    check_call(spec)
    for value in body.values():
        if type(value) not in _PLAIN:
            take_operands(spec)
            return spec
    spec.is_plain = True
    return spec


def check_call(spec: CallSpec) -> None:  # hot: scripts/bench call_rtt
    """Check all values given by a user, except the arguments, and set `timeout_ns`. Raises `InvalidArgument`."""
    if type(spec.route) is not str:
        split_route(spec)
    check(spec.route, spec.key, spec.priority)
    if spec.idempotency_key is not None:
        check_idempotency_key(spec.route, spec.idempotency_key)
    if spec.principal is not None and type(spec.principal) is not str:
        raise InvalidArgument(f"{spec.route}: principal must be a string, got {text_of(repr(spec.principal), 60)}")
    spec.timeout_ns = duration_ns(spec.timeout)
    spec.is_retried = bool(spec.is_retried)


def check(route: object, key: object, priority: object) -> None:  # hot: scripts/bench call_rtt
    """Raises `InvalidArgument` for a route, key or priority that cannot address a call."""
    if type(route) is not str or not route:
        raise InvalidArgument(f"a route is a string such as 'query.search', got {route!r}")
    if key is not None and type(key) is not str:
        raise InvalidArgument(f"{route}: key must be a string, got {key!r}")
    if priority is not None and (not isinstance(priority, int) or isinstance(priority, bool) or priority < 0):
        raise InvalidArgument(f"{route}: priority must be a whole number from 0 (highest) up, got {priority!r}")


def window_of(route: str, window: object) -> int:
    """The checked window of a stream, items. Raises `InvalidArgument`."""
    if type(window) is not int or not 1 <= window <= WINDOW_MAX:
        raise InvalidArgument(f"{route}: window must be a whole number of items, 1 to {WINDOW_MAX:,}, got {window!r}")
    return window


def check_idempotency_key(route: str, key: object) -> None:
    """Raises `InvalidArgument` for an idempotency key that is no string, or empty, or too long."""
    if type(key) is not str or not 0 < len(key) <= IDEMPOTENCY_KEY_MAX:
        raise InvalidArgument(
            f"{route}: idempotency_key must be a string of 1 to {IDEMPOTENCY_KEY_MAX} characters, got {text_of(repr(key), 60)}"
        )


def body_of(route: str, arguments: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a call as one map. `arguments` holds those whose names clash with the call's own keywords."""
    if arguments is None:
        return keywords
    if not isinstance(arguments, Mapping):
        raise InvalidArgument(f"{route}: arguments must be a mapping of names to values, got {arguments!r}")
    for name in arguments:
        if type(name) is not str:
            raise InvalidArgument(f"{route}: names of arguments are strings, got {name!r}")
        if name in keywords:
            raise InvalidArgument(f"{route}: argument {name!r} is given twice")
    return {**arguments, **keywords}


def is_number(seconds: object) -> bool:
    """Whether this can be a time in seconds. Excludes booleans: Python counts True as 1, a mistake where a time is expected."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool)


def duration_ns(seconds: Any, what: str = "timeout") -> int:  # hot: scripts/bench call_rtt
    """Seconds to ns; None: the default timeout. Raises `InvalidArgument` unless above 0 and at most a week."""
    if isinstance(seconds, float) and 0.0 < seconds <= TIMEOUT_MAX_S:  # the usual case, compiled, without an object
        return int(seconds * 1e9)
    if seconds is None:
        seconds = TIMEOUT_DEFAULT_S
    if not is_number(seconds) or not 0 < seconds <= TIMEOUT_MAX_S:
        raise InvalidArgument(f"{what} must be seconds above 0, at most {TIMEOUT_MAX_S:,.0f}, got {seconds!r}")
    return int(seconds * 1_000_000_000)
