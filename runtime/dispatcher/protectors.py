"""Protectors: hold the data of handlers under locks, and are the only way to the data.

`DataProtector[T]` holds one datum. `SelectiveProtector[K, T]` holds many, one of which each message selects (seed 003, sections
3.1 and 4.1). Neither hands its datum out: a handler gets it as an argument, while its lock is held. An object that needs no
lock, because it is thread-safe and never waits, is an `ActiveObject`, and is passed as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, get_args

from appbackplane.transport.errors import Busy, InvalidArgument, NotFound

from ..objects.operation import DeclarationError
from .accessor import Accessor, SelectiveAccessor
from .argument import ActiveObject, Argument, LockedArgument, T_co
from .checks.choosing import check_factory, check_function, returned, taken
from .checks.data import check_datum, check_made, claim
from .checks.kinds import an, fits, is_made, kind_of, text_of
from .locking import Lock, Rank
from .observed import Observed

if TYPE_CHECKING:
    from .accessor import AccessorLocks
    from .message import Message

T = TypeVar("T")
K = TypeVar("K")

#: Marks a parameter whose datum the handler only reads: handlers that only read run in parallel.
READ: Final = "appbackplane: read only"
#: `room: Read[Room]` is `room: Annotated[Room, READ]`.
Read = Annotated[T, READ]

#: Ranks of protectors without `order`: in the order of construction, as in the paper.
_serials = itertools.count(1)
#: Data that the factory of a selective protector may make. 100,000 small objects are tens of megabytes; keys from outside
#: must not fill the memory.
KEYS_MAX_DEFAULT = 100_000
#: Added to the rank of a protected source without `order`: in the order of construction, but before all other data.
SOURCES_FIRST = -(1 << 40)
#: `__name__` of a lambda as factory. The protector is then named for the type of the first parameter it is registered for.
UNNAMED: Final = "<lambda>"


class Protector(LockedArgument[T_co]):
    """Data under locks: base of `DataProtector` and `SelectiveProtector`."""

    __slots__ = ("__orig_class__", "_owner", "_rank", "name", "per_shard")

    #: Whether each shard of a sharded dispatcher has data of its own (shards.py).
    per_shard: bool
    #: The dispatcher it was first registered with, which owns its locks.
    _owner: object
    _rank: tuple[int, int]
    #: For errors and statistics.
    name: str

    def _select(self, message: Message) -> tuple[Lock, T_co]:
        """The lock and the datum for this message. Called before anything is locked."""
        raise NotImplementedError

    def _fits(self, kind: Any) -> str | None:
        """None if a parameter of type `kind` may get its datum; else the actual type of the datum, as text."""
        raise NotImplementedError

    def _has(self, datum: object) -> bool:
        """Whether it protects this very object."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class DataProtector(Protector[T]):
    """One datum. Construct the datum in the call, `DataProtector(Room())`, so that no other code refers to it."""

    __slots__ = ("__datum", "__lock")

    def __init__(self, datum: T, *, order: int | None = None, name: str | None = None, per_shard: bool = False) -> None:
        """`order`: rank of its lock, lower is locked first; default: after all protectors constructed before.

        `name`: for errors and statistics; default the datum's type. `per_shard`: confirms that each shard of a sharded
        dispatcher has a datum of its own. Raises `DeclarationError`.
        """
        where = f"DataProtector({shortened(datum)})"
        check_datum(datum, where)
        self.name = _name(name, where) or type(datum).__name__
        self.per_shard = per_shard
        self._rank = _rank(order, where, datum)
        self._owner = None
        self.__datum = datum
        self.__lock = _lock((*self._rank, 0), self.name, datum)
        claim(datum, self, where)

    @property
    def accessor(self) -> Argument[Accessor[T]]:
        """Argument for a handler that locks the datum only if it has to: `handler(message, room: Accessor[Room])`."""
        return AccessorOf(self)

    def _select(self, message: Message) -> tuple[Lock, T]:
        return self.__lock, self.__datum

    def _fits(self, kind: Any) -> str | None:
        said = _said(self)
        if said and not fits(self.__datum, said[0]):
            return f"{type(self.__datum).__name__}, which is called {an(text_of(said[0]))}"
        return None if fits(self.__datum, kind) else kind_of(self.__datum, kind)

    def _has(self, datum: object) -> bool:
        return self.__datum is datum

    def _all(self) -> list[tuple[Lock, T]]:
        """Its lock and datum, for attaching a protected source."""
        return [(self.__lock, self.__datum)]


