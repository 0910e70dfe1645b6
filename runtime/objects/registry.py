"""Registry: the routes, topics and timers of one backplane, known once its components are constructed (law 12).

A route leads to the objects that implement it; a component's state decides whether it is registered now. Objects may be
added and removed while running, routes may not: no caller would know a route that a new class brings. Plain tables; the
supervisor receives them as `ComponentEntry`s for the routing table.
"""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

from appbackplane.transport.address import is_address_key
from appbackplane.transport.addressing import AT
from appbackplane.transport.directory import ComponentEntry, OperationEntry
from appbackplane.transport.errors import InvalidArgument, NotFound
from appbackplane.transport.topics import TopicTable, check_pattern

from .actor_table import Actor, ActorTable
from .actors import Actors
from .app_object import AppObject, queues_of, without_twins
from .component import Component
from .endpoint import Endpoint
from .interleaved import check_interleaving
from .module_state import ModuleState
from .operation import PRIORITY_DEFAULT, SERVING_STATES, DeclarationError, Mark
from .operation_spec import OperationSpec
from .spawn_endpoint import SpawnEndpoint
from .spawned import SpawnedObjects, check_spawnable
from .state_machine import StateMachine
from .twins import another, check_concurrency

#: Read users' declarations as Any: compiled code trusts the declared type of an attribute, and refuses a list for a tuple.
_lends_of: attrgetter[Any] = attrgetter("lends")
_depends_on_of: attrgetter[Any] = attrgetter("depends_on")
_declares_of: attrgetter[Any] = attrgetter("declares")
_exported_topics_of: attrgetter[Any] = attrgetter("exported_topics")
#: The values of `Component.driven_by`.
DRIVERS = ("system", "backplane")


class Route:
    """One route: the objects that implement it, and the component whose state decides whether it is served."""

    def __init__(self, name: str, component: Component, spec: OperationSpec | None, endpoint: Endpoint | None) -> None:
        self.name = name
        self.component = component
        #: The first declaration of the operation, for descriptions. Each object binds with the spec of its own class.
        self.spec = spec
        self.specs: dict[type[AppObject], OperationSpec] = {}
        self.endpoint = endpoint
        self.mark = spec.mark if spec is not None else Mark(kind="endpoint")
        #: The highest that any class declares, for the digester and descriptions. A call runs at that of its target's class.
        self.priority: int = endpoint.priority if endpoint is not None else self.mark.priority
        #: The component states in which it is served: by name, and below as members of the enum.
        self.states: tuple[str, ...] = endpoint.states if endpoint is not None else self.mark.states
        self._states = tuple(state for state in ModuleState if state.value in self.states)
        self.signature = spec.signature if spec is not None else endpoint.signature if endpoint is not None else ""
        self.summary = endpoint.summary if endpoint is not None else ""
        if spec is not None:
            self.summary = (inspect.getdoc(spec.function) or "").partition("\n")[0]
        self.has_digest = self.mark.digest is not None
        self.is_counted = endpoint is None or endpoint.is_counted
        self.objects: list[AppObject] = []
        #: The access that its callers need, as (kind, affordance); empty: anybody may call it.
        self.access: tuple[tuple[str, str], ...] = ()
        #: Where its requests are sorted into queues of their own; None: they are not.
        self.actors: ActorTable | None = None
        #: Where the search for the least busy object begins next.
        self.cursor = 0

    def add(self, cls: type[AppObject], spec: OperationSpec) -> None:
        """Add the declaration of one more class. Raises `DeclarationError` if `states`, `digest`, `admit` or `actors` differ.

        They are needed before the target of a call is chosen, so a route can have only one value of each.
        """
        if self.specs:
            first = next(iter(self.specs))
            for what in ("states", "digest", "admit", "actors"):
                here, there = getattr(spec.mark, what), getattr(self.mark, what)
                if here != there:
                    raise DeclarationError(
                        f"{self.name}: {first.__qualname__} declares {what}={there!r}, {cls.__qualname__} {what}={here!r}: "
                        "declare the same, or give one of them another name"
                    )
        self.specs[cls] = spec
        access = cls.__access__.get(spec.name)
        if access is not None and access not in self.access:
            self.access = (*self.access, access)
        self.priority = min(self.priority, spec.priority)

    @property
    def is_registered(self) -> bool:
        """Whether it is served in the current state of its component."""
        now = self.component._module_state
        # Not `in`, nor by name: an enum's hash and value are Python functions.
        return any(state is now for state in self._states)

    @property
    def is_idempotent(self) -> bool:
        """Whether every class declares `idempotent`; only then may callers rely on it."""
        return bool(self.specs) and all(spec.mark.idempotent for spec in self.specs.values())

    @property
    def is_reentrant(self) -> bool:
        """Whether a call may come back to each class along its own chain of calls."""
        return bool(self.specs) and all(spec.mark.reentrant or cls.interleaves for cls, spec in self.specs.items())

    @property
    def is_exported(self) -> bool:
        """Whether other nodes may call it: every class, or the endpoint, declares `export`."""
        if self.endpoint is not None:
            return self.endpoint.export
        return all(spec.mark.export for spec in self.specs.values())

    def check_signatures(self) -> None:
        """Raise `DeclarationError` if classes take different arguments: a call without a key goes to the least busy object."""
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
        """Stop serving it, whatever the state of its component."""
        self._states = ()


