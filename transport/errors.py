"""Errors: one root, and below it the party at fault, because that decides the reader's next step.

`CallerError`: change the call. `PeerError`: try again later or elsewhere. `InternalError`: a bug of the operation or of ours;
read the log. Each error carries its `Status`, so that it crosses a process boundary and comes out as itself (`error_from`),
and a `retry_after` in seconds where waiting helps.
"""

from enum import IntEnum
from typing import Any


class Status(IntEnum):
    """How a call ended. Names and numbers follow gRPC, because every reader of a dashboard knows them. PEER_DOWN is ours (gRPC
    folds it into UNAVAILABLE): the process that held the call has died, so it is unknown whether the call ran. Numbers travel
    on the wire and never change their meaning.
    """

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    INTERNAL = 13
    UNAVAILABLE = 14
    PEER_DOWN = 100


class BackplaneError(Exception):
    """Root of everything this project raises on purpose."""

    status = Status.INTERNAL
    # For users' subclasses that do not call `__init__`.
    message: str = ""
    retry_after: float | None = None
    trace: str | None = None
    #: Whether the work has certainly not begun, so that even a call that must not be repeated may be retried (retrying.py).
    is_refused: bool = False
    #: The priority at which overload control has refused the work (caller_throttle.py); None: it has not.
    overloaded_at: int | None = None
    #: With that, how long the service was idle of late all the same, in thousandths of the time.
    idle: int = 0
    #: How many attempts the call took.
    attempts: int = 1

    def __init__(self, message: str, *, retry_after: float | None = None, trace: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        #: Seconds after which trying again makes sense; None: waiting does not help.
        self.retry_after = retry_after
        #: The remote traceback, if the callee runs in debug mode.
        self.trace = trace


class CallerError(BackplaneError):
    """The call itself is at fault: change it before trying again."""


class PeerError(BackplaneError):
    """The callee cannot serve now: try again later, or elsewhere."""


class InternalError(BackplaneError):
    """The operation raised, or the runtime broke a promise of its own."""

    status = Status.INTERNAL


class InvalidArgument(CallerError):
    """An argument is missing, unknown, too large or of the wrong type."""

    status = Status.INVALID_ARGUMENT


class NotFound(CallerError):
    """No such route, object or topic."""

    status = Status.NOT_FOUND


class PermissionDenied(CallerError):
    """The callee's configuration refuses calls of this source."""

    status = Status.PERMISSION_DENIED


class FailedPrecondition(CallerError):
    """Refused in the present state: a call cycle, a state machine's refusal, an object in the wait queue."""

    status = Status.FAILED_PRECONDITION


class OperandFailed(FailedPrecondition):
    """An argument was the result of another call, or a promise, and that has failed. `__cause__` is its error."""

    #: The name of the argument, and the failure at the root of a chain of failed operands.
    argument: str
    root: str

    def __init__(self, route: str, argument: str, source: str, error: BaseException) -> None:
        """`source`: a name for the call or promise."""
        root: str = error.root if isinstance(error, OperandFailed) else f"{type(error).__name__}: {text_of(error)}"
        super().__init__(f"{route}: operand {argument!r}, {source}, has failed: {root}")
        self.__cause__ = error
        self.argument, self.root = argument, root


class DeadlineExceeded(CallerError):
    """The deadline passed first. Whether the work ran is not known unless the message says so."""

    status = Status.DEADLINE_EXCEEDED


class Cancelled(CallerError):
    """The caller cancelled the call."""

    status = Status.CANCELLED


class Busy(PeerError):
    """The callee is at a limit: retry after `retry_after` seconds (law 9)."""

    status = Status.RESOURCE_EXHAUSTED


class Unavailable(PeerError):
    """The route exists but is not served now (starting, stopping, or in another state)."""

    status = Status.UNAVAILABLE


class SystemNotRunning(Unavailable):
    """No supervisor serves the system that was asked for."""

    def __init__(self, system: str, run_dir: str, toml: str, nearest: str | None = None) -> None:
        remedy = f"start it: appbackplane up {toml}" if nearest is None else f"did you mean {nearest!r}?"
        super().__init__(f"system {system!r} is not running: no supervisor listens in {run_dir} ({remedy})")
        self.system, self.run_dir = system, run_dir


class PeerDown(PeerError):
    """The process that held the call died. The work may or may not have run."""

    status = Status.PEER_DOWN


class UnknownRoute(NotFound):
    """No object serves this route."""

    def __init__(self, route: str, nearest: str | None = None, *, because: str = "") -> None:
        """`because`: an addition to the message."""
        hint = f" (did you mean {nearest!r}?)" if nearest else ""
        super().__init__(f"no route {route!r}{hint}{because and f': {because}'}")
        self.route, self.nearest = route, nearest


class MalformedFrame(PeerError):
    """A peer sent bytes that are not a batch of envelopes. The reader counts and drops them; never fatal."""

    status = Status.INVALID_ARGUMENT


class FrameLost(MalformedFrame):
    """A signal's exception struck while a frame was being taken from the socket, and the frame is lost."""

    def __init__(self, sender: bytes | None) -> None:
        super().__init__("an exception from a signal handler interrupted the receipt of a frame, which is lost")
        #: The sender of the frame; None: not known.
        self.sender = sender


#: Longest message, characters, that a person can read and a log can bear. Messages quote routes and keys of strangers, and
#: values that an operation was working on.
MESSAGE_MAX = 4_096


def text_of(said: object, length_max: int = MESSAGE_MAX) -> str:
    """The text of an error, fit to travel: bounded, valid Unicode. Never raises."""
    try:
        text = str(said)
    except BaseException as error:  # a foreign __str__ may raise anything
        text = f"(no message: {type(error).__name__} while it was asked for)"
    if len(text) > length_max:
        text = f"{text[:length_max]}... ({len(text):,} characters in all)"
    return text.encode(errors="backslashreplace").decode()


def sound(error: BackplaneError) -> BackplaneError:
    """The error itself, or, if users' code has put values of other types into its fields, an error with fields that fit.

    Never raises, though fields may be properties that do. A status that is none becomes INTERNAL.
    """
    try:
        is_sound = (
            isinstance(error.status, Status)
            and type(error.message) is str
            and (error.retry_after is None or type(error.retry_after) is float or _fits(error.retry_after))
            and (error.trace is None or type(error.trace) is str)
        )
    except BaseException:  # the edge: a property may raise anything
        is_sound = False
    if is_sound:
        return error
    message = text_of(_field(error, "message", "")) or type(error).__name__
    status, seconds, trace = (_field(error, name, None) for name in ("status", "retry_after", "trace"))
    told = error_from(_number(status), message, _seconds(seconds), trace if type(trace) is str else None)
    told.__cause__ = error
    return told


def _fits(seconds: Any) -> bool:
    return type(seconds) is int and abs(seconds) < 1 << 63


def _field(error: BackplaneError, name: str, default: object) -> object:
    try:
        return getattr(error, name)
    except BaseException:  # as in `sound`
        return default


def _number(status: Any) -> int:
    try:
        return int(Status(status))
    except BaseException:  # as in `sound`: it may be of any type
        return int(Status.INTERNAL)


def _seconds(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except BaseException:  # as in `sound`
        return None


_BY_STATUS: dict[Status, type[BackplaneError]] = {
    kind.status: kind
    for kind in (
        InternalError, InvalidArgument, NotFound, PermissionDenied, FailedPrecondition, DeadlineExceeded,
        Cancelled, Busy, Unavailable, PeerDown,
    )
}  # fmt: skip


def error_from(
    status: int,
    message: str,
    retry_after: float | None = None,
    trace: str | None = None,
    *,
    is_refused: bool = False,
    overloaded_at: int | None = None,
    idle: int = 0,
) -> BackplaneError:
    """Rebuild the error that a peer reported; an unknown number becomes an `InternalError` that names it."""
    try:
        kind = _BY_STATUS[Status(status)]
    except (ValueError, KeyError):
        kind, message = InternalError, f"status {status}: {message}"
    error = kind(message, retry_after=retry_after, trace=trace)
    if is_refused:
        error.is_refused, error.overloaded_at, error.idle = True, overloaded_at, idle
    return error
