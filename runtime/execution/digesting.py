"""Digesting: computes the object key of a request in a separate action, where that may be slow (law 7).

Each component has one digester, which computes keys one after the other, so that the receiving thread is not held up. It runs
one priority above the request. A call counts as accepted from its arrival: it can be cancelled, its deadline holds, and the
throttle counts it. Once the key is known, the request is admitted as if it had come with the key.
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
    """Computes the object key of one call or cast; `sender` is the peer that sent it."""

    __slots__ = ("asked",)
    #: The envelope of the request. Its caller gets no reply from this action, only from the request itself.
    asked: Envelope


class Digesting:
    """The digesters of all components. Part of the engine: used under the lead."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: By component, created at the first use: an object without state, only a queue for its digests.
        self._digesters: dict[str, AppObject] = {}

    def digesters(self) -> list[AppObject]:
        """The digesters created so far."""
        return list(self._digesters.values())

    def digester_of(self, component: Component) -> AppObject | None:
        """The digester of a component; None: it has had no request yet."""
        return self._digesters.get(component.component_name)

    def begin(self, route: Route, peer: bytes, envelope: Envelope, priority: int, now_ns: int) -> None:
        """Queue a request at its digester, which admits it once the key is known. Raises `InvalidArgument`, `Busy`."""
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
            error = action.thrown or ended.error  # cancelled while it ran; else a refusal, or the error that it raised
            is_refused = ended.account is None  # a worker has never chosen it
            is_told = is_refused or isinstance(error, (Cancelled, DeadlineExceeded, Unavailable))
            if is_told and isinstance(error, BackplaneError):
                if isinstance(error, DeadlineExceeded):
                    self._engine.statistics.of(route.name).expired_count += 1
                intake.turn_away(peer, envelope, error, then_ns)
            elif error is not None or not isinstance(ended.result, str):
                got = type(ended.result).__name__
                problem = f"expected a key (a string), got {got}" if error is None else text_of(error)
                told = InternalError(f"{name}: {problem}")
                if error is None or isinstance(error, BackplaneError):  # other errors were reported when it ended
                    told.__cause__ = error
                    self._engine.reports.failed(action, told, then_ns)
                intake.turn_away(peer, envelope, told, then_ns)
            else:
                left = None if deadline_ns is None else -deadline_ns
                envelope.key, envelope.deadline = ended.result, left
                intake.accept(peer, envelope, then_ns)

        action.on_end = dispatch
        intake.admission.count_in(action, component, envelope.counts_for(peer))
        if envelope.kind == CALL:
            intake.accepted[peer, envelope.id] = action
        self._engine.scheduler.post(action, now_ns)
