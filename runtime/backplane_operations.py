"""Backplane operations: inspect and control a backplane. An ordinary component on reserved routes `backplane.NAME.…`.

It is always in service. It refuses only beyond 10,000 outstanding requests, since the question why a backplane is busy must
not be answered with `Busy`. Every backplane has it; the supervisor does not move it and the directory does not list it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgpack
import msgspec

from appbackplane.transport import addressing
from appbackplane.transport.errors import InvalidArgument, NotFound
from appbackplane.transport.topics import check_pattern, check_topic

from .execution.actions.method_action import MethodAction
from .execution.intake.sources import AccessPort
from .execution.loop.engine import Engine
from .execution.records.applying import Applying
from .execution.services.monitors import Monitors
from .execution.services.watching import WatchEndpoint
from .execution.workers.current import current
from .objects.app_object import AppObject
from .objects.component import Component
from .objects.module_state import ModuleState
from .objects.operation import MANAGE, operation
from .objects.spawn_endpoint import construct
from .process_config import LiveSettings
from .scheduling.quotas import UNLIMITED

#: More urgent than all default priorities of users: an operator waits, and these operations take microseconds.
_PRIORITY = 0
#: Less urgent than most users' work, where that many priorities exist: batches are not urgent, and a slice of 64 rows holds
#: the lead for half a millisecond.
_APPLY_PRIORITY = 5
#: Packed size of one row of a batch. A batch with a larger row is refused before the ledger is written.
_ROW_BYTES_MAX = 1 << 20
_GROUP_MAX = 255
#: Characters of a topic, and of a group: an entry of the ledger has room for both; readers stop at a larger entry.
_TOPIC_MAX = 255


class BackplanePort(Protocol):
    """The part of `Backplane` (backplane.py) that these operations use."""

    on_cpu_limit: Callable[[int | None], None] | None

    @property
    def threads_count(self) -> int: ...
    def configure(self, settings: LiveSettings) -> None: ...
    def statistics(self) -> dict[str, Any]: ...


class BackplaneOperations(Component):
    """The operations of the backplane itself (seed 002: "backplane is itself an application")."""

    __access__ = {name: (MANAGE, name) for name in ("things", "objects", "add_object", "remove_object")}

    def __init__(self, backplane: BackplanePort, engine: Engine, applying: Applying, monitors: Monitors) -> None:
        self._lead, self._registry, self._scheduler = engine.lead, engine.registry, engine.scheduler
        self._limits, self._callers, self._publishing = engine.limits, engine.callers, engine.publishing
        self._access, self._permissions = engine.access, engine.permissions
        self._backplane = backplane
        self.component_name = f"{addressing.BACKPLANE}.{engine.backplane}"
        self._module_state = ModuleState.PRIMARY
        self.add(batches(applying, self._scheduler.priorities, engine.access))
        self._monitors = monitors
        self.expose(WatchEndpoint(self, lambda: monitors))

    def _enters(self, state: ModuleState) -> None:
        if state is ModuleState.DOWN:  # the process ends
            self._monitors.stop()

    @operation(priority=_PRIORITY)
    def statistics(self) -> dict[str, Any]:
        """All figures of this backplane: operations, queues, throttles, CPU, links."""
        return self._backplane.statistics()

    @operation(priority=_PRIORITY)
    def threads(self, count: int | None = None) -> int:
        """The number of workers; with `count` (1 or more), a new number."""
        if count is not None:
            self._backplane.configure(LiveSettings(threads=count))
        return self._backplane.threads_count

    @operation(priority=_PRIORITY)
    def limits(
        self,
        component: str | None = None,
        max_requests: int | None = None,
        cpu_limit: int | None = None,
        max_posted: int | None = None,
    ) -> dict[str, Any]:
        """The limits; with arguments, new ones.

        `max_requests` and `max_posted` (work that the component gives itself) belong to `component`. `cpu_limit`: percent of
        one core; 0 removes it.
        """
        throttles = {name: one for name, one in self._limits.requests.items() if name != self.component_name}
        own_work = {name: self._limits.own_work[name] for name in throttles}
        with self._lead:
            try:
                for accounts, limit in ((throttles, max_requests), (own_work, max_posted)):
                    if limit is None:
                        continue
                    if component is None or component not in accounts:
                        raise NotFound(f"no component {component!r} here: name one of {', '.join(throttles)}")
                    accounts[component].change(limit)
                if cpu_limit is not None:
                    self._backplane.configure(LiveSettings(cpu_limit=cpu_limit or None))
                    if self._backplane.on_cpu_limit is not None:
                        self._backplane.on_cpu_limit(cpu_limit or None)
            except ValueError as error:
                raise InvalidArgument(str(error)) from error
            return {
                "cpu_limit": self._scheduler.budget.limit_percent,
                "max_requests": {name: throttle.limit for name, throttle in throttles.items()},
                "max_posted": {name: account.limit for name, account in own_work.items()},
            }

    @operation(priority=_PRIORITY)
    def quotas(self, quotas: list[int] | None = None) -> list[int]:
        """How many actions each priority may run a tick, 0 for unlimited; with `quotas`, new ones (the last repeats)."""
        with self._lead:
            if quotas is not None:
                self._backplane.configure(LiveSettings(quotas=tuple(quotas)))
            return [0 if quota == UNLIMITED else quota for quota in self._scheduler.quotas.full]

    @operation(priority=_PRIORITY)
    def log_level(
        self, level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] | None = None, logger: str | None = None
    ) -> str:
        """The log level; with `level`, a new one. `logger`: only this logger."""
        found = logging.getLogger(logger)
        if level is not None:
            found.setLevel(level)
        return logging.getLevelName(found.getEffectiveLevel())

    @operation(priority=_PRIORITY, name="objects")
    def list_objects(self, component: str) -> list[dict[str, Any]]:
        """The objects of a component: name, key, class, and actions outstanding."""
        with self._lead:
            return [
                {"name": o.name, "key": o.key, "class": type(o).__qualname__, "outstanding": o._load}
                for o in self._component_named(component).objects
            ]

    @operation(priority=_PRIORITY)
    def add_object(
        self, component: str, kind: str, object_key: str | None = None, settings: dict[str, Any] | None = None
    ) -> str:
        """Add an object of the class `kind`, which the component has or declares; `settings` are its arguments."""
        owner = self._component_named(component)
        classes: dict[str, type[AppObject]] = {
            c.__name__: c for c in (*(type(o) for o in owner.objects), *owner.declares)
        }
        if kind not in classes:
            raise NotFound(f"{component} has no class {kind!r}: one of {', '.join(sorted(classes)) or 'none'}")
        object = construct(classes[kind], settings or {})
        try:
            owner.add(object, key=object_key)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(str(error)) from error
        return object.name

    @operation(priority=_PRIORITY)
    def remove_object(self, component: str, object_key: str) -> None:
        """Remove the object with the key `object_key`. Refused while it has work or awaits a reply (law 6)."""
        owner = self._component_named(component)
        object = self._registry.by_key(component, object_key)
        if object is None:
            raise NotFound(f"{component} has no object with key {object_key!r}")
        owner.remove(object)

    @operation(priority=_PRIORITY)
    def things(self) -> dict[str, Any]:
        """The things of this backplane with their Thing Models, and the place of their permissions."""
        permissions = None if self._permissions is None else msgspec.to_builtins(self._permissions)
        if "appbackplane.runtime.things.thing" not in sys.modules:  # so there is none, and nothing is imported for that
            return {"process": "", "things": [], "models": {}, "setters": {}, "permissions": permissions}
        from .things.listing import listing_of

        with self._lead:
            return listing_of(list(self._registry.components.values())) | {"permissions": permissions}

    @operation(priority=_PRIORITY)
    def subscribe(self, topic: str) -> None:
        """Subscribe the calling client to `topic` (`a.b` exactly, `a.*` for all below)."""
        check_pattern(topic)
        action = current.action
        if self._access is not None and action is not None:
            self._access.check_topic(topic, action.source, action.principal)
        with self._lead:
            self._publishing.subscribe(self._peer(), topic)

    @operation(priority=_PRIORITY)
    def unsubscribe(self, topic: str) -> None:
        """End the calling client's subscription to `topic`."""
        with self._lead:
            self._publishing.unsubscribe(self._peer(), topic)

    @operation(priority=_PRIORITY)
    def farewell(self) -> None:
        """Announce that the caller will send no new requests to this draining backplane."""
        with self._lead:
            self._callers.farewells.add(self._peer())

    def _peer(self) -> bytes:
        action = current.action
        if not isinstance(action, MethodAction) or not action.sender:
            raise InvalidArgument("this is for clients and other backplanes; objects subscribe with @subscribe")
        return action.sender

    def _component_named(self, name: str) -> Component:
        components = self._registry.components
        if name not in components:
            raise NotFound(
                f"no component {name!r} here: name one of {', '.join(sorted(set(components) - {self.component_name}))}"
            )
        return components[name]


