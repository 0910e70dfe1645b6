"""Digesting: computes the object key of a request in a separate action, where that may be slow (law 7).

Each component has one digester, which computes keys one after the other, so that the receiving thread is not held up. It works
at a priority of its own, or one above the request's. A call counts as accepted from its arrival: it can be cancelled, its
deadline holds, and the throttle counts it. Once the key is known, the request is admitted as if it had come with the key.
"""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS
from appbackplane.transport.envelope import CALL, Envelope, due_ns
from appbackplane.transport.errors import (
    BackplaneError,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    Unavailable,
    text_of,
)

from ...objects.action import AcceptedCalls, Action
from ...objects.app_object import AppObject
from ...objects.registry import Route
from ...observation.statistics import Statistics
from ...scheduling.scheduler import Scheduler
from ..actions.reports import Reports
from ..workers.clock import Clock
from .admission import Admission
from .digest import Digest, Digesters
from .sources import share_of


class Digesting:
    """Computes the object keys of requests. Used under the lead."""

    def __init__(
        self, *, clock: Clock, scheduler: Scheduler, statistics: Statistics, reports: Reports, accepted: AcceptedCalls,
        admission: Admission, digesters: Digesters, accept: Callable[[bytes, Envelope, int], None],
        turn_away: Callable[[bytes, Envelope, BackplaneError, int], None],
    ) -> None:  # fmt: skip
        """`accept` and `turn_away`: those of the intake, to which a request goes back with its key."""
        self._clock = clock
        self._scheduler = scheduler
        self._statistics = statistics
        self._reports = reports
        self._accepted = accepted
        self._admission = admission
        self._digesters = digesters
        self._accept = accept
        self._turn_away = turn_away

    def begin(
        self,
        route: Route,
        peer: bytes,
        envelope: Envelope,
        source: str,
        principal: str | None,
        priority: int,
        now_ns: int,
    ) -> None:
        """Queue a request at its digester, which admits it once the key is known. Raises `InvalidArgument`, `Busy`."""
        component, method_name = route.component, route.mark.digest
        assert method_name is not None and route.spec is not None
        arguments = route.spec.bind(envelope.body, route.name)
        method = getattr(type(component), method_name)
        name = f"{component.component_name}.{method_name}"
        deadline = envelope.deadline if envelope.deadline is not None else TIMEOUT_DEFAULT_NS
        deadline_ns = due_ns(deadline, now_ns) if envelope.kind == CALL else None
        digester = self._digesters.get(component.component_name)
        if digester is None:
            digester = self._digesters[component.component_name] = AppObject()
            digester._component, digester._name = component, f"{component.name}.digester"
        action = Digest(
            digester,
            name,
            max(0, priority - 1) if component.digest_priority is None else component.digest_priority,
            lambda _, *given: method(component, *given),
            arguments,
            deadline_ns,
        )
        action.asked, action.sender, action.source, action.principal = envelope, peer, source, principal

        def dispatch(ended: Action) -> None:
            then_ns = self._clock.now_ns()
            self._accepted.pop((peer, envelope.id), None)
            error = action.thrown or ended.error  # cancelled while it ran; else a refusal, or the error that it raised
            is_refused = ended.account is None  # a worker has never chosen it
            is_told = is_refused or isinstance(error, (Cancelled, DeadlineExceeded, Unavailable))
            if is_told and isinstance(error, BackplaneError):
                if isinstance(error, DeadlineExceeded):
                    self._statistics.of(route.name).expired_count += 1
                self._turn_away(peer, envelope, error, then_ns)
            elif error is not None or (found := self._found(ended.result)) is None:
                problem = (
                    text_of(error) if error is not None else f"expected {self._expected}, got {ended.result!r:.80}"
                )
                told = InternalError(f"{name}: {problem}")
                if error is None or isinstance(error, BackplaneError):  # other errors were reported when it ended
                    told.__cause__ = error
                    self._reports.failed(action, told, then_ns)
                self._turn_away(peer, envelope, told, then_ns)
            else:
                left = None if deadline_ns is None else -deadline_ns
                envelope.key, envelope.deadline = found[0], left
                if found[1] is not None:
                    envelope.priority = found[1]
                self._accept(peer, envelope, then_ns)

        action.on_end = dispatch
        self._admission.count_in(action, component, share_of(peer, source))
        if envelope.kind == CALL:
            self._accepted[peer, envelope.id] = action
        self._scheduler.post(action, now_ns)

    @property
    def _expected(self) -> str:
        return f"a key (a string), or a key and a priority, 0 to {self._scheduler.priorities - 1}"

    def _found(self, result: object) -> tuple[str, int | None] | None:
        """The key and the priority that a digester has returned; the priority None: the request's own. None: neither."""
        key, priority = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        is_priority = type(priority) is int and 0 <= priority < self._scheduler.priorities
        return (key, priority) if isinstance(key, str) and (is_priority or not isinstance(result, tuple)) else None
