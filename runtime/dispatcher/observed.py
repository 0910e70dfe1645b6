"""Observed: data that report changes by handlers as messages (seed 003, sections 3.1 and 5): so input, rules and output part.

A handler sets fields. When it has returned, each `@on_change` method for these fields is asked for a message, with the locks
still held: once per handler, with the values of that moment. Assignments to fields are seen; changes inside a value (an append
to a list) are not: assign a new value, or call `touch("field")`. A field that has its old value again has not changed. Under a
`Read` parameter, and outside of handlers, setting a field is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from appbackplane.transport.directory import nearest

from ..objects.operation import DeclarationError
from .message import Message, spec_of

if TYPE_CHECKING:
    from .locking import Lock

F = TypeVar("F", bound=Callable[[Any], Message | None])

_ABSENT: Final = object()
_MARK: Final = "__on_change__"


class ChangeRule(NamedTuple):
    """One method with `@on_change`, and the fields that it reports."""

    name: str
    fields: frozenset[str]


class ChangedUnlocked(AttributeError):
    """A field was set without its lock: by a handler that only reads, or by code outside of handlers."""


def on_change(*fields: str) -> Callable[[F], F]:
    """Call this method after a handler has changed one of these fields; it returns a message, or None: nothing to report.

    >>> class Tank(Observed):
    ...     litres: float = 0.0
    ...
    ...     @on_change("litres")
    ...     def alarm(self) -> Overflow | None:
    ...         return Overflow(self.litres) if self.litres > 100 else None
    """
    if not fields or not all(isinstance(each, str) for each in fields):
        raise DeclarationError('@on_change needs the names of the fields: @on_change("celsius")')

    def mark(method: F) -> F:
        setattr(method, _MARK, frozenset(fields))
        return method

    return mark


class _ObservedType(type):
    """Begins to record changes after the constructor, so that its assignments are no changes."""

    if not TYPE_CHECKING:  # type checkers would take its result for that of every constructor

        def __call__(cls, *arguments, **keywords):
            made = super().__call__(*arguments, **keywords)
            object.__setattr__(made, "_before", {})
            return made


class Observed(metaclass=_ObservedType):
    """Subclass it, with annotated fields (a dataclass is fine), and mark the methods that report them with `@on_change`."""

    __slots__ = ("__weakref__", "_before", "_lock")

    #: Old values of changed fields; None during construction.
    _before: dict[str, Any] | None
    #: The lock of its protector; None: unprotected, as in a test.
    _lock: Lock | None
    _rules: ClassVar[tuple[ChangeRule, ...]] = ()
    _watched: ClassVar[frozenset[str]] = frozenset()

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Any:
        self = super().__new__(cls)
        object.__setattr__(self, "_before", None)
        object.__setattr__(self, "_lock", None)
        return self

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        rules: dict[str, ChangeRule] = {}
        known: set[str] = set()
        for each in reversed(cls.__mro__):
            known.update(vars(each).get("__annotations__", ()), vars(each))
            for name, value in vars(each).items():
                rules.pop(name, None)  # overridden
                if (fields := getattr(value, _MARK, None)) is not None:
                    rules[name] = ChangeRule(name, fields)
        for rule in rules.values():
            for field in sorted(rule.fields - known):
                near = nearest(field, known)
                raise DeclarationError(
                    f"{cls.__qualname__}.{rule.name}: @on_change({field!r}), and there is no such field"
                    + (f" (did you mean {near!r}?)" if near else "")
                    + f": annotate it in the class, `{field}: …`"
                )
        cls._rules = tuple(rules.values())
        cls._watched = frozenset().union(*(rule.fields for rule in cls._rules))

    def touch(self, field: str) -> None:
        """Report a field as changed, because its value was changed inside."""
        if field not in self._watched:
            raise DeclarationError(f"{type(self).__qualname__}.touch({field!r}): no @on_change names it")
        self._check(field)
        if self._before is not None:
            self._before[field] = _ABSENT

    def __setattr__(self, name: str, value: Any) -> None:
        before = self._before
        if before is not None:
            self._check(name)
            if name in self._watched and name not in before:
                before[name] = getattr(self, name, _ABSENT)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._check(name)
        before = self._before
        if before is not None and name in self._watched and name not in before:
            before[name] = getattr(self, name, _ABSENT)
        object.__delattr__(self, name)

    def _check(self, name: str) -> None:
        # No mutex: a legitimate writer holds the lock exclusively, so no other thread changes the fields read here.
        lock = self._lock
        if lock is None or lock.writer is not None:
            return
        if lock.readers:
            raise ChangedUnlocked(
                f"{lock.name}.{name} was set by a handler that only reads it: take the Read[…] off its parameter"
            )
        raise ChangedUnlocked(
            f"{lock.name}.{name} was set outside of the handlers that it is registered with: send a message instead"
        )


def changes_of(datum: Observed) -> list[Message]:
    """The messages for its changes since the last call. For tests of handlers.

    >>> fill(Filled(120.0), tank)
    >>> changes_of(tank)
    [Overflow(litres=120.0)]
    """
    return messages_of(datum, taken(datum))


def taken(datum: Observed) -> dict[str, Any]:
    """Take the old values of its changed fields; a new record of changes begins."""
    before, fresh = datum._before, {}  # type: tuple[dict[str, Any] | None, dict[str, Any]]
    object.__setattr__(datum, "_before", fresh)
    return before or {}


def given_back(datum: Observed, before: dict[str, Any]) -> None:
    """Put back changes that could not be reported yet: they are reported after the next handler."""
    object.__setattr__(datum, "_before", (datum._before or {}) | before)


def messages_of(datum: Observed, before: dict[str, Any]) -> list[Message]:
    """The messages for fields that had these values `before`."""
    changed = {name for name, old in before.items() if _is_other(old, getattr(datum, name, _ABSENT))}
    if not changed:
        return []
    told: list[Message] = []
    for rule in datum._rules:
        message = None if changed.isdisjoint(rule.fields) else getattr(datum, rule.name)()
        if message is None:
            continue
        if spec_of(type(message)) is None:
            raise TypeError(f"{type(datum).__qualname__}.{rule.name}() gave {message!r}: expected a message, or None")
        told.append(message)
    return told


def _is_other(old: Any, new: Any) -> bool:
    if old is _ABSENT or new is _ABSENT:
        return True
    if old is new:
        return False
    try:
        return not bool(old == new)
    except Exception:  # arrays compare to an array, not a bool: then the assignment counts
        return True
