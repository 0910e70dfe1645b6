"""Operand: an argument whose value may not be there yet: a submitted call, or a promise (promise.py).

It is one whole argument of `call` or `submit`. If its value is there already, the value is put in its place; else the call
leaves without it, and the value follows (dataflow.py). Calls and promises belong to their client, which alone can fill them.
"""

from __future__ import annotations

from typing import Any, Final

from .call_spec import CallSpec
from .errors import InvalidArgument, OperandFailed

#: What is wrong with an operand that reaches the packer.
MISPLACED_OPERAND: Final = (
    "a call or a promise can only be one whole argument of call() or submit(): not inside another value, nor of a call with a "
    "stream, nor the value of a promise; ask it for its result"
)


class Operand:
    """Base of submitted calls and promises."""

    __slots__ = ()

    def _owner(self) -> Any:
        """The client that fills it; it has `is_closed`."""
        raise NotImplementedError

    def _outcome(self) -> tuple[bool, Any, BaseException | None]:
        """Whether it has ended, its value, and the error in which it ended."""
        raise NotImplementedError

    def _source(self) -> tuple[Any, int, str]:
        """The token of the call in its session, the id by which the caller knows the call, and a name for people."""
        raise NotImplementedError

    def _passes_on(self) -> None:
        """Its outcome goes to a call that awaits it, which tells of its error."""


def take_operands(spec: CallSpec) -> None:
    """Move the operands among the arguments of a call, if there are any, into `spec.operands`."""
    operands = {name: value for name, value in spec.body.items() if isinstance(value, Operand)}
    if not operands:
        return
    spec.operands = operands
    spec.body = {name: value for name, value in spec.body.items() if name not in operands}


def settle_operands(spec: CallSpec, client: Any) -> None:
    """Put the values of those operands that have ended in their places, just before the call begins.

    Raises `InvalidArgument` for an operand that this client cannot fill, or a call that takes none, and `OperandFailed` for
    an operand that has failed.
    """
    route = spec.route
    for name, operand in [*(spec.operands or {}).items()]:
        where = f"{route}: argument {name!r} is {operand._source()[2]}"
        if spec.window is not None or spec.streamed is not None:
            raise InvalidArgument(f"{where}: a call with a stream takes no promises; wait for its result and pass that")
        owner = operand._owner()
        if owner is not client:
            of = "a closed client" if owner.is_closed else "another client"
            raise InvalidArgument(f"{where} of {of}, which alone can fill it; wait for its result and pass that")
        has_ended, value, error = operand._outcome()
        if error is not None:
            raise OperandFailed(route, name, operand._source()[2], error)
        if has_ended:
            assert spec.operands is not None
            del spec.operands[name]
            spec.body[name] = value
        else:
            operand._passes_on()
    if not spec.operands:
        spec.operands = None


def refuse_operands(spec: CallSpec, what: str) -> None:
    """Raises `InvalidArgument` for a request that takes no operands, such as a cast."""
    for name, operand in (spec.operands or {}).items():
        raise InvalidArgument(
            f"{spec.route}: argument {name!r} is {operand._source()[2]}: {what} takes no promises; use submit()"
        )