class SelectiveProtector(Protector[T], Generic[K, T]):
    """Many data, one of which the message selects. Each has its own lock, so that different ones are used in parallel."""

    __slots__ = (
        "__by_key", "__factory", "__key_of", "__keys_max", "__makes", "__select", "__serials", "_field", "_guard",
    )  # fmt: skip

    def __init__(
        self,
        data: Mapping[K, T] | Callable[[K], T],
        *,
        by: str | Callable[[Any], K] | None = None,
        order: int | None = None,
        name: str | None = None,
        keys_max: int = KEYS_MAX_DEFAULT,
        per_shard: bool = False,
    ) -> None:
        """`data`: all of them by key; or a factory that makes a key's datum on first use, for at most `keys_max` keys.

        `by`: the message field that is the key, or a function of the message; default the field named by `@message(key=…)`.
        The function may be called at any time and in any thread: it must only read the message. `per_shard`: each shard of
        a sharded dispatcher has data of its own, instead of the keys that are at home there.
        """
        where = f"SelectiveProtector({'{…}' if isinstance(data, Mapping) else shortened(data)})"
        if by is not None and not isinstance(by, str):
            check_function(by, f"{where}: by={shortened(by)}", "message")
        _check_field(by, f"{where}: by={by!r}")
        if not isinstance(keys_max, int) or keys_max < 1:
            raise DeclarationError(f"{where}: keys_max={keys_max!r}: expected the maximum number of data")
        self.per_shard = per_shard
        #: Raises for a key that is at home in another shard.
        self._guard: Callable[[K], None] | None = None
        self._rank = _rank(order, where, next(iter(data.values()), None) if isinstance(data, Mapping) else None)
        self._owner = None
        self._field = by if isinstance(by, str) else None
        self.__select = None if by is None or isinstance(by, str) else by
        self.__serials = itertools.count()
        self.__by_key: dict[K, tuple[Lock, T]] = {}
        self.__keys_max = keys_max
        self.__factory: Callable[[K], T] | None = None
        self.__makes: Any = _UNKNOWN
        #: The key of each datum by its `id()`. Entries outlive their data, so each is verified before use.
        self.__key_of: dict[int, K] = {}
        if isinstance(data, Mapping):
            if not data:
                raise DeclarationError("SelectiveProtector({}): no data, and no function to make them from their keys")
            self.name = _name(name, where) or type(next(iter(data.values()))).__name__
            for key, datum in data.items():
                check_datum(datum, f"{where}: that of {key!r}")
                claim(datum, self, f"{where}: that of {key!r}")
                self.__add(key, datum)
        else:
            check_factory(data, where)
            self.__factory = data
            self.name = _name(name, where) or str(getattr(data, "__name__", UNNAMED))

    @property
    def _by(self) -> str | Callable[[Any], K] | None:
        """The field or function given as `by`, if any."""
        return self._field or self.__select

    @property
    def _makes(self) -> Any:
        """The type that its factory makes; None: not annotated, or there is no factory."""
        if self.__makes is _UNKNOWN:
            said = _said(self)
            self.__makes = said[1] if said else self.__factory and returned(self.__factory)
        return self.__makes

    @property
    def _key_kinds(self) -> tuple[Any, ...]:
        """The types of its keys; empty: unknown."""
        if said := _said(self):
            return (said[0],)
        if self.__factory is None:
            return tuple({type(key): None for key in self.__by_key})
        kind = taken(self.__factory)
        return () if kind is None else (kind,)

    @property
    def _has_function(self) -> bool:
        """Whether `by` was given as a function."""
        return self.__select is not None

    @property
    def _has_factory(self) -> bool:
        """Whether a factory makes its data on first use."""
        return self.__factory is not None

    def by(self, by: str | Callable[[Any], K]) -> Argument[T]:
        """The same data, selected by another field or function: `register(move, rooms.by("source"), rooms.by("target"))`."""
        if not isinstance(by, str):
            check_function(by, f"{self.name}.by({shortened(by)})", "message")
        _check_field(by, f"{self.name}.by({by!r})")
        return Choice(self, by)

    @property
    def accessor(self) -> Argument[SelectiveAccessor[K, T]]:
        """Argument for a handler that locks some of the data if it has to: `rooms: SelectiveAccessor[str, Room]`."""
        return SelectiveAccessorOf(self)

    def _select(self, message: Message) -> tuple[Lock, T]:
        if self.__select is not None:
            return self._of(self.__select(message))
        return self._of(getattr(message, self._field or message.__message__.key or ""))

    def _all(self) -> list[tuple[Lock, T]]:
        """The locks and data that exist so far, for attaching protected sources."""
        return list(self.__by_key.values())

    def _of(self, key: K) -> tuple[Lock, T]:
        """Lock and datum of a key. Raises `NotFound` if it is unknown, `Busy` at `keys_max`, `InvalidArgument` for NaN."""
        found = self.__by_key.get(key)
        if found is not None:
            return found
        if self.__factory is None:
            known = ", ".join(repr(each) for each in itertools.islice(self.__by_key, 5))
            raise NotFound(f"no {self.name} {key!r} (there are {len(self.__by_key)}: {known}, …)")
        if key != key:
            raise InvalidArgument(f"{self.name}: {key!r} cannot be a key: it does not equal itself")
        if len(self.__by_key) >= self.__keys_max:
            raise Busy(f"{self.name}: {self.__keys_max} keys, its maximum (keys_max)", retry_after=1.0)
        return self.__add(key, self.__make(self.__factory, key))

    def _reached(self, key: K) -> tuple[Lock, T]:
        """`_of` for an accessor, whose key has not been checked for its shard yet."""
        if self._guard is not None:
            self._guard(key)
        return self._of(key)

    def _keep(self, is_kept: Callable[[K], bool]) -> int:
        """Drop all data whose key is not kept; returns how many."""
        gone = [key for key in list(self.__by_key) if not is_kept(key)]
        for key in gone:
            self.__by_key.pop(key, None)
        return len(gone)

    def _fits(self, kind: Any) -> str | None:
        makes = self._makes
        if makes is not None and not is_made(makes, kind):
            return text_of(makes)
        kinds = (kind,) if makes is None else (makes, kind)
        return next(
            (kind_of(d, kind) for _, d in self.__by_key.values() if not all(fits(d, each) for each in kinds)), None
        )

    def _has(self, datum: object) -> bool:
        return any(each is datum for _, each in self.__by_key.values())

    def __make(self, factory: Callable[[K], T], key: K) -> T:
        """Make a datum and check it: only now does it show whether the factory keeps its word. Raises `DeclarationError`."""
        datum = factory(key)
        where = f"{self.name} of {key!r}"
        check_made(datum, where, is_first=not self.__key_of)
        other = self.__key_of.get(id(datum), key)
        if other != key and (known := self.__by_key.get(other)) is not None and known[1] is datum:
            raise DeclarationError(f"{where} is that of another key: two locks would not protect it")
        makes = self._makes
        if makes is not None and not fits(datum, makes):
            raise DeclarationError(f"{where}: a {type(datum).__name__} was made, not a {text_of(makes)}")
        return datum

    def __add(self, key: K, datum: T) -> tuple[Lock, T]:
        # Two threads may add a new key at once: both use the entry that setdefault keeps.
        kept = self.__by_key.setdefault(
            key, (_lock((*self._rank, next(self.__serials)), f"{self.name} {key!r}", datum), datum)
        )
        self.__key_of[id(kept[1])] = key
        return kept


