"""Own: the names that are the runtime's own in what users subclass.

A user's class has one name space with ours. An attribute that is set over one of ours is refused in words that say whose it
is; an operation in its place, which would replace it for the runtime, too, when the class is made. What is meant to be
replaced (the hooks, `setup`, `make_room`) may be marked like any method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never

from .operation import DeclarationError

__all__ = ["check_operations", "owned"]


if TYPE_CHECKING:
    from builtins import property as owned
else:

    def owned(get: Callable[[Any], Any]) -> property:
        """A property that says whose it is to whoever sets it."""

        def refuse(self: Any, value: Any) -> Never:
            kind, name = type(self).__qualname__, get.__name__
            raise AttributeError(f"{kind}.{name} = {value!r}: {name!r} belongs to the runtime: choose another name")

        return property(get, refuse)


def check_operations(cls: Any, base: type, replaceable: tuple[str, ...] = ()) -> None:
    """No operation, subscription or timer of `cls` has a name that is the runtime's in `base`. Raises `DeclarationError`."""
    for attribute in cls.__operations__:
        if attribute in vars(base) and attribute not in replaceable:
            raise DeclarationError(
                f"{cls.__qualname__}.{attribute}: {attribute!r} belongs to the runtime: name the method otherwise"
                f" (its route may have that name: @operation(name={attribute!r}))"
            )
