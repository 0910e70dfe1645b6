"""Registrar: the types of `register`. Type checkers refuse a handler that does not fit its arguments.

Python has no map over a tuple of types (`Argument[T]` for each T of a handler), hence an overload for each number of data, up
to twelve. A builder that collects the types one by one (`locks.also(room).also(journal)`) needs no overloads, but is a second
thing to learn. Overloads differ in their number of arguments, so both mypy and pyright report the intended one, in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from .argument import Argument
from .message import Message

M = TypeVar("M", bound=Message)
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")
J = TypeVar("J")
K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")


class Registrar:
    """Base of the classes that have `register`: `Dispatcher` and `Registrations`."""

    __slots__ = ()

    def _register(self, handler: Callable[..., Any], arguments: Sequence[Any]) -> None:
        raise NotImplementedError

    # fmt: off
    @overload
    def register(self, handler: Callable[[M], R], /) -> None: ...
    @overload
    def register(self, handler: Callable[[M, A], R], a: Argument[A], /) -> None: ...
    @overload
    def register(self, handler: Callable[[M, A, B], R], a: Argument[A], b: Argument[B], /) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C], R], a: Argument[A], b: Argument[B], c: Argument[C], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D], R], a: Argument[A], b: Argument[B], c: Argument[C],
        d: Argument[D], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E], R], a: Argument[A], b: Argument[B], c: Argument[C],
        d: Argument[D], e: Argument[E], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F], R], a: Argument[A], b: Argument[B], c: Argument[C],
        d: Argument[D], e: Argument[E], f: Argument[F], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F, G], R], a: Argument[A], b: Argument[B], c: Argument[C],
        d: Argument[D], e: Argument[E], f: Argument[F], g: Argument[G], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F, G, H], R], a: Argument[A], b: Argument[B], c: Argument[C],
        d: Argument[D], e: Argument[E], f: Argument[F], g: Argument[G], h: Argument[H], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F, G, H, J], R], a: Argument[A], b: Argument[B], c: Argument[C],
        d: Argument[D], e: Argument[E], f: Argument[F], g: Argument[G], h: Argument[H], j: Argument[J], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F, G, H, J, K], R], a: Argument[A], b: Argument[B],
        c: Argument[C], d: Argument[D], e: Argument[E], f: Argument[F], g: Argument[G], h: Argument[H],
        j: Argument[J], k: Argument[K], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F, G, H, J, K, S], R], a: Argument[A], b: Argument[B],
        c: Argument[C], d: Argument[D], e: Argument[E], f: Argument[F], g: Argument[G], h: Argument[H],
        j: Argument[J], k: Argument[K], s: Argument[S], /
    ) -> None: ...
    @overload
    def register(
        self, handler: Callable[[M, A, B, C, D, E, F, G, H, J, K, S, T], R], a: Argument[A], b: Argument[B],
        c: Argument[C], d: Argument[D], e: Argument[E], f: Argument[F], g: Argument[G], h: Argument[H],
        j: Argument[J], k: Argument[K], s: Argument[S], t: Argument[T], /
    ) -> None: ...
    # fmt: on
    def register(self, handler: Any, /, *arguments: Any) -> None:
        """Call `handler` for each message of its first parameter's type, with the data of `arguments`.

        Handlers of one message are called one after the other, in the order in which they were registered. A parameter with a
        default may be left out. Raises `RegistrationError`.
        """
        self._register(handler, arguments)