class Choice(LockedArgument[T]):
    """A selective protector with another selector: see `SelectiveProtector.by`."""

    __slots__ = ("by", "protector")

    def __init__(self, protector: SelectiveProtector[K, T], by: str | Callable[[Any], K]) -> None:
        self.protector: SelectiveProtector[Any, T] = protector
        self.by = by

    def _select(self, message: Message) -> tuple[Lock, T]:
        by = self.by
        return self.protector._of(getattr(message, by) if isinstance(by, str) else by(message))


class AccessorOf(LockedArgument[Accessor[T]]):
    """The argument registered for a parameter of type `Accessor`."""

    __slots__ = ("protector",)

    def __init__(self, protector: DataProtector[T]) -> None:
        self.protector = protector

    def _bind(self, reach: AccessorLocks, message: Message, is_shared: bool) -> Accessor[T]:
        protector = self.protector
        return Accessor(protector.name, reach, lambda: protector._select(message), is_shared)


class SelectiveAccessorOf(LockedArgument[SelectiveAccessor[K, T]]):
    """The argument registered for a parameter of type `SelectiveAccessor`."""

    __slots__ = ("protector",)

    def __init__(self, protector: SelectiveProtector[K, T]) -> None:
        self.protector = protector

    def _bind(self, reach: AccessorLocks, message: Message, is_shared: bool) -> SelectiveAccessor[K, T]:
        return SelectiveAccessor(self.protector.name, reach, self.protector._reached, is_shared)


