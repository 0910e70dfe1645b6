"""Runnable: the class that executes requests, one object of it in each process that has workers (seed 001, section 7).

`execute` gets the request, and the kernel for sub-requests. Its result rejoins, and its exception rejoins as a failure. If
workers are processes, or a cluster, requests and results travel as msgpack and are decoded into the types of `execute`'s
annotations. A type that cannot be sent to another process is refused when the kernel is constructed, and a value at the post.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from appbackplane.transport.errors import InvalidArgument, text_of

from ..objects.hints import has_bounds, hints_of
from ..objects.operation import DeclarationError
from .executing.wire import ITEM_BYTES_MAX

if TYPE_CHECKING:
    from .contexts.context import Context


class Runnable:
    """Subclass it, and name the class in `RequestKernel.runnables`."""

    def execute(self, request: Any, kernel: Context) -> Any:
        """Execute one request; plain or `async`. Several workers call it at the same time: it guards the state that it shares.

        `kernel` is the context of this request: requests posted there belong to it, unless they name another owner.
        """
        raise NotImplementedError(f"{type(self).__name__} has no execute(): define it")


class RunnableSpec:
    """One class of runnables, inspected once."""

    __slots__ = (
        "_decoder", "_has_bounds", "_result_decoder", "cls", "execute", "is_async", "kinds", "name", "request_type", "where",
    )  # fmt: skip

    def __init__(self, cls: Any) -> None:
        """Raises `DeclarationError` if this is no runnable."""
        if not (isinstance(cls, type) and issubclass(cls, Runnable)):
            raise DeclarationError(f"runnables: expected subclasses of Runnable, got {cls!r}")
        function = cls.execute
        if function is Runnable.execute:
            raise DeclarationError(f"{cls.__qualname__} has no execute(): define execute(self, request, kernel)")
        if len(inspect.signature(function).parameters) != 3:
            raise DeclarationError(f"{cls.__qualname__}.execute: expected (self, request, kernel)")
        self.cls, self.name = cls, cls.__name__
        #: "module:Class", by which processes of other machines find it.
        self.where = f"{cls.__module__}:{cls.__qualname__}"
        self.is_async = inspect.iscoroutinefunction(function)
        request_name = list(inspect.signature(function).parameters)[1]
        hints = _hints(function)
        self.request_type: Any = hints.get(request_name, Any)
        #: Classes of which a request must be an object; (): any.
        self.kinds: tuple[type, ...] = (self.request_type,) if _is_own(self.request_type) else ()
        if self.request_type is float:  # as everywhere in Python's types, and in msgspec's
            self.kinds = (float, int)
        self._decoder = _decoder(cls, "request", self.request_type)
        #: Whether the annotation restricts values, and not only the type; then a post is checked for threads, too.
        self._has_bounds = has_bounds(self.request_type)
        self._result_decoder = _decoder(cls, "result", hints.get("return", Any))
        self.execute: Callable[[Any, Any], Any] = self._unmade

    def make(self) -> None:
        """Make the object of this process. Raises `DeclarationError` if its constructor fails."""
        try:
            self.execute = self.cls().execute
        except Exception as error:
            raise DeclarationError(f"{self.where}: its constructor failed: {type(error).__name__}: {error}") from error

    def check(self, request: Any) -> None:
        """Raises `InvalidArgument` for a request of another type, or beyond the annotation's bounds."""
        if self.kinds and not isinstance(request, self.kinds):
            raise InvalidArgument(
                f"{self.name} executes {self.kinds[0].__qualname__}, not {type(request).__qualname__}: got {request!r:.100}"
            )

        if self._has_bounds:
            try:
                msgspec.convert(request, self.request_type)
            except msgspec.ValidationError as error:
                raise InvalidArgument(f"{self._executes()}: {text_of(error)}: got {request!r:.100}") from None

    def pack(self, request: Any) -> bytes:
        """Encode a request for another process. Raises `InvalidArgument` for one that cannot be sent."""
        try:
            packed = msgspec.msgpack.encode(request)
        except Exception as error:
            raise InvalidArgument(
                f"{self.name}: this {type(request).__qualname__} cannot be sent to another process: {error} "
                "(plain data, dataclasses and msgspec structs can)"
            ) from error
        if len(packed) > ITEM_BYTES_MAX:
            raise InvalidArgument(
                f"{self.name}: a request of {len(packed):,} bytes: at most {ITEM_BYTES_MAX:,} can be sent: "
                "post a path, or parts"
            )
        if type(request) is not self.request_type and self.request_type is not Any:
            self._check_arrival(request, packed)
        return packed

    def unpack(self, packed: bytes) -> Any:
        """Decode a request for its execution. Raises `InvalidArgument`."""
        try:
            return self._decoder.decode(packed)
        except Exception as error:  # a user's class may raise anything while it is made
            raise InvalidArgument(f"{self.name}: the request does not match execute(): {text_of(error)}") from error

    def pack_result(self, result: Any) -> bytes:
        """Encode a result for another process. Raises TypeError for one that cannot be sent."""
        try:
            return msgspec.msgpack.encode(result)
        except Exception as error:
            raise TypeError(
                f"{self.name} returned a {type(result).__qualname__}, which cannot be sent to another process: {error}"
            ) from error

    def too_large(self, packed: bytes) -> str:
        """Why an encoded result is too large to be sent; "": it is not."""
        if len(packed) <= ITEM_BYTES_MAX:
            return ""
        return f"{self.name} returned {len(packed):,} bytes: at most {ITEM_BYTES_MAX:,} can be sent"

    def unpack_result(self, packed: bytes) -> Any:
        """Decode a result for its owner. Raises `InvalidArgument` if it does not fit the annotation."""
        try:
            return self._result_decoder.decode(packed)
        except Exception as error:
            raise InvalidArgument(
                f"{self.name} returned a value that its annotation excludes: {text_of(error)}"
            ) from error

    def _check_arrival(self, request: Any, packed: bytes) -> None:
        """Raises `InvalidArgument` for a request that would not arrive, or would lose fields on its way."""
        kind = type(request)
        try:
            arrives = type(self._decoder.decode(packed))
        except Exception as error:
            raise InvalidArgument(
                f"{self._executes()}, not this {kind.__qualname__}: {text_of(error)}: got {request!r:.100}"
            ) from error
        if kind is not arrives and (lost := _lost(kind, arrives)):
            names = ", ".join(map(repr, lost))
            raise InvalidArgument(
                f"{self._executes()}, and of this {kind.__qualname__} {names} would be lost on the way: annotate "
                f"{kind.__qualname__}, or post a {arrives.__qualname__}"
            )

    def _executes(self) -> str:
        return f"{self.name} executes {self.kinds[0].__qualname__ if self.kinds else self.request_type}"

    def _unmade(self, request: Any, kernel: Any) -> Any:
        raise AssertionError(f"{self.name} is executed elsewhere, and not made here")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints that can be resolved: names for type checkers alone, often that of the kernel's class, cannot be."""
    hints: dict[str, Any] = {}
    for name, hint in function.__annotations__.items():
        one = SimpleNamespace(__annotations__={name: hint})
        with suppress(NameError):
            hints |= hints_of(one, globalns=getattr(inspect.unwrap(function), "__globals__", {}))
    return hints


def _lost(posted: Any, arrives: Any) -> list[str]:
    """Fields of one class that an object loses as one of the other; as a dictionary it loses none."""
    names = _fields(posted)
    if names is None or (known := _fields(arrives)) is None:
        return []
    return [name for name in names if name not in known]


def _fields(kind: Any) -> Sequence[str] | None:
    """Names of the fields of its objects that are sent; None: it is no class with fields."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    names: Sequence[str] | None = getattr(kind, "__struct_fields__", None)
    return names


def _is_own(kind: Any) -> bool:
    """Whether it is a class whose objects `isinstance` recognises, without conversion by msgspec."""
    return (
        isinstance(kind, type) and kind is not object and kind.__module__ != "typing" and not hasattr(kind, "__args__")
    )


def _decoder(cls: type, what: str, kind: Any) -> msgspec.msgpack.Decoder[Any]:
    try:
        return msgspec.msgpack.Decoder(kind)
    except TypeError as error:
        raise DeclarationError(
            f"{cls.__qualname__}.execute: its {what} is annotated {kind!r}, which cannot be sent to another process: "
            f"{error}"
        ) from error
