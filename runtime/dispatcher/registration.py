"""Registration: checks a handler against its arguments before any message arrives.

Seed 003 deduces the message from the handler's signature, so that a handler cannot be registered for the wrong one. So does
this file, and it compares each further parameter with its argument. A type checker sees the same mistakes (registrar.py). A
valid registration becomes an `HandlerEntry`; facts that hold for all messages are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .argument import ActiveObject
from .checks.data import protector_of
from .checks.lock_search import found_in, is_lock
from .checks.matching import HandlerParameter, matched
from .checks.signature import signature_of
from .errors import RegistrationError
from .locking import LockClaim, ordered
from .message import MessageSpec
from .protectors import AccessorOf, Choice, DataProtector, Protector, SelectiveAccessorOf


class HandlerEntry:
    """One registered handler (the paper's DeferredCaller). Its arguments are selected per message, before any lock is taken."""

    __slots__ = (
        "answers", "calls_count", "failures_count", "fixed", "handler", "has_accessor", "is_registered", "may_observe", "name",
        "parameters", "run_ns", "spec", "wait_ns",
    )  # fmt: skip

    def __init__(
        self, handler: Callable[..., Any], spec: MessageSpec, parameters: Sequence[HandlerParameter], answers: bool
    ) -> None:
        self.handler = handler
        self.spec = spec
        self.parameters = tuple(parameters)
        #: Whether the caller of its message gets its result.
        self.answers = answers
        self.name: str = handler.__qualname__
        self.is_registered = True
        self.has_accessor = any(isinstance(p.argument, (AccessorOf, SelectiveAccessorOf)) for p in parameters)
        self.calls_count = self.failures_count = self.run_ns = self.wait_ns = 0
        #: The result of `prepare`, if it is the same for every message.
        self.fixed: tuple[Sequence[LockClaim], tuple[Any, ...]] | None = None
        if all(isinstance(p.argument, (DataProtector, ActiveObject)) for p in parameters):
            self.fixed = self.prepare(None, None)
        #: Whether any of its data may report changes (observed.py).
        self.may_observe = self.fixed is None or any(lock.observed is not None for lock, _ in self.fixed[0])

    def prepare(self, message: Any, reach: Any) -> tuple[Sequence[LockClaim], tuple[Any, ...]]:
        """The claims that `message` needs, in ascending rank, and the further arguments. `reach`: for its accessors."""
        claims: list[LockClaim] = []
        values: list[Any] = []
        for parameter in self.parameters:
            argument = parameter.argument
            if isinstance(argument, (Protector, Choice)):
                lock, datum = argument._select(message)
                claims.append(LockClaim(lock, parameter.is_shared))
                values.append(datum)
            elif isinstance(argument, (AccessorOf, SelectiveAccessorOf)):
                values.append(argument._bind(reach, message, parameter.is_shared))
            else:
                values.append(argument)
        return ordered(claims), tuple(values)


def entry_of(handler: Any, arguments: Sequence[Any], owner: object) -> HandlerEntry:
    """The entry of a valid registration. Raises `RegistrationError`."""
    signature = signature_of(handler)
    if problem := found_in(handler, _unprotected):
        raise RegistrationError(f"{signature.name} {problem}")
    return HandlerEntry(handler, signature.spec, matched(signature, arguments, owner), signature.answers)


def _unprotected(value: object) -> str | None:
    """Error text for a value that a handler may only reach as an argument; None: harmless."""
    if said := is_lock(value):
        return f"{said}: a handler that waits for one while it holds data may wait for ever: protect what it guards"
    protector = protector_of(value)
    return None if protector is None else f"is protected by {protector!r}: take it as a parameter, and register that"


def conflict(entry: HandlerEntry, others: Sequence[HandlerEntry]) -> str | None:
    """Why a handler cannot be added to the others of its message; None: it can."""
    message = entry.spec.type.__name__
    if any(each.handler == entry.handler and _data_of(each) == _data_of(entry) for each in others):
        return f"{entry.name} is registered for {message} already, with the same data: once is enough"
    answering = next((each.name for each in others if each.answers), None)
    if entry.answers and answering is not None:
        return (
            f"{entry.name} and {answering} both return a result for the caller of {message}: only one may answer; annotate "
            "the other `-> None`"
        )
    return None


def _data_of(entry: HandlerEntry) -> list[tuple[Any, ...]]:
    arguments = [each.argument for each in entry.parameters]
    return [
        (type(each), id(getattr(each, "protector", each)), each.by if isinstance(each, Choice) else None)
        for each in arguments
    ]