def protector_behind(argument: object) -> Protector[Any] | None:
    """The protector of a registered argument: itself, or behind an accessor or a choice; None: there is none."""
    found = getattr(argument, "protector", argument)
    return found if isinstance(found, Protector) else None


def _rank(order: int | None, where: str, datum: object) -> tuple[int, int]:
    if order is not None and (not isinstance(order, int) or isinstance(order, bool)):
        raise DeclarationError(f"{where}: order={order!r}: expected a number: lower ones are locked first")
    serial = next(_serials)
    if order is not None:
        return order, serial
    # A source stays locked through all handlers of its message: a lock that ranks first is never released for another.
    return (serial + SOURCES_FIRST if isinstance(datum, ActiveObject) else serial), serial


def _lock(rank: Rank, name: str, datum: object) -> Lock:
    lock = Lock(rank, name)
    if isinstance(datum, Observed):
        lock.observed = datum
        object.__setattr__(datum, "_lock", lock)
    return lock


def _name(name: str | None, where: str) -> str | None:
    if name is not None and (not isinstance(name, str) or not name):
        raise DeclarationError(f"{where}: name={name!r}: expected a word for errors and statistics")
    return name


def _check_field(by: object, where: str) -> None:
    if isinstance(by, str) and not by.isidentifier():
        raise DeclarationError(f"{where}: expected a field of the message, or a function of it")


def _said(protector: Protector[Any]) -> tuple[Any, ...]:
    """The type arguments in `SelectiveProtector[str, Room](…)`; empty: none were written."""
    return get_args(getattr(protector, "__orig_class__", None))


def shortened(value: object) -> str:
    """A value as shown in errors: its name, its short `repr`, or its type."""
    if name := getattr(value, "__qualname__", None):
        return str(name)
    text = repr(value)
    return text if len(text) <= _TEXT_MAX and " object at 0x" not in text else f"{type(value).__name__}(…)"


#: Longest `repr` shown: an error is one line for any datum.
_TEXT_MAX = 40
_UNKNOWN: Final[Any] = object()
