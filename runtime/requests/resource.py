"""Resource: how one kind of per-thread handle is opened, closed, and recognised as stale; declared once, by name.

From seed 001, section 3.1: a database handle serves one thread, so each thread opens its own when it asks. A wrong declaration
is refused where it is made, and not in the first request that asks for it. Opened without a key, a handle stands for one
original (`kernel.resources["db"]`), with a key for one of several (`kernel.resources["db", path]`); the signature of `open`
says which of the two is allowed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import InternalError, InvalidArgument, NotFound, text_of

from ..objects.operation import DeclarationError

H = TypeVar("H")

#: Handles of one resource that one thread holds, at most. A handle is commonly a descriptor (sqlite3 takes up to three) of the
#: 1,024 that a process has by default: with 32 threads this is half of them. With less, handles used in turns are reopened.
HELD_MAX_DEFAULT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[H]):
    """A resource that every executing thread opens for itself, on demand.

    `open`: makes a handle; with one parameter it gets the key. An exception fails the request that asked.
    `close`: gets a handle that is needed no more; None: it is dropped. `is_stale`: whether a handle is of no use any more,
    called at each use, and now and then at the end of a request, so it should cost microseconds; if it raises, the handle
    counts as stale. `held_max`: handles of this resource in one thread, over all keys; the least recently used makes room.
    All three functions are called in that thread.

    >>> import os, sqlite3
    >>> class Library(sqlite3.Connection):
    ...     def __init__(self, path):
    ...         self.path, self.inode = path, os.stat(path).st_ino
    ...         super().__init__(path)
    ...
    ...     def is_stale(self):
    ...         return os.stat(self.path).st_ino != self.inode  # the file was replaced
    >>> library = Resource(open=Library, close=Library.close, is_stale=Library.is_stale)
    """

    open: Callable[..., H]
    close: Callable[[H], object] | None = None
    is_stale: Callable[[H], bool] | None = None
    held_max: int = HELD_MAX_DEFAULT
    #: Whether `open` may be called without a key, and with one.
    is_plain: bool = field(init=False, repr=False, compare=False)
    is_keyed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises `DeclarationError` for a declaration that could not work."""
        for word in ("open", "close", "is_stale"):
            function = getattr(self, word)
            if function is None and word != "open":
                continue
            if not callable(function):
                raise DeclarationError(f"Resource: {word}={function!r}: expected a function")
            if inspect.iscoroutinefunction(function):
                raise DeclarationError(
                    f"Resource: {word} is async, but is called without await: write a plain function"
                )
        object.__setattr__(self, "is_plain", _fits(self.open, 0))
        object.__setattr__(self, "is_keyed", _fits(self.open, 1))
        if not (self.is_plain or self.is_keyed):
            raise DeclarationError("Resource: open needs more than a key; give it no parameter, or one")
        for word in ("close", "is_stale"):
            function = getattr(self, word)
            if function is not None and not _fits(function, 1):
                raise DeclarationError(f"Resource: {word} cannot be called with a handle alone")
        if type(self.held_max) is not int or self.held_max < 1:
            raise DeclarationError(f"Resource: held_max={self.held_max!r}: expected a number of handles, 1 or more")


class ResourceKey:
    """The argument of `kernel.resources[...]`, checked: a name, and a key if there is one."""

    __slots__ = ("key", "name")

    def __init__(self, item: object, declared: Iterable[str]) -> None:
        """Raises `UnknownResource`, or `InvalidArgument` for anything but a name, or a name and a key."""
        name, key = (item[0], list(item[1:])) if isinstance(item, tuple) and len(item) == 2 else (item, [])
        if not isinstance(name, str):
            raise InvalidArgument(f'resources[{text_of(item)}]: expected resources["name"] or resources["name", key]')
        if name not in declared:
            raise UnknownResource(name, declared)
        try:
            hash(item)
        except TypeError as error:
            raise InvalidArgument(f"resource {name!r}: a key must be hashable ({error})") from error
        self.name: str = name
        #: Empty, or the key as its only item.
        self.key: list[Hashable] = key

    def check(self, resource: Resource[Any]) -> None:
        """Raises `InvalidArgument` if `resource` cannot be opened with this key, or without one."""
        if self.key and not resource.is_keyed:
            raise InvalidArgument(
                f"resource {self.name!r} has no key, because its open takes none: ask for resources[{self.name!r}]"
            )
        if not self.key and not resource.is_plain:
            raise InvalidArgument(f"resource {self.name!r} is opened by a key: ask for resources[{self.name!r}, key]")

    def __str__(self) -> str:
        return repr(self.name) + "".join(f" of {text_of(repr(key), 200)}" for key in self.key)


class UnknownResource(NotFound):
    """No such resource is declared in the kernel."""

    def __init__(self, name: str, declared: Iterable[str]) -> None:
        known = sorted(declared)
        near = nearest(name, known)
        remedy = f"did you mean {near!r}?" if near else f"declared: {', '.join(known) or 'none'}"
        super().__init__(f"no resource {name!r} ({remedy})")
        self.name = name


class ResourceNotOpened(InternalError):
    """`open` of a resource raised; the request that asked for it fails with this. The cause is chained."""

    def __init__(self, asked: ResourceKey, thread: str, problem: str) -> None:
        super().__init__(f"resource {asked} could not be opened for thread {thread}: {problem}")
        self.name, self.thread = asked.name, thread


def check_declared(declared: object) -> None:
    """Raise `DeclarationError` unless these are resources by their names."""
    if not isinstance(declared, Mapping):
        raise DeclarationError(f'resources={declared!r}: expected a mapping: {{"db": Resource(open=...)}}')
    for name, resource in declared.items():
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"resources: {name!r}: expected a non-empty string as name")
        if not isinstance(resource, Resource):
            raise DeclarationError(f"resources: {name!r} is {resource!r}: expected Resource(open=...)")


def _fits(function: Callable[..., object], count: int) -> bool:
    """Whether it may be called with so many arguments; True if its signature is unknown (as of some functions in C)."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
