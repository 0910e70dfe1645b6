"""Own: protects the runtime's names in the classes that users subclass.

A user's class shares one name space with its base class. Setting a runtime attribute raises an error that says whose the
name is. An operation of that name, which would replace it for the runtime, too, is refused when the class is made. Methods
that users are meant to override (the hooks, `setup`, `make_room`) may be marked like any other.
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
        """A read-only property whose setter raises AttributeError: the name belongs to the runtime."""

        def refuse(self: Any, value: Any) -> Never:
            kind, name = type(self).__qualname__, get.__name__
            raise AttributeError(f"{kind}.{name} = {value!r}: {name!r} belongs to the runtime: choose another name")

        return property(get, refuse)


def check_operations(cls: Any, base: type, replaceable: tuple[str, ...] = ()) -> None:
    """Raise `DeclarationError` if a marked method of `cls` replaces an attribute of `base` that is not `replaceable`."""
    for attribute in cls.__operations__:
        if attribute in vars(base) and attribute not in replaceable:
            raise DeclarationError(
                f"{cls.__qualname__}.{attribute}: {attribute!r} belongs to the runtime: choose another name for the method"
                f" (its route may have that name: @operation(name={attribute!r}))"
            )
