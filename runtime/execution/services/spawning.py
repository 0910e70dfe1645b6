"""Spawning: adds light objects at run time, ends them, and tells their monitors.

Once an object is ended, its address leads nowhere, and queued calls are refused with the reason. An operation that runs or
awaits a reply goes on to its end; then the monitors are told.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from appbackplane.transport.address import Address
from appbackplane.transport.errors import NotFound

from ...objects.action import Action
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.spawned import number_of
from ...objects.state_machine import StateMachine
from ..loop.engine import Engine
from .monitors import Monitors, ObjectMonitor


class Spawning:
    """Spawns and ends light objects, and sets monitors. Used under the lead."""

    def __init__(self, engine: Engine, monitors: Monitors) -> None:
        self._engine = engine
        self._spawned, self._routing, self._monitors = engine.registry.spawned, engine.routing, monitors

    def spawn(self, component: Component, object: AppObject) -> Address:  # hot: scripts/bench spawn
        """Add a light object. Raises as `AppObject.spawn`."""
        number = self._spawned.add(component, object)
        return self._spawned.address(self._routing.directory.home, component, number)

    def at(self, component: Component, address: str) -> AppObject:
        """The object of a component at an address. Raises `NotFound`."""
        return self._spawned.at(self._routing.directory.home, component, address)

    def address_of(self, object: AppObject) -> Address:
        """The address of a spawned object. Raises RuntimeError for another."""
        component, number = object._component, number_of(object)
        if component is None or number is None:
            raise RuntimeError(f"{object.name} was not spawned, so it has no address: call it by its route and key")
        return self._spawned.address(self._routing.directory.home, component, number)

    def end(self, object: AppObject, reason: str, now_ns: int) -> None:  # hot: scripts/bench spawn
        """End a spawned object; one that has ended is left alone. Raises RuntimeError for another."""
        component, number = object._component, number_of(object)
        if number is None:
            raise RuntimeError(f"{object.name} was added, not spawned: its component removes it")
        if component is None or number not in component._spawned:
            return
        self._spawned.remove(object)
        if object._load:
            self._refuse_queued(
                object, f"{component.component_name}:{number} has ended: {reason or 'no reason given'}", now_ns
            )
            for action in self._begun(object):
                # The action is one of the arguments, so its identity is not used again (`Completion.at_end`).
                self._engine.completion.at_end(action, partial(self._left, object, number, reason, action))
        if not object._load:
            self._gone(object, number, reason)

    def monitor(self, object: AppObject, target: Any, method: Any, priority: int) -> ObjectMonitor:
        """Set a monitor. Raises `InvalidArgument`, `Busy`."""
        engine, component = self._engine, object._component
        assert component is not None
        name = f"{component.component_name}.{method.__name__}"
        account = engine.limits.own_work[component.component_name]
        account.admit(name, component._name)
        monitor = ObjectMonitor(
            target, object, self._monitors, engine, name=name, priority=priority, method=method, account=account
        )
        try:
            self._monitors.add(monitor, priority)
        except BaseException:
            account.ended(engine.now_ns())
            raise
        return monitor

    # -- steps --------------------------------------------------------------------------------------------------------

    def _refuse_queued(self, object: AppObject, because: str, now_ns: int) -> None:
        """Refuse the actions that have not begun: queued ones, and those that a state machine has deferred."""
        waiting: list[Action] = []
        here = object._head
        while here is not None:
            if not (here.has_begun or here.continues):
                waiting.append(here)
            here = here.next
        if isinstance(object, StateMachine):
            waiting += object._deferred
        for action in waiting:
            self._engine.withdrawal.take_out(action, NotFound(f"{action.name}: {because}"), now_ns)

    def _begun(self, object: AppObject) -> list[Action]:
        """Its actions that run, wait, or are queued to go on."""
        engine = self._engine
        begun = [
            each.action for each in engine.poll_leader.team if each.action is not None and each.action.object is object
        ]
        begun += engine.inheritance.awaiting(object)
        here = object._head
        while here is not None:
            begun.append(here)
            here = here.next
        return list({id(action): action for action in begun}.values())

    def _left(self, object: AppObject, number: int, reason: str, _action: Action, _ended: Action) -> None:
        """An action that had begun has ended: the last one takes the object along."""
        if not object._load and object._component is not None:
            self._gone(object, number, reason)

    def _gone(self, object: AppObject, number: int, reason: str) -> None:
        object._component = None
        self._monitors.object_ended(number, reason)
        self._monitors.owner_ended(object)