def batches(applying: Applying, priorities: int, access: AccessPort | None = None) -> AppObject:
    """An object that takes batches of rows from outside, so that operators' requests do not queue behind batches.

    Its class is made here, since the priority of its operation depends on how many this backplane has. A class is kept for
    ever, so it does not hold `applying`: its object does.
    """

    class Apply(AppObject):
        def __init__(self, applying: Applying) -> None:
            self.applying = applying

        @operation(priority=min(_APPLY_PRIORITY, priorities - 1), idempotent=True)
        def apply(self, topic: str, group: str, batch: int, first: int, rows: list[dict[str, Any]]) -> dict[str, int]:
            """Publish rows `first` and following of a group's batch, except rows published before. Idempotent.

            Batches of a group are numbered upwards. Send the next once the returned `done` reaches the batch's length
            (execution/records/applying.py).
            """
            check_topic(topic)
            action = current.action
            if access is not None and action is not None:
                access.check_topic(topic, action.source, action.principal)
            if len(topic) > _TOPIC_MAX:
                raise InvalidArgument(f"a topic of {len(topic):,} characters: at most {_TOPIC_MAX}")
            if not 0 < len(group) <= _GROUP_MAX or batch < 0 or first < 0:
                raise InvalidArgument(
                    f"expected a group of 1 to {_GROUP_MAX} characters, a batch and a first row of 0 or more"
                )
            for number, row in enumerate(rows, first):
                size = len(msgpack.packb(row))
                if size > _ROW_BYTES_MAX:
                    raise InvalidArgument(
                        f"row {number} of batch {batch} has {size:,} bytes: at most {_ROW_BYTES_MAX:,}"
                    )
            return self.applying.apply(topic, group, batch, first, rows)

    return Apply(applying)
