"""Registry: the routes, topics and timers of one backplane, known once its components are constructed (law 12).

A route leads to the objects that implement it; a component's state decides whether it is registered now. Objects may come
and go while running, routes may not: a new class of object would be a route nobody has been told of. Plain tables; the
supervisor gets them as `ComponentEntry`s for the directory.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from appbackplane.transport.directory import ComponentEntry, OperationEntry
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import TopicTable, check_pattern

from .app_object import AppObject
from .component import Component
from .endpoint import Endpoint
from .module_state import ModuleState
from .operation import DeclarationError, Mark
from .operation_spec import OperationSpec
from .state_machine import StateMachine

#: What users declare, of any type: compiled code reads an attribute as what it is said to be, and refuses a list for a tuple.
_lends_of: attrgetter[Any] = attrgetter("lends")
_depends_on_of: attrgetter[Any] = attrgetter("depends_on")
_declares_of: attrgetter[Any] = attrgetter("declares")
_exported_topics_of: attrgetter[Any] = attrgetter("exported_topics")
#: By whom the moves of a component through the states may be driven.
DRIVERS = ("system", "backplane")


class Route:
    """One way in: the objects behind it, and the component whose state opens and shuts it."""

    __slots__ = (
        "_states", "component", "cursor", "endpoint", "has_digest", "is_counted", "mark", "name", "objects", "priority",
        "spec", "specs", "states",
    )  # fmt: skip

    def __init__(self, name: str, component: Component, spec: OperationSpec | None, endpoint: Endpoint | None) -> None:
        self.name = name
        self.component = component
        #: The first declaration of the operation: for descriptions; each object binds by its own class's.
        self.spec = spec
        self.specs: dict[type[AppObject], OperationSpec] = {}
        self.endpoint = endpoint
        self.mark = spec.mark if spec is not None else Mark(kind="endpoint")
        #: The highest that any class declares: of the digester, and of descriptions. A call runs at that of its target's class.
        self.priority: int = endpoint.priority if endpoint is not None else self.mark.priority
        #: The component states in which it is served, by name, and as they are.
        self.states: tuple[str, ...] = endpoint.states if endpoint is not None else self.mark.states
        self._states = tuple(state for state in ModuleState if state.value in self.states)
        self.has_digest = self.mark.digest is not None
        self.is_counted = endpoint is None or endpoint.is_counted
        self.objects: list[AppObject] = []
        #: Where the search for the least busy object begins next.
        self.cursor = 0

    def add(self, cls: type[AppObject], spec: OperationSpec) -> None:
        """Take in the declaration of one more class. Raises `DeclarationError` where a route can have but one.

        In which states a route is served, and who digests its calls, is settled before there is a target.
        """
        if self.specs:
            first = next(iter(self.specs))
            for what in ("states", "digest"):
                here, there = getattr(spec.mark, what), getattr(self.mark, what)
                if here != there:
                    raise DeclarationError(
                        f"{self.name}: {first.__qualname__} declares {what}={there!r}, {cls.__qualname__} {what}={here!r}: "
                        "declare the same, or give one of them another name"
                    )
        self.specs[cls] = spec
        self.priority = min(self.priority, spec.priority)

    @property
    def is_registered(self) -> bool:
        """Whether it is served in the present state of its component."""
        now = self.component._module_state
        # Not `in`, nor by name: an enum's hash and value are Python functions.
        return any(state is now for state in self._states)

    @property
    def is_idempotent(self) -> bool:
        """Whether a call may be tried again, whichever class serves it."""
        return bool(self.specs) and all(spec.mark.idempotent for spec in self.specs.values())

    @property
    def is_reentrant(self) -> bool:
        """Whether a call that comes back through its own chain is served, whichever class serves it."""
        return bool(self.specs) and all(spec.mark.reentrant for spec in self.specs.values())

    @property
    def calls(self) -> tuple[str, ...]:
        """The routes that any class declares that it calls, each once."""
        return tuple(dict.fromkeys(route for spec in self.specs.values() for route in spec.mark.calls))

    @property
    def is_exported(self) -> bool:
        """Whether other nodes may call it: all who implement it say so."""
        if self.endpoint is not None:
            return self.endpoint.export
        return all(spec.mark.export for spec in self.specs.values())

    def check_signatures(self) -> None:
        """A call without a key goes to the least busy of all. Raises `DeclarationError` where some would take it, some not."""
        if not self.has_digest and all(object._key is not None for object in self.objects):
            return  # a digester binds the arguments before it has a key
        first = next(iter(self.specs))
        for cls, spec in self.specs.items():
            if not spec.takes_as(self.specs[first]):
                raise DeclarationError(
                    f"{self.name} has two signatures: {first.__qualname__} takes {self.specs[first].signature}, "
                    f"{cls.__qualname__} {spec.signature}: give one of them another name, or all its objects a key"
                )

    def close(self) -> None:
        """From now on it is served in no state."""
        self._states = ()


class Hearer:
    """An object and the method by which it hears a topic. By identity: objects may be equal, or unhashable (a dataclass)."""

    __slots__ = ("component", "is_exported", "name", "object", "priority", "route", "spec")

    def __init__(
        self, component: Component, object: AppObject, spec: OperationSpec | None, route: Route | None = None
    ) -> None:
        self.component, self.object, self.spec = component, object, spec
        #: That of an endpoint, which hears without a method.
        self.route = route
        self.priority: int = 0
        #: Whether it hears what other nodes publish, too.
        self.is_exported = spec.mark.export if spec is not None else route is not None and route.is_exported
        if route is not None:
            self.name, self.priority = route.name, route.priority
        elif spec is not None:
            #: What statistics call it.
            self.name, self.priority = f"{component.component_name}.{spec.attribute}", spec.priority

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Hearer)
            and self.object is other.object
            and self.spec is other.spec
            and self.route is other.route
        )

    def __hash__(self) -> int:
        return hash((id(self.object), id(self.spec), id(self.route)))


class Registry:
    """What this backplane serves."""

    def __init__(self, backplane: str, priorities: int) -> None:
        self._backplane = backplane
        self._priorities = priorities
        self.components: dict[str, Component] = {}
        self.routes: dict[str, Route] = {}
        self._by_key: dict[tuple[str, str], AppObject] = {}
        self._topics: TopicTable[Hearer] = TopicTable()
        self._numbers: dict[str, int] = {}
        self.is_static = False

    def add_component(self, component: Component) -> None:
        """Take in a component with the objects it has; its own marked methods are operations of it as an object."""
        name = component.component_name
        if name in self.components:
            raise DeclarationError(f"two components are named {name!r}: set component_name on one of them")
        _check_module(component)
        self.components[name] = component
        component._name = f"{self._backplane}/{name}"
        for cls in _declares_of(component):
            self._declare(component, cls)
        self._enter(component, component)
        for object in component._objects:
            self._add(component, object)
        for route in self.routes.values():
            if route.component is component:
                route.check_signatures()
        for endpoint in component._endpoints:
            self.add_endpoint(component, endpoint)

    def add_endpoint(self, component: Component, endpoint: Endpoint) -> None:
        """Take in an endpoint under the component's name."""
        route = f"{component.component_name}.{endpoint.name}"
        if route in self.routes:
            raise DeclarationError(f"two endpoints serve {route!r}")
        self._check_priority(route, endpoint.priority)
        self.routes[route] = Route(route, component, None, endpoint)
        if endpoint.topic is not None:
            self._topics.add(endpoint.topic, Hearer(component, component, None, self.routes[route]))

    def add_object(self, component: Component, object: AppObject) -> None:
        """Take in an object while running. Raises `DeclarationError` if its class brings a new route or topic."""
        self._add(component, object)
        component._objects.append(object)

    def remove_object(self, object: AppObject) -> None:
        """Forget an object. Whether it may go is for the scheduler to say."""
        component = object._component
        assert component is not None
        _take_out(component._objects, object)
        if object._key is not None:
            del self._by_key[component.component_name, object._key]
        for spec in type(object).__operations__.values():
            if spec.mark.kind == "operation":
                _take_out(self.routes[f"{component.component_name}.{spec.name}"].objects, object)
            elif spec.mark.topic is not None:
                self._topics.remove(spec.mark.topic, Hearer(component, object, spec))
        object._component = None

    def by_key(self, component: str, key: str) -> AppObject | None:
        """The object that was added under `key`."""
        return self._by_key.get((component, key))

    def hearers(self, topic: str) -> list[Hearer]:
        """Those of this backplane that hear `topic`, in the order they were added. Not to be changed."""
        return self._topics.matching(topic)

    def objects(self) -> Iterator[AppObject]:
        """All objects, components first."""
        for component in self.components.values():
            yield component
            yield from component._objects

    def timers(self, component: Component) -> list[tuple[AppObject, OperationSpec]]:
        """The `@every` methods of a component and its objects."""
        return [
            (object, spec)
            for object in (component, *component._objects)
            for spec in type(object).__operations__.values()
            if spec.mark.kind == "timer"
        ]

    def entries(self) -> tuple[ComponentEntry, ...]:
        """The registration, as the directory wants it."""
        return tuple(self._entry(component) for component in self.components.values())

    def _entry(self, component: Component) -> ComponentEntry:
        routes = [route for route in self.routes.values() if route.component is component]
        heard = [
            (s.mark.topic, s.mark.export)
            for o in (component, *component._objects)
            for s in type(o).__operations__.values()
            if s.mark.topic
        ] + [(endpoint.topic, endpoint.export) for endpoint in component._endpoints if endpoint.topic]
        return ComponentEntry(
            name=component.component_name,
            depends_on=tuple(_depends_on_of(component)),
            operations=tuple(
                OperationEntry(
                    route=route.name,
                    priority=route.priority,
                    signature=route.spec.signature
                    if route.spec
                    else route.endpoint.signature
                    if route.endpoint
                    else "",
                    states=route.states,
                    summary=_summary(route),
                    reentrant=route.is_reentrant,
                    calls=route.calls,
                    idempotent=route.is_idempotent,
                    export=route.is_exported,
                )
                for route in routes
            ),
            topics=tuple(sorted({topic for topic, _ in heard})),
            objects_count=len(component._objects),
            driven_by=component.driven_by,
            exported_topics=tuple(
                sorted({*_exported_topics_of(component), *(topic for topic, is_exported in heard if is_exported)})
            ),
        )

    def _add(self, component: Component, object: AppObject) -> None:
        name, key = component.component_name, object._key
        if key is not None and (name, key) in self._by_key:
            raise DeclarationError(f"{name} already has an object with key {key!r}")
        if self.is_static:  # whatever is wrong is found before anything is noted
            for spec in type(object).__operations__.values():
                if spec.mark.kind == "operation" and f"{name}.{spec.name}" not in self.routes:
                    raise DeclarationError(
                        f"{type(object).__qualname__} brings a new route {name}.{spec.name} after start: "
                        f"list the class in {type(component).__qualname__}.declares"
                    )
        self._declare(component, type(object))
        number = self._numbers[name] = self._numbers.get(name, -1) + 1
        object._name = f"{component._name}.{key if key is not None else number}"
        if key is not None:
            self._by_key[name, key] = object
        self._enter(component, object)

    def _enter(self, component: Component, object: AppObject) -> None:
        lends = _lends_of(object)
        if lends is not None:
            self._check_priority(f"{type(object).__qualname__}.lends", lends)
        self._declare(component, type(object))
        for spec in type(object).__operations__.values():
            if spec.mark.kind == "operation":
                self.routes[f"{component.component_name}.{spec.name}"].objects.append(object)
            elif spec.mark.topic is not None:
                self._topics.add(spec.mark.topic, Hearer(component, object, spec))

    def _declare(self, component: Component, cls: type[AppObject]) -> None:
        for spec in cls.__operations__.values():
            route = f"{component.component_name}.{spec.name}"
            self._check_priority(f"{cls.__qualname__}.{spec.attribute}", spec.mark.priority)
            if spec.mark.accepted_in is not None and not issubclass(cls, StateMachine):
                raise DeclarationError(f"{cls.__qualname__}.{spec.attribute}: accepted_in is for a StateMachine")
            if spec.mark.kind == "operation":
                if route not in self.routes:
                    self.routes[route] = Route(route, component, spec, None)
                self.routes[route].add(cls, spec)
            if spec.mark.digest is not None and not callable(getattr(component, spec.mark.digest, None)):
                raise DeclarationError(
                    f"{cls.__qualname__}.{spec.attribute}: "
                    f"digest={spec.mark.digest!r} is no method of {type(component).__qualname__}"
                )

    def _check_priority(self, what: str, priority: Any) -> None:
        if not isinstance(priority, int) or not 0 <= priority < self._priorities:
            raise DeclarationError(f"{what}: priority {priority!r}, but the backplane has 0..{self._priorities - 1}")


