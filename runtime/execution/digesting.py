"""Digesting: where finding out which object a request is for may be slow, it is work of its own (law 7).

A digester a component works the keys out, one after the other, so that whoever receives is not held up; one priority above
what it is for. A call is among the accepted ones from its arrival on: it can be taken back, it has its deadline, and the
throttle counts it. When the key is known, it is admitted as if it had come with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appbackplane.transport.envelope import CALL, Envelope, due_ns
from appbackplane.transport.errors import (
    BackplaneError,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    Unavailable,
    text_of,
)

from ..objects.action import DEADLINE_DEFAULT_NS, Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.registry import Route
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine


class Digest(MethodAction):
    """Works out the object of one call or cast; `sender` is who made it."""

    __slots__ = ("asked",)
    #: What was asked for. Its caller is not this action's, which answers nobody.
    asked: Envelope


class Digesting:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: One a component, with nothing of its own: it is there to be queued at.
        self._digesters: dict[str, AppObject] = {}

    def digesters(self) -> list[AppObject]:
        """Those that have had something to do."""
        return list(self._digesters.values())

    def digester_of(self, component: Component) -> AppObject | None:
        """That of a component; None: it has had nothing to do."""
        return self._digesters.get(component.component_name)

    def begin(self, route: Route, peer: bytes, envelope: Envelope, priority: int, now_ns: int) -> None:
        """Leave it to the digester to find the key. Raises `InvalidArgument`, `Busy`."""
        intake, component, method_name = self._engine.intake, route.component, route.mark.digest
        assert method_name is not None and route.spec is not None
        arguments = route.spec.bind(envelope.body, route.name)
        method = getattr(type(component), method_name)
        digester = self._digesters.get(component.component_name)
        if digester is None:
            digester = self._digesters[component.component_name] = AppObject()
            digester._component, digester._name = component, f"{component.name}.digester"
        name = f"{component.component_name}.{method_name}"
        deadline = envelope.deadline if envelope.deadline is not None else DEADLINE_DEFAULT_NS
        deadline_ns = due_ns(deadline, now_ns) if envelope.kind == CALL else None
        action = Digest(
            digester, name, max(0, priority - 1), lambda _, *given: method(component, *given), arguments, deadline_ns
        )
        action.asked, action.sender = envelope, peer

        def dispatch(ended: Action) -> None:
            then_ns = self._engine.clock.now_ns()
            intake.accepted.pop((peer, envelope.id), None)
            error = action.thrown or ended.error  # taken back while it ran, or refused, or whatever it ended in
            is_refused = ended.account is None  # it was never chosen
            is_told = is_refused or isinstance(error, (Cancelled, DeadlineExceeded, Unavailable))
            if is_told and isinstance(error, BackplaneError):
                if isinstance(error, DeadlineExceeded):
                    self._engine.statistics.of(route.name).expired_count += 1
                intake.turn_away(peer, envelope, error, then_ns)
            elif error is not None or not isinstance(ended.result, str):
                got = type(ended.result).__name__
                problem = f"expected a key (a string), got {got}" if error is None else text_of(error)
                told = InternalError(f"{name}: {problem}")
                if error is None or isinstance(error, BackplaneError):  # all else has been reported at its end
                    told.__cause__ = error
                    self._engine.reports.failed(action, told, then_ns)
                intake.turn_away(peer, envelope, told, then_ns)
            else:
                left = None if deadline_ns is None else -deadline_ns
                envelope.key, envelope.deadline = ended.result, left
                intake.accept(peer, envelope, then_ns)

        action.on_end = dispatch
        intake.admission.count_in(action, component, peer)
        if envelope.kind == CALL:
            intake.accepted[peer, envelope.id] = action
        self._engine.scheduler.post(action, now_ns)
