"""Registrar: the types of `register`. A handler that does not fit what it is registered with is refused by type checkers.

Python has no map over a tuple of types (`Argument[T]` for each T of a handler), hence an overload for each number of data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from .argument import Argument
from .message import Message
from .registration import Entry

M = TypeVar("M", bound=Message)
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Registrar:
    """What can be registered with."""

    __slots__ = ()

    def _register(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> Entry:
        raise NotImplementedError

    @overload
    def register(self, handler: Callable[[M], R], /) -> Entry: ...
    @overload
    def register(self, handler: Callable[[M, A], R], a: Argument[A], /) -> Entry: ...
    @overload
    def register(self, handler: Callable[[M, A, B], R], a: Argument[A], b: Argument[B], /) -> Entry: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C], R], a: Argument[A], b: Argument[B], c: Argument[C], /
    ) -> Entry: ...
    def register(self, handler: Any, /, *arguments: Any) -> Entry:
        """Have `handler` called for each message of its first parameter's type, with what `arguments` protect.

        Handlers of one message are called one after the other, in the order in which they were registered.
        Raises `RegistrationError`.
        """
        return self._register(handler, arguments)