def _check_module(component: Any) -> None:  # what a user has written there is of any type until it is looked at
    """How it wants to be moved through the states."""
    kind, needs = type(component).__qualname__, _depends_on_of(component)
    if not isinstance(needs, (tuple, list)) or not all(isinstance(name, str) for name in needs):
        raise DeclarationError(f'{kind}.depends_on: expected names of components, as ("index",), got {needs!r}')
    classes = _declares_of(component)
    if not isinstance(classes, (tuple, list)) or not all(
        isinstance(each, type) and issubclass(each, AppObject) for each in classes
    ):
        raise DeclarationError(f"{kind}.declares: expected classes of objects, as (Shard,), got {classes!r}")
    topics = _exported_topics_of(component)
    if not isinstance(topics, (tuple, list)):
        raise DeclarationError(f'{kind}.exported_topics: expected topics, as ("prices.*",), got {topics!r}')
    for topic in topics:
        try:
            check_pattern(topic)
        except InvalidArgument as error:
            raise DeclarationError(f"{kind}.exported_topics: {error.message}") from error
    if component.driven_by not in DRIVERS:
        raise DeclarationError(f'{kind}.driven_by: expected "system" or "backplane", got {component.driven_by!r}')


def _take_out(objects: list[AppObject], object: AppObject) -> None:
    """This very one; `list.remove` would take the first that is equal."""
    del objects[next(index for index, each in enumerate(objects) if each is object)]


def _summary(route: Route) -> str:
    if route.spec is None:
        return route.endpoint.summary if route.endpoint else ""
    return (inspect.getdoc(route.spec.function) or "").partition("\n")[0]
