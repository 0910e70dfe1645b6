"""Lifecycle: moves the components of this backplane through their states, each move an action (laws 8 and 12).

The supervisor orders the moves, in dependency order. This module checks them against the table (objects/module_state.py), runs
the hook as work of the component, and opens operations and timers by state. A component serves in its new state once the hook
of that state has finished, and keeps its old state if the hook fails. On the way down it stops serving first.
"""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport.errors import BackplaneError, FailedPrecondition, NotFound

from ...objects.action import Action
from ...objects.app_object import AppObject, without_twins
from ...objects.component import Component
from ...objects.module_state import ModuleState, check_move
from ...objects.registry import Registry
from ...scheduling.timers import Timer, Timers
from ..actions.method_action import MethodAction
from ..workers.clock import Clock

_SERVING = frozenset((ModuleState.PRIMARY, ModuleState.SECONDARY))


class Lifecycle:
    """The module states of all components. Used under the lead."""

    def __init__(
        self, backplane: str, *, clock: Clock, registry: Registry, timers: Timers, post: Callable[[Action, int], None]
    ) -> None:
        """`post`: queues an action (action, now_ns) and wakes a worker for it."""
        self._backplane = backplane
        self._clock = clock
        self._registry = registry
        self._set_timers = timers
        self._post = post
        # By identity: an object may compare equal to others, or be unhashable (a dataclass).
        self._timers: dict[int, list[Timer]] = {}
        self._latest: dict[str, MethodAction] = {}  # the hook of each component's latest move
        self.is_suspended = False

    def move(self, name: str, to: ModuleState, on_end: Callable[[BaseException | None], None], epoch: int = 0) -> None:
        """Begin a move; `on_end` is called with None or the hook's error. `epoch`: the cluster's, on its primary node.
        Raises `BackplaneError` at once for an unknown component, a forbidden move, or a failure to stop serving."""
        component = self._registry.components.get(name)
        if component is None:
            raise NotFound(f"no component {name!r} in backplane {self._backplane}")
        check_move(component.name, component.state, to)
        before = component.state
        if to in (ModuleState.INITIALIZING, ModuleState.PRIMARY):  # a component that steps down keeps its old epoch
            component._cluster_epoch = epoch
        if to not in _SERVING:
            component._module_state = to
            if to is ModuleState.DOWN:
                objects = (component, *component._objects, *component._spawned.values())
                for object in objects:
                    self.forget(object)
                self._set_timers.cancel_of(objects)
            try:
                component._enters(to)
            except BackplaneError:
                component._module_state = before  # so that it can be tried again
                raise
        now_ns = self._clock.now_ns()
        hook = getattr(type(component), f"on_{to.value}")
        action = MethodAction(component, f"{name}.on_{to.value}", 0, hook, ())

        def ended(action: Action) -> None:
            error = action.error
            if error is None and self._latest[name] is not action:
                error = FailedPrecondition(f"{component.name} was moved on before it was {to.value}")
            elif error is None and to in _SERVING and (error := self._serves(component, to)) is None:
                component._module_state, component._cluster_epoch = to, epoch
                for object in (component, *without_twins(component._objects)):
                    self.start_timers_of(object)
            elif error is not None and to is ModuleState.INITIALIZING and self._latest[name] is action:
                component._module_state = before  # so that it can be tried again
            on_end(error)

        action.on_end = ended
        self._latest[name] = action
        self._post(action, now_ns)

    def _serves(self, component: Component, state: ModuleState) -> BaseException | None:
        if self.is_suspended:
            return None
        try:
            component._enters(state)
        except Exception as error:  # the edge: a source is a user's code
            return error
        return None

    def start_timers_of(self, object: AppObject) -> None:
        """Start the timers of the object's `@every` methods, if its component serves."""
        component = object._component
        assert component is not None
        if component.state not in _SERVING or id(object) in self._timers or self.is_suspended:
            return
        now_ns = self._clock.now_ns()
        timers = self._timers[id(object)] = []
        for spec in type(object).__operations__.values():
            if spec.mark.kind == "timer":
                name = f"{component.component_name}.{spec.attribute}"
                timer = Timer(
                    object, name, spec.function, spec.bind({}, name), spec.mark.priority, spec.mark.interval_ns
                )
                self._set_timers.set(timer, now_ns + spec.mark.interval_ns)
                timers.append(timer)

    def forget(self, object: AppObject) -> None:
        """Cancel the `@every` timers of a removed object."""
        for timer in self._timers.pop(id(object), ()):
            timer.cancel()

    def suspend_timers(self) -> None:
        """The backplane is drained: cancel all `@every` timers. Timers that objects have set by `after` still fire."""
        self.is_suspended = True
        for component in self._registry.components.values():
            component._drains()
        for timers in self._timers.values():
            for timer in timers:
                timer.cancel()