class Hearer:
    """A subscriber: an object, and its method (or endpoint) that receives a topic.

    Compared by identity: users' objects may be equal, or unhashable (a dataclass).
    """

    __slots__ = ("component", "is_exported", "name", "names_states", "object", "priority", "route", "spec", "states")

    def __init__(
        self, component: Component, object: AppObject, spec: OperationSpec | None, route: Route | None = None
    ) -> None:
        self.component, self.object, self.spec = component, object, spec
        #: The route of an endpoint, which receives the topic without a method; else None.
        self.route = route
        self.priority: int = 0
        #: Whether it also receives the messages of other nodes.
        self.is_exported = spec.mark.export if spec is not None else route is not None and route.is_exported
        #: The states of the component in which it receives messages, and whether the subscription names them.
        names = SERVING_STATES if spec is None else spec.mark.states
        self.states = tuple(state for state in ModuleState if state.value in names)
        self.names_states = names != SERVING_STATES
        if route is not None:
            self.name, self.priority = route.name, route.priority
        elif spec is not None:
            #: Its name in statistics.
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
    """The components, routes, keys and topics that this backplane serves."""

    def __init__(self, backplane: str, priorities: int, incarnation: str = "00000000") -> None:
        """`incarnation`: eight hexadecimal digits that no other process of this backplane has."""
        self._backplane = backplane
        self.spawned = SpawnedObjects(backplane, incarnation, priorities)
        self._priorities = priorities
        self.components: dict[str, Component] = {}
        self.routes: dict[str, Route] = {}
        self._by_key: dict[tuple[str, str], AppObject] = {}
        self._topics: TopicTable[Hearer] = TopicTable()
        self._numbers: dict[str, int] = {}
        self.is_static = False

    def add_component(self, component: Component) -> None:
        """Add a component, its objects and its endpoints. Raises `DeclarationError`."""
        name = component.component_name
        if name in self.components:
            raise DeclarationError(f"two components are named {name!r}: set component_name on one of them")
        _check_module(component)
        check_spawnable(component)
        self.components[name] = component
        component._name = f"{self._backplane}/{name}"
        if component.digest_priority is not None:
            self._check_priority(f"{type(component).__qualname__}.digest_priority", component.digest_priority)
        check_concurrency(component)
        check_interleaving(component, self._priorities)
        for cls in (*_declares_of(component), type(component)):
            self._declare(component, cls)
        self._enter(component, component)
        for actors in self._sorted(component):
            for key, actor in actors.by_key.items():
                actor._component, actor._key = component, key
                component._objects.append(actor)
        for object in component._objects:
            self._add(component, object)
        for route in self.routes.values():
            if route.component is component:
                route.check_signatures()
        for endpoint in component._endpoints:
            self.add_endpoint(component, endpoint)
        if component.spawnable:
            self.add_endpoint(component, SpawnEndpoint(component, min(PRIORITY_DEFAULT, self._priorities - 1)))

    def add_endpoint(self, component: Component, endpoint: Endpoint) -> None:
        """Add an endpoint as the route COMPONENT.NAME. Raises `DeclarationError` if the route exists."""
        route = f"{component.component_name}.{endpoint.name}"
        if route in self.routes:
            raise DeclarationError(f"two endpoints serve {route!r}")
        self._check_priority(route, endpoint.priority)
        self.routes[route] = Route(route, component, None, endpoint)
        if endpoint.topic is not None:
            self._topics.add(endpoint.topic, Hearer(component, component, None, self.routes[route]))

    def add_object(self, component: Component, object: AppObject) -> None:
        """Add an object while running. Raises `DeclarationError` if its class brings a new route."""
        self._add(component, object)
        component._objects.append(object)

    def remove_object(self, object: AppObject) -> None:
        """Forget an object. The caller has checked with `Scheduler.check_removable`."""
        component = object._component
        assert component is not None
        object, *twins = queues_of(object)
        for each in (object, *twins):
            _take_out(component._objects, each)
        if object._key is not None:
            del self._by_key[component.component_name, object._key]
        for route in self._routes_of(object):
            _take_out(route.objects, object)
        for spec in type(object).__operations__.values():
            if spec.mark.kind != "operation" and spec.mark.topic is not None:
                self._topics.remove(spec.mark.topic, Hearer(component, object, spec))
        for each in (object, *twins):
            each._component = None

    def withhold(self, object: AppObject) -> None:
        """Send calls without a key to the other objects of its routes, of which one is left. It keeps what it has."""
        for route in self._routes_of(object):
            assert len(route.objects) > 1, "no object would be left"
            _take_out(route.objects, object)

    def offer(self, object: AppObject) -> None:
        """Send calls without a key to an object again that was withheld."""
        for route in self._routes_of(object):
            route.objects.append(object)

    def _routes_of(self, object: AppObject) -> list[Route]:
        component = object._component
        assert component is not None
        operations = [spec for spec in type(object).__operations__.values() if spec.mark.kind == "operation"]
        return [self.routes[f"{component.component_name}.{spec.name}"] for spec in operations]

    def by_key(self, component: str, key: str) -> AppObject | None:
        """The object that was added under `key`, or whose address it is; None: there is none."""
        object = self._by_key.get((component, key))
        if object is None and key.startswith(AT):
            found = self.components.get(component)
            return None if found is None else self.spawned.find(found, key)
        return object

    def absent(self, component: Component, key: str) -> NotFound:
        """The error for a key that selects no object of a component: of an address, whether it has ended."""
        if is_address_key(key):
            return self.spawned.gone(component, key)
        return NotFound(f"{component.name} has no object with key {key!r}")

    def queue_of(self, object: AppObject) -> AppObject:
        """The queue for new work of an object. With `concurrency`, an idle one, if there is or may be one; else its own."""
        twins = object._twins
        if twins is None:
            return object
        assert object._component is not None
        for each in twins:
            if not each._load:
                return each
        if (new := another(object)) is not None:
            object._component._objects.append(new)
            return new
        return twins[0]

    def hearers(self, topic: str) -> list[Hearer]:
        """This backplane's subscribers of `topic`, in the order they were added. Do not change the list."""
        return self._topics.matching(topic)

    def entries(self) -> tuple[ComponentEntry, ...]:
        """The registration that the supervisor puts into the routing table."""
        return tuple(self._entry(component) for component in self.components.values())

    def _entry(self, component: Component) -> ComponentEntry:
        routes = [route for route in self.routes.values() if route.component is component]
        heard = [
            (s.mark.topic, s.mark.export)
            for o in (component, *without_twins(component._objects))
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
                    signature=route.signature,
                    states=route.states,
                    summary=route.summary,
                    reentrant=route.is_reentrant,
                    calls=tuple(dict.fromkeys(called for spec in route.specs.values() for called in spec.mark.calls)),
                    idempotent=route.is_idempotent,
                    export=route.is_exported,
                )
                for route in routes
            ),
            topics=tuple(sorted({topic for topic, _ in heard})),
            objects_count=sum(1 for _ in without_twins(component._objects)),
            driven_by=component.driven_by,
            exported_topics=tuple(
                sorted({*_exported_topics_of(component), *(topic for topic, is_exported in heard if is_exported)})
            ),
        )

    def _add(self, component: Component, object: AppObject) -> None:
        name, key = component.component_name, object._key
        if key is not None and is_address_key(key):
            raise DeclarationError(f"{name}: key {key!r} has the form of an address: choose another")
        if key is not None and (name, key) in self._by_key:
            raise DeclarationError(f"{name} already has an object with key {key!r}")
        if self.is_static:  # check everything before any table changes
            for spec in type(object).__operations__.values():
                if spec.mark.kind == "operation" and f"{name}.{spec.name}" not in self.routes:
                    raise DeclarationError(
                        f"{type(object).__qualname__} brings a new route {name}.{spec.name} after start: "
                        f"list the class in {type(component).__qualname__}.declares"
                    )
        check_concurrency(object)
        check_interleaving(object, self._priorities)
        self._declare(component, type(object))
        number = self._numbers[name] = self._numbers.get(name, -1) + 1
        object._name = f"{component._name}.{key if key is not None else number}"
        if key is not None:
            self._by_key[name, key] = object
        self._enter(component, object)

    def _sorted(self, component: Component) -> list[ActorTable]:
        """Make the actors that a component declares, and have its routes sort requests into them."""
        tables: dict[Actors, ActorTable] = {}
        for spec in type(component).__operations__.values():
            declared = spec.mark.actors
            if declared is None:
                continue
            table = tables.get(declared)
            if table is None:
                table = tables[declared] = ActorTable(declared, component)
                for first in table.firsts:
                    self._check_priority(f"{type(component).__qualname__}.{spec.attribute}: actors", first)
            route = self.routes[f"{component.component_name}.{spec.name}"]
            route.actors, route.objects = table, [*table.by_key.values()]
            route.specs[Actor] = spec
        return [*tables.values()]

    def _enter(self, component: Component, object: AppObject) -> None:
        lends = _lends_of(object)
        if lends is not None:
            self._check_priority(f"{type(object).__qualname__}.lends", lends)
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
            if spec.mark.actors is not None and cls is not type(component):
                raise DeclarationError(
                    f"{cls.__qualname__}.{spec.attribute}: actors are queues of a component: declare the operation there"
                )
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


def _check_module(component: Any) -> None:  # Any: users' declarations have unknown types until they are checked
    """Check the declarations `depends_on`, `declares`, `exported_topics` and `driven_by`."""
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
    """Remove the object by identity; `list.remove` would remove the first one that compares equal."""
    del objects[next(index for index, each in enumerate(objects) if each is object)]
