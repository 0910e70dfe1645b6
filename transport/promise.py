"""Promise: a value assigned once, which calls may await as an argument before it is there (dataflow.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .dataflow import OperandSource
from .errors import BackplaneError, FailedPrecondition, InvalidArgument, text_of
from .operand import Operand
from .unpacking import unpacked

if TYPE_CHECKING:
    from .calling import Calling


class PromiseOwner(Protocol):
    """The client of a promise, as the promise uses it for the user."""

    def fill(self, promise: OperandSource, value: Any) -> None: ...
    def follow(self, promise: OperandSource, operand: Operand) -> None: ...
    def drop_promise(self, promise: OperandSource) -> None: ...


class Promise(Operand):
    """A value that comes later: `p = client.promise()`, `client.submit("y.g", left=p)`, and then `p.set(3)`.

    It is assigned once: by `set`, or by the call that it `follows`. If nobody has assigned it when the last reference to it is
    gone, the calls that await it end in `OperandFailed`.
    """

    __slots__ = ("__weakref__", "_client", "_of", "_value")

    def __init__(self, client: PromiseOwner, name: str, of: Any = None) -> None:
        """`of`: the owner of the calls that may await it; None: `client` itself."""
        self._client = client
        self._of = client if of is None else of
        self._value = OperandSource(None, 0, f"promise {name!r}" if name else "a promise")

    def set(self, value: Any) -> None:
        """Assign the value; the calls that await it go on.

        Raises `FailedPrecondition` if it is assigned already, `InvalidArgument` for a value that cannot be sent, and
        `Unavailable` if the client is closed.
        """
        self._client.fill(self._value, value)

    def follows(self, operand: Operand) -> None:
        """Let it have the result of a call, or the value of another promise, whenever that comes.

        Raises `FailedPrecondition` if it is assigned already, or if the call waits for this promise, over any number of steps:
        the error names the whole circle.
        """
        self._client.follow(self._value, operand)

    def done(self) -> bool:
        """Whether its value, or its failure, is known here."""
        return self._value.has_ended

    def _owner(self) -> Any:
        return self._of

    def _outcome(self) -> tuple[bool, Any, BackplaneError | None]:
        value = self._value
        return value.has_ended, None if value.packed is None else unpacked(value.packed), value.error

    def _source(self) -> tuple[Any, int, str]:
        return self._value, 0, self._value.name

    def __del__(self) -> None:
        value = self._value
        if value.awaiting and not value.has_ended and value.follows is None:
            self._client.drop_promise(value)

    def __repr__(self) -> str:
        value = self._value
        if value.error is not None:
            state = type(value.error).__name__
        elif value.has_ended:
            state = "assigned"
        else:
            state = "open" if value.follows is None else f"follows {value.follows.name}"
        return f"<Promise {value.name}: {state}>"


class Promises:
    """The promises of a blocking client: each change is made with the client's lock held (calling.py)."""

    __slots__ = ("_calling",)

    def __init__(self, calling: Calling) -> None:
        self._calling = calling

    def fill(self, promise: OperandSource, value: Any) -> None:
        self._calling.change_promise(lambda session, now_ns: session.fill(promise, value, now_ns))

    def follow(self, promise: OperandSource, operand: Operand) -> None:
        calling = self._calling
        calling.change_promise(lambda session, now_ns: session.follow(promise, operand, calling, now_ns))

    def drop_promise(self, promise: OperandSource) -> None:
        self._calling.drop_promise(promise)


def check_open(promise: OperandSource) -> None:
    """Raises `FailedPrecondition` for a promise that is assigned already."""
    if promise.has_ended or promise.follows is not None:
        how = "it has its value" if promise.follows is None else f"it follows {promise.follows.name}"
        raise FailedPrecondition(f"{promise.name} is assigned once, and {how} already: make another one")


def check_followed(promise: OperandSource, operand: Any, client: object) -> None:
    """Raises `InvalidArgument` for what a promise of this client cannot follow."""
    if not isinstance(operand, Operand):
        raise InvalidArgument(f"{promise.name} follows a submitted call or a promise, got {text_of(repr(operand), 60)}")
    owner = operand._owner()
    if owner is not client:
        of = "a closed client" if owner.is_closed else "another client"
        raise InvalidArgument(
            f"{promise.name} cannot follow {operand._source()[2]}, which is of {of}: assign its result"
        )
