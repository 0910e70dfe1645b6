"""Spawned objects: the light objects of one process, found by their addresses.

Each has a number that this process uses once, and no key: a table of its component leads from the number to the object, and
nothing else is kept of it. It is in no list of its routes either, from which it could be taken out only by a walk over all. So
a call without an address never goes to it, and it neither subscribes to topics nor has `@every` timers; both are refused at
`spawn`. Cost: one entry of a dictionary, and a name (scripts/bench spawn).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from appbackplane.transport.address import Address, address_key, made
from appbackplane.transport.errors import Busy, NotFound

from .app_object import AppObject
from .component import Component
from .interleaved import check_interleaving
from .operation import DeclarationError
from .operation_spec import OperationSpec

#: Precedes the number in the name of a spawned object: `front/accounts.#17`.
MARK = "#"
#: Read users' declarations as Any, as in registry.py.
_declares_of: attrgetter[Any] = attrgetter("declares")
_spawnable_of: attrgetter[Any] = attrgetter("spawnable")
_max_spawned_of: attrgetter[Any] = attrgetter("max_spawned")
_concurrency_of: attrgetter[Any] = attrgetter("concurrency")
_interleaves_of: attrgetter[Any] = attrgetter("interleaves")


class SpawnedObjects:
    """The numbers given so far, and the look-up by address. Used under the lead."""

    def __init__(self, backplane: str, incarnation: str, priorities: int) -> None:
        self._backplane = backplane
        self._priorities = priorities
        #: Eight hexadecimal digits that no other process of this backplane has.
        self.incarnation = incarnation
        self._key = address_key(backplane, incarnation)
        #: The number given last; 0: none was.
        self.last = 0
        #: Objects that have ended.
        self.ended_count = 0
        self._checked: set[type[AppObject]] = set()

    def add(self, component: Component, object: AppObject) -> int:  # hot: scripts/bench spawn
        """Add a light object to a component, and return its number. Raises `DeclarationError`, ValueError, `Busy`."""
        if object._component is not None:
            raise ValueError(f"{object.name} is already in {object._component.name}")
        cls = type(object)
        if cls not in self._checked:
            _check(component, cls)
            self._checked.add(cls)
        elif cls not in _declares_of(component):
            raise _undeclared(component, cls)
        if _interleaves_of(cls) is not False:
            check_interleaving(object, self._priorities)
        table = component._spawned
        limit = _max_spawned_of(component)
        if len(table) >= limit:
            raise Busy(
                f"{component.name} has {len(table):,} spawned objects (max_spawned = {limit:,})", retry_after=0.1
            )
        self.last = number = self.last + 1
        object._component = component
        object._name = f"{component._name}.{MARK}{number}"
        table[number] = object
        return number

    def address(self, home: str, component: Component, number: int) -> Address:
        """The address of an object of this process."""
        return made(f"{home}/{self._backplane}:{self.incarnation}/{component.component_name}:{number}")

    def at(self, home: str, component: Component, address: str) -> AppObject:
        """The object of this component at an address. Raises `NotFound`, as a call of it does."""
        prefix, _, number = address.rpartition(":")
        if prefix == f"{home}/{self._backplane}:{self.incarnation}/{component.component_name}":
            found: AppObject | None = component._spawned.get(int(number))
            if found is not None:
                return found
        given = Address(address)
        if given.home != home or given.component != component.component_name:
            raise NotFound(f"{address} is no object of {component.name}")
        raise self.gone(component, given.to("end").key)

    def find(self, component: Component, key: str) -> AppObject | None:
        """The object that an address key selects; None: it is not in this component of this process."""
        number = key[len(self._key) :]
        if not key.startswith(self._key) or not number.isdecimal():
            return None
        found: AppObject | None = component._spawned.get(int(number))
        return found

    def remove(self, object: AppObject) -> None:
        """Forget an object: its number leads nowhere from now on."""
        component, number = object._component, number_of(object)
        assert component is not None and number is not None
        del component._spawned[number]
        self.ended_count += 1

    def gone(self, component: Component, key: str) -> NotFound:
        """The error for an address key of this component that selects no object."""
        backplane, _, rest = key[1:].partition(":")
        incarnation, _, number = rest[1:].partition(".")
        named = f"{component.component_name}:{number}"
        if backplane != self._backplane:
            return NotFound(
                f"{named}: its address is one of backplane {backplane}, which does not serve this operation"
            )
        if incarnation != self.incarnation:
            return NotFound(
                f"{named} has ended: the process of backplane {backplane} that had it was another ({incarnation})"
            )
        if not number.isdecimal() or not 0 < int(number) <= self.last:
            return NotFound(f"{named} never existed in this process of backplane {backplane}")
        return NotFound(f"{named} has ended")


def number_of(object: AppObject) -> int | None:
    """The number of a spawned object; None: it was added in another way."""
    _, mark, number = object._name.rpartition(MARK)
    if not mark or object._key is not None or not number.isdecimal():
        return None
    return int(number)


def check_spawnable(component: Component) -> None:
    """Check the declarations `spawnable` and `max_spawned` of a component. Raises `DeclarationError`."""
    kind = type(component).__qualname__
    classes = _spawnable_of(component)
    if not isinstance(classes, (tuple, list)) or not all(cls in _declares_of(component) for cls in classes):
        raise DeclarationError(f"{kind}.spawnable: expected classes that are in `declares`, too, got {classes!r}")
    for cls in classes:
        _check(component, cls)
    limit = _max_spawned_of(component)
    if type(limit) is not int or limit < 1:
        raise DeclarationError(f"{kind}.max_spawned: expected a whole number, 1 or more, got {limit!r}")


def _check(component: Component, cls: type[AppObject]) -> None:
    if cls not in _declares_of(component):
        raise _undeclared(component, cls)
    specs: list[OperationSpec] = list(cls.__operations__.values())
    for spec in specs:
        if spec.mark.kind != "operation":
            instead = (
                "set timers with after()" if spec.mark.kind == "timer" else "let its component subscribe, and call it"
            )
            raise DeclarationError(
                f"{cls.__qualname__}.{spec.attribute}: a spawned object has only operations: {instead}"
            )
    if _concurrency_of(cls) != 1:
        raise DeclarationError(f"{cls.__qualname__}.concurrency: a spawned object has one queue: spawn several")


def _undeclared(component: Component, cls: type[AppObject]) -> DeclarationError:
    return DeclarationError(
        f"{component.name} does not declare {cls.__qualname__}: list the class in {type(component).__qualname__}.declares"
    )
