"""Argument: the objects that may be registered for the parameters of a handler, matched by position.

Type checkers compare the T of each argument with the parameter (registrar.py); registration does the same at run time. A
protector names its T in its base class. An active object is passed as it is, so its T is its own class. `Argument` is a
protocol because no class can be the type argument of its own base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Argument(Protocol[T_co]):
    """An object that may be registered for a parameter of type T. For annotations only."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _given(self) -> T_co: ...


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *arguments: object, **keywords: object) -> NoReturn:
        raise TypeError(_outside(self, what))

    return refuse


class LockedArgument(Argument[T_co]):
    """Base of all arguments for data under locks: protectors, their accessors and their choices.

    Using one like its datum raises an error that says how to reach the datum. Type checkers report such a use by themselves.
    """

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{_name_of(self)} cannot be copied: the copy would not be under its lock")

    if TYPE_CHECKING:

        def _given(self) -> T_co:
            raise NotImplementedError

    else:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):  # Python itself probes for these
                raise AttributeError(name)
            raise AttributeError(_outside(self, f"has no {name!r}"))

        def __setattr__(self, name: str, value: object) -> None:
            try:
                object.__setattr__(self, name, value)
            except AttributeError:
                raise AttributeError(_outside(self, f"has no {name!r}")) from None

        def __getitem__(self, key: object) -> NoReturn:
            raise TypeError(_outside(self, f"has no [{key!r}]"))

        def __setitem__(self, key: object, value: object) -> NoReturn:
            raise TypeError(_outside(self, f"has no [{key!r}]"))

        __iter__ = _refusing("cannot be iterated")
        __len__ = _refusing("has no length")
        __contains__ = _refusing("contains nothing")
        __call__ = _refusing("cannot be called")
        __enter__ = _refusing("cannot be locked by hand")

        def __exit__(self, *error: object) -> None: ...

        def __bool__(self) -> bool:
            return True


class ActiveObject:
    """An object that handlers share without a lock: it is thread-safe by itself, and none of its methods ever waits.

    Subclass it. Handlers get the registered object itself (seed 003, section 5: "Monitor like behavior by providing
    non-blocking self-synchronization").
    """

    __slots__ = ("__weakref__",)

    if TYPE_CHECKING:

        def _given(self) -> Self: ...


def _name_of(given: object) -> str:
    """`DataProtector of Room`. Bypasses `__getattr__`: the constructor may not have set the name yet."""
    for path in ("name", "protector"):
        try:
            found = object.__getattribute__(given, path)
        except AttributeError:
            continue
        return f"{type(given).__name__} of {found if path == 'name' else getattr(found, 'name', '?')}"
    return type(given).__name__


def _outside(given: object, what: str) -> str:
    return (
        f"{_name_of(given)} {what}: protected data are reached only as arguments of a registered handler; a test passes its "
        "own data"
    )
