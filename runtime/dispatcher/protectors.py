"""Protectors: what a handler may be given, and the only way to it.

`DataProtector[T]` holds one datum, `SelectiveProtector[K, T]` many, of which the message says which one (seed 003, sections
3.1 and 4.1). Neither hands its datum out: it comes as a handler's argument, while its lock is held. What needs no lock,
because it looks after itself and never waits, is an `ActiveObject`, and is given as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, get_args

from appbackplane.transport.errors import Busy, InvalidArgument, NotFound

from ..objects.operation import DeclarationError
from .accessor import Accessor, AccessorOf, SelectiveAccessor, SelectiveAccessorOf
from .argument import ActiveObject, Argument, Given, T_co
from .checks.choosing import check_factory, check_function, returned, taken
from .checks.data import check_datum, check_made, claim
from .checks.kinds import an, fits, is_made, kind_of, text_of
from .locking import Lock, Rank
from .observed import Observed

if TYPE_CHECKING:
    from .message import Message

T = TypeVar("T")
K = TypeVar("K")

#: Marks a parameter whose datum the handler only looks at: handlers that only look run side by side.
READ: Final = "appbackplane: read only"
#: `room: Read[Room]` is `room: Annotated[Room, READ]`.
Read = Annotated[T, READ]

#: Ranks of those that are given none: in the order of construction, as in the paper.
_serials = itertools.count(1)
#: Data that a selective protector makes by itself: 100,000 small objects are tens of megabytes, and a key that comes from
#: outside must not fill the memory.
KEYS_MAX_DEFAULT = 100_000
#: Added to the rank of a protected source that is given none: in the order of construction, but before all other data.
SOURCES_FIRST = -(1 << 40)
#: What a lambda that makes the data is called; the protector is then named for the parameter that it is first registered for.
UNNAMED: Final = "<lambda>"


class Protector(Given[T_co]):
    """Data under locks: `DataProtector` or `SelectiveProtector`."""

    __slots__ = ("__orig_class__", "_owner", "_rank", "name", "per_shard")

    #: Whether each shard of a sharded dispatcher has its own (shards.py).
    per_shard: bool
    #: The dispatcher it was first registered with: its locks are that one's.
    _owner: object
    _rank: tuple[int, int]
    #: For errors and statistics.
    name: str

    def _select(self, message: Message) -> tuple[Lock, T_co]:
        """The datum for this message, and its lock; before anything is locked."""
        raise NotImplementedError

    def _fits(self, kind: Any) -> str | None:
        """None if a parameter of this kind may be given what it protects; else what that is."""
        raise NotImplementedError

    def _has(self, datum: object) -> bool:
        """Whether it protects this very object."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class DataProtector(Protector[T]):
    """One datum. Construct the datum in the call, `DataProtector(Room())`, so that nobody else knows it."""

    __slots__ = ("__datum", "__lock")

    def __init__(self, datum: T, *, order: int | None = None, name: str | None = None, per_shard: bool = False) -> None:
        """`order`: where its lock stands in the order of locking; default: behind all that were constructed before.

        `name`: for errors and statistics; default the datum's type. `per_shard`: each shard of a sharded dispatcher has one of
        its own, which is meant. Raises `DeclarationError`.
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
        """To be registered for a handler that locks it only when it has to: `handler(message, room: Accessor[Room])`."""
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
        """What it protects, for sources that are to be attached."""
        return [(self.__lock, self.__datum)]


class SelectiveProtector(Protector[T], Generic[K, T]):
    """Many data, one of which the message chooses: each under a lock of its own, so that different ones are used at once."""

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
        """`data`: all there are, or what makes one of its key when that is first seen, `keys_max` of them at most.

        `by`: the message's field that is the key, or a function of the message; default the field that `@message(key=…)`
        names. A message may be asked for its key at any time and in any thread: the function only looks at it. `per_shard`:
        each shard of a sharded dispatcher has data of its own, instead of those that are at home there.
        """
        where = f"SelectiveProtector({'{…}' if isinstance(data, Mapping) else shortened(data)})"
        if by is not None and not isinstance(by, str):
            check_function(by, f"{where}: by={shortened(by)}", "message")
        _check_field(by, f"{where}: by={by!r}")
        if not isinstance(keys_max, int) or keys_max < 1:
            raise DeclarationError(f"{where}: keys_max={keys_max!r}: expected how many data there may be")
        self.per_shard = per_shard
        #: Raises for a key that is not to be reached from here.
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
        #: The key of each datum, by its identity; also of those that have gone, so that it is asked whether it is still so.
        self.__key_of: dict[int, K] = {}
        if isinstance(data, Mapping):
            if not data:
                raise DeclarationError("SelectiveProtector({}): no data, and nothing to make them of their keys")
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
        """The field or the function that it was given to choose by."""
        return self._field or self.__select

    @property
    def _makes(self) -> Any:
        """The kind of what it makes; None: nothing says so, or it makes nothing."""
        if self.__makes is _UNKNOWN:
            said = _said(self)
            self.__makes = said[1] if said else self.__factory and returned(self.__factory)
        return self.__makes

    @property
    def _key_kinds(self) -> tuple[Any, ...]:
        """Of what kinds its keys are; none: nothing says so."""
        if said := _said(self):
            return (said[0],)
        if self.__factory is None:
            return tuple({type(key): None for key in self.__by_key})
        kind = taken(self.__factory)
        return () if kind is None else (kind,)

    @property
    def _has_function(self) -> bool:
        """Whether it was given a function that chooses."""
        return self.__select is not None

    @property
    def _has_factory(self) -> bool:
        """Whether it makes its data when they are first asked for."""
        return self.__factory is not None

    def by(self, by: str | Callable[[Any], K]) -> Argument[T]:
        """The same data, chosen otherwise: `register(move, rooms.by("source"), rooms.by("target"))`."""
        if not isinstance(by, str):
            check_function(by, f"{self.name}.by({shortened(by)})", "message")
        _check_field(by, f"{self.name}.by({by!r})")
        return Choice(self, by)

    @property
    def accessor(self) -> Argument[SelectiveAccessor[K, T]]:
        """To be registered for a handler that locks some of it when it has to: `rooms: SelectiveAccessor[str, Room]`."""
        return SelectiveAccessorOf(self)

    def _select(self, message: Message) -> tuple[Lock, T]:
        if self.__select is not None:
            return self._of(self.__select(message))
        return self._of(getattr(message, self._field or message.__message__.key or ""))

    def _all(self) -> list[tuple[Lock, T]]:
        """What it protects so far, for sources that are to be attached."""
        return list(self.__by_key.values())

    def _of(self, key: K) -> tuple[Lock, T]:
        """The datum of a key. Raises `NotFound` for an unknown one, `Busy` where there are too many."""
        found = self.__by_key.get(key)
        if found is not None:
            return found
        if self.__factory is None:
            known = ", ".join(repr(each) for each in itertools.islice(self.__by_key, 5))
            raise NotFound(f"no {self.name} {key!r} (there are {len(self.__by_key)}: {known}, …)")
        if key != key:
            raise InvalidArgument(f"{self.name}: {key!r} is no key: it equals nothing, not even itself")
        if len(self.__by_key) >= self.__keys_max:
            raise Busy(f"{self.name}: {self.__keys_max} keys, as many as may be (keys_max)", retry_after=1.0)
        return self.__add(key, self.__make(self.__factory, key))

    def _reached(self, key: K) -> tuple[Lock, T]:
        """The same for an accessor, whose key no one has looked at before."""
        if self._guard is not None:
            self._guard(key)
        return self._of(key)

    def _keep(self, is_kept: Callable[[K], bool]) -> int:
        """Let go of all data but these; how many."""
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
        """What only shows when the first is made: that the function keeps its word."""
        datum = factory(key)
        where = f"{self.name} of {key!r}"
        check_made(datum, where, is_first=not self.__key_of)
        other = self.__key_of.get(id(datum), key)
        if other != key and (known := self.__by_key.get(other)) is not None and known[1] is datum:
            raise DeclarationError(f"{where} is that of another key: under two locks it would be under none")
        makes = self._makes
        if makes is not None and not fits(datum, makes):
            raise DeclarationError(f"{where}: a {type(datum).__name__} was made, not a {text_of(makes)}")
        return datum

    def __add(self, key: K, datum: T) -> tuple[Lock, T]:
        # Two threads may come with a new key at once: what setdefault keeps is the one for all.
        kept = self.__by_key.setdefault(
            key, (_lock((*self._rank, next(self.__serials)), f"{self.name} {key!r}", datum), datum)
        )
        self.__key_of[id(kept[1])] = key
        return kept


class Choice(Given[T]):
    """A selective protector, asked in another way."""

    __slots__ = ("by", "protector")

    def __init__(self, protector: SelectiveProtector[K, T], by: str | Callable[[Any], K]) -> None:
        self.protector: SelectiveProtector[Any, T] = protector
        self.by = by

    def _select(self, message: Message) -> tuple[Lock, T]:
        by = self.by
        return self.protector._of(getattr(message, by) if isinstance(by, str) else by(message))


def protector_behind(argument: object) -> Protector[Any] | None:
    """The protector that was registered, or of which an accessor or a choice was; None: it was something else."""
    found = getattr(argument, "protector", argument)
    return found if isinstance(found, Protector) else None


def _rank(order: int | None, where: str, datum: object) -> tuple[int, int]:
    if order is not None and (not isinstance(order, int) or isinstance(order, bool)):
        raise DeclarationError(f"{where}: order={order!r}: expected a number: lower ones are locked first")
    serial = next(_serials)
    if order is not None:
        return order, serial
    # A source stays locked from one handler of its message to the next, for what comes first is never let go.
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
    """What stands in the brackets of `SelectiveProtector[str, Room](…)`."""
    return get_args(getattr(protector, "__orig_class__", None))


def shortened(value: object) -> str:
    """As it is told in errors: a name, a short value, or its type."""
    if name := getattr(value, "__qualname__", None):
        return str(name)
    text = repr(value)
    return text if len(text) <= _TEXT_MAX and " object at 0x" not in text else f"{type(value).__name__}(…)"


#: An error is one line, whatever somebody protects.
_TEXT_MAX = 40
_UNKNOWN: Final[Any] = object()
