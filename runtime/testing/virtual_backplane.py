"""VirtualBackplane: a backplane that runs in the calling thread, one action at a time, until nothing is left to do.

The test plays everybody outside: the client that calls (virtual_client.py), the other backplanes that its objects call, and the
supervisor that moves its components. `run_until_idle` takes the same steps as a worker (execution/loop/engine.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Literal

from appbackplane.transport import call_checks, codec
from appbackplane.transport.calling import CONNECT_TIMEOUT_S
from appbackplane.transport.directory import Directory, Place, Registration
from appbackplane.transport.envelope import (
    ARGUMENT_ITEMS,
    BOOST,
    CALL,
    CANCEL,
    CAST,
    PUBLISH,
    REPLY,
    STATUS,
    Envelope,
    argument_credit,
    reply,
    status,
)
from appbackplane.transport.errors import BackplaneError
from appbackplane.transport.handles import ItemStream, Subscription
from appbackplane.transport.item_buffer import ItemBuffer
from appbackplane.transport.promise import Promise
from appbackplane.transport.waitables import Waitable

from ..backplane import Backplane
from ..execution.actions.method_action import MethodAction
from ..execution.workers.current import current
from ..execution.workers.worker import Worker
from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from ..objects.module_state import ModuleState
from ..objects.operation import DeclarationError
from ..process_config import PermissionPolicy, ProcessConfig
from .memory_link import MemoryLink
from .stand_in import StandIn
from .virtual_client import CLIENT, VirtualCall, VirtualClient
from .virtual_clock import VirtualClock

#: A test that runs this many actions without coming to rest is going in circles.
ACTIONS_MAX = 100_000


class Bench(Component):
    """Holds the objects that a test adds without a component of their own: routes `bench.OPERATION`."""


class OutsideCall:
    """A call that an object of the backplane made to another backplane."""

    def __init__(self, backplane: VirtualBackplane, peer: bytes, envelope: Envelope) -> None:
        self._backplane, self._peer = backplane, peer
        self.envelope = envelope
        self.is_cancelled = False
        #: The priority of its latest boost; None: it was not boosted.
        self.boosted_to: int | None = None
        #: Requests to search for a cycle of waits through this call (execution/outgoing/ring_detector.py), newest last.
        self.searches: list[Envelope] = []
        #: The items of its streamed argument; None: it has none.
        self._arrived: ItemBuffer | None = None
        if envelope.streamed is not None:
            self._arrived = ItemBuffer(envelope.route, envelope.body[envelope.streamed], credit=0)

    def heard(self, envelope: Envelope) -> None:
        """Handle a later envelope about it: a cancellation, a search, a boost, or items."""
        if envelope.kind == CANCEL:
            self.is_cancelled = True
        elif envelope.chain is not None:
            self.searches.append(envelope)
        elif envelope.kind == BOOST:
            self.boosted_to = envelope.priority
        elif envelope.kind == ARGUMENT_ITEMS and self._arrived is not None:
            self._arrived.put(envelope.body, envelope.number, envelope.is_blocked)
            if envelope.is_last:
                self._arrived.end(envelope.number + len(envelope.body))

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the call, by name."""
        arguments: Mapping[str, Any] = self.envelope.body
        return arguments

    def items(self, upto: int | None = None) -> list[Any]:
        """Read its streamed argument: so many items or a few more, or to its end. The backplane runs meanwhile."""
        arrived, found = self._arrived, list[Any]()
        assert arrived is not None, f"{self.envelope.route} was called without a stream"
        while upto is None or len(found) < upto:
            items = arrived.take()
            if items is not None:
                found += items
            elif arrived.has_ended:
                arrived.check_end()
                break
            else:
                credit = arrived.credit_due()
                assert credit, "no item has come: the caller awaits something, or time has to pass (advance)"
                self._backplane.hear(argument_credit(self.envelope.id, credit), self._peer)
                arrived.gave(credit)
                self._backplane.run_until_idle()
        return found

    def reply(self, result: Any = None) -> None:
        """Answer the call with a result."""
        self._backplane.hear(reply(self.envelope.id, result), self._peer)

    def fail(self, error: BackplaneError, *, is_refused: bool = False) -> None:
        """End the call in an error. `is_refused`: its work has not begun, so that the call will be retried."""
        self._backplane.hear(status(self.envelope.id, error, is_refused=is_refused), self._peer)


class VirtualBackplane:
    """A backplane for tests. Options are those of `[backplane.NAME]`, times in seconds."""

    def __init__(
        self,
        *components: Component,
        name: str = "virtual",
        role: str | None = "primary",
        priorities: int = 8,
        quotas: tuple[int, ...] = (),
        order: Literal["fifo", "deadline", "shares"] = "fifo",
        shares: tuple[int, ...] = (),
        max_starvation: float = 60.0,
        balance: Literal["turns", "pull"] = "turns",
        fair_by: str | None = None,
        weights: Mapping[str, int] = MappingProxyType({}),
        aim: float | None = None,
        tick: float = 1.0,
        cpu_limit: int | None = None,
        slow_action: float = 0.05,
        max_latency: float | None = None,
        outside: tuple[str, ...] = (),
        topics: tuple[str, ...] = (),
        idempotent: tuple[str, ...] = (),
        sources: Mapping[str, int | Literal["refuse"]] = MappingProxyType({}),
        permissions: PermissionPolicy | None = None,
    ) -> None:
        """`role`: the state that its components are moved to; None leaves them in `start`.

        `outside` and `topics`: routes served, and topics subscribed to, by another backplane, which the test plays (a replica
        of this one for routes served here, too). `idempotent`: those of the routes that may be repeated.
        """
        for each in components:
            _check_component(each)
        self.clock = VirtualClock()
        self.link = MemoryLink(f"{name}-1")
        self._config = ProcessConfig(
            system="test", backplane=name, run_dir="/nowhere", components=(), priorities=priorities, quotas=quotas,
            order=order, balance=balance, tick_ns=round(tick * 1e9), cpu_limit=cpu_limit,
            slow_action_ns=round(slow_action * 1e9), preempt=False, sources=dict(sources),
            permissions=permissions, fair_by=fair_by, weights=dict(weights), aim_ns=None if aim is None else round(aim * 1e9),
            shares=shares, max_starvation_ns=round(max_starvation * 1e9),
            max_latency_ns=None if max_latency is None else round(max_latency * 1e9),
        )  # fmt: skip
        self._components = list(components)
        self._role = role
        self._outside, self._topics, self._idempotent = outside, topics, idempotent
        self._backplane: Backplane | None = None
        self._worker: Worker | None = None
        self._client = VirtualClient(self)
        self._outside_calls: list[OutsideCall] = []
        #: Operations that have run since `_run` began.
        self._order: list[str] = []
        #: Messages published to the outside: (topic, body).
        self.published: list[tuple[str, Mapping[str, Any]]] = []
        #: Casts to the outside: (route, arguments).
        self.casts: list[tuple[str, Mapping[str, Any]]] = []

    # -- contents -----------------------------------------------------------------------------------------------------

    @property
    def backplane(self) -> Backplane:
        """The backplane itself. On first use it is constructed, and its components are moved to their role."""
        if self._backplane is None:
            self._backplane = Backplane(self._config, self._components, clock=self.clock, link=self.link)
            here = Registration(self._config.backplane, 1, 0, "/nowhere/here-1.sock", self._backplane.entries())
            self._client.connect(here)
            self._backplane.be_virtual(Random(0).random, StandIn(self).wait)
            self._worker = self._backplane.stand_in_worker(0)
            self._tell_of_outside(is_up=True)
            if self._role is not None:
                self.move("initializing")
                self.move(self._role)
        return self._backplane

    def add(self, object: AppObject, *, key: str | None = None) -> Any:
        """Add an object to the component `bench`, before anything has run. Returns the object."""
        assert self._backplane is None, "objects of new classes are added before anything runs (law 12)"
        bench = next((c for c in self._components if isinstance(c, Bench)), None)
        if bench is None:
            bench = Bench()
            self._components.append(bench)
        return bench.add(object, key=key)

    def move(self, state: str, component: str | None = None) -> list[str]:
        """Move one component, or all in the order given, and run their hooks. Raises a hook's error."""
        order: list[str] = []
        lifecycle = self.backplane.engine.lifecycle
        for each in self._components:
            if component is None or each.component_name == component:
                failures: list[BaseException | None] = []
                lifecycle.move(each.component_name, ModuleState(state), failures.append)
                order += self.run_until_idle()
                if failures and failures[0] is not None:
                    raise failures[0]
        return order

    # -- work ---------------------------------------------------------------------------------------------------------

    def post(
        self,
        object: AppObject,
        operation: str,
        *,
        priority: int | None = None,
        timeout: float | None = None,
        **arguments: Any,
    ) -> Action:
        """Queue an operation of one object, as if it had been called. The returned action shows `result` and `error` later."""
        action = self._action(object, operation, priority, arguments)
        if timeout is not None:
            action.deadline_ns = self.clock.now_ns() + round(timeout * 1e9)
        self.backplane.engine.post(action, self.clock.now_ns())
        return action

    def post_reply(self, object: AppObject, operation: str, **arguments: Any) -> Action:
        """Queue an operation in front of all others of its object, as the reply that it awaited would be (law 6)."""
        action = self._action(object, operation, None, arguments)
        self.backplane.engine.scheduler.post_first(action, self.clock.now_ns())
        return action

    def call(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None, retry: bool = False, **keywords: Any,
    ) -> VirtualCall:  # fmt: skip
        """Call as `Client.submit` does, with its arguments and errors; the returned handle gives the result.

        By default the call is not retried, so that the test sees each refusal.
        """
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, idempotency_key, retry)
        _ = self.backplane
        return self._client.submit(spec)

    def promise(self, name: str = "") -> Promise:
        """A value assigned once, as of `Client.promise`."""
        return Promise(self._client, name)

    def stream(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        timeout: float | None = call_checks.TIMEOUT_DEFAULT_S, arguments: Mapping[str, Any] | None = None,
        window: int = call_checks.WINDOW_DEFAULT, retry: bool = False, **keywords: Any,
    ) -> ItemStream:  # fmt: skip
        """Read the items of a generator operation as `Client.stream` does; each step runs the backplane until idle."""
        spec = call_checks.asked(route, key, priority, timeout, arguments, keywords, None, retry)
        _ = self.backplane
        return self._client.stream(spec, call_checks.window_of(route, window))

    def cast(
        self, route: str, /, *, key: str | None = None, priority: int | None = None,
        arguments: Mapping[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        """Cast as `Client.cast` does."""
        spec = call_checks.asked(route, key, priority, None, arguments, keywords)
        _ = self.backplane
        self._client.cast(spec)

    def publish(
        self, topic: str, /, *, priority: int | None = None, arguments: Mapping[str, Any] | None = None, **keywords: Any
    ) -> int:
        """Publish as `Client.publish` does. Returns the number of backplanes that subscribe: 1, or 0."""
        call_checks.check(topic, None, priority)
        body = call_checks.body_of(topic, arguments, keywords)
        _ = self.backplane
        return self._client.publish(topic, priority, body)

    def subscribe(self, topic: str, *, timeout: float = CONNECT_TIMEOUT_S) -> Subscription:
        """Subscribe as `Client.subscribe` does, and run the backplane until it has confirmed.

        `get` of the subscription waits as `VirtualCall.result` does.
        """
        limit_ns = call_checks.duration_ns(timeout)
        _ = self.backplane
        return self._client.subscribe(topic, limit_ns)

    def outside_calls(self, route: str | None = None) -> list[OutsideCall]:
        """Calls that its objects have made to other backplanes so far, oldest first."""
        self.collect()
        return [call for call in self._outside_calls if route is None or call.envelope.route == route]

    def kill_outside(self) -> None:
        """The other backplane dies, and the supervisor reports it."""
        _ = self.backplane
        self._tell_of_outside(is_up=False)

    # -- time ---------------------------------------------------------------------------------------------------------

    def run_until_idle(self) -> list[str]:
        """Run all ready work without letting time pass. Returns the operations in the order they ran, step by step."""
        return self._run(None)

    def advance(self, seconds: float) -> list[str]:
        """Let time pass, and run work as it falls due. Returns the operations in the order they ran."""
        return self._advance(self.clock.now_ns() + round(seconds * 1e9))

    def _advance(self, end_ns: int, awaited: Waitable | None = None) -> list[str]:
        """Let time pass until `end_ns`, or until `awaited` is ready."""
        order = self._run(end_ns)
        while self.clock.now_ns() < end_ns and not (awaited is not None and awaited.is_ready):
            wake_ns = self._next_wake_ns()
            self.clock.move(end_ns if wake_ns is None else min(wake_ns, end_ns))
            order += self._run(end_ns)
        return order

    def _next_wake_ns(self) -> int | None:
        """When the next timer of the backplane, or deadline of the test's calls, is due; None: none is."""
        times = [at for at in (self.backplane.engine.next_wake_ns(), self._client.next_wake_ns()) if at is not None]
        return min(times, default=None)

    def _run(self, until_ns: int | None) -> list[str]:
        engine, worker = self.backplane.engine, self._worker
        assert worker is not None
        order: list[str] = []
        self._order = order
        current.worker = worker
        try:
            while (until_ns is None or self.clock.now_ns() <= until_ns) and self._turn(worker):
                assert len(order) < ACTIONS_MAX, "it does not come to rest"
        finally:
            current.worker = None
        engine.flush(self.clock.now_ns())
        self.collect()
        return order

    def _turn(self, worker: Worker) -> bool:
        """Run one action; or end overdue calls; or send items of the test's streams. False: there was nothing to do."""
        engine = self.backplane.engine
        engine.drain(self.clock.now_ns())  # time stands still, so nothing else triggers a drain
        action = engine.choose(worker)
        if action is None:
            self.collect()  # credit that a blocked operation has returned
            return self._client.expire() or self._client.feed()
        self._order.append(action.name.rpartition(".")[2])
        engine.complete(action, *engine.execute(worker, action))
        engine.flush(self.clock.now_ns())
        self.collect()
        return True

    # -- the other processes ------------------------------------------------------------------------------------------

    def hear(self, envelope: Envelope, peer: bytes = CLIENT) -> None:
        """Deliver one envelope, through the codec."""
        _ = self.backplane
        self.link.deliver(peer, codec.batch([codec.Encoder().encode(envelope)]))

    def hear_call(self, call: Envelope, peer: bytes = CLIENT) -> VirtualCall:
        """Deliver the CALL of any caller; the returned handle has its answer."""
        handle = self._client.watch(call, peer)
        self.hear(call, peer)
        return handle

    def collect(self) -> None:
        """Read the frames that the backplane has sent."""
        if self.link.sent:
            self._client.let_expire()
        while self.link.sent:
            peer, frame = self.link.sent.popleft()
            envelopes = codec.decode(frame)
            self._client.receive(peer, frame, envelopes)
            for envelope in envelopes:
                if envelope.kind in (REPLY, STATUS):
                    continue
                if envelope.kind == PUBLISH:
                    assert envelope.route is not None
                    self.published.append((envelope.route, envelope.body))
                elif envelope.kind == CAST:
                    assert envelope.route is not None
                    self.casts.append((envelope.route, envelope.body))
                elif envelope.kind == CALL:
                    self._outside_calls.append(OutsideCall(self, peer, envelope))
                else:
                    for call in self._outside_calls:
                        if call.envelope.id == envelope.id:
                            call.heard(envelope)

    def _action(
        self, object: AppObject, operation: str, priority: int | None, arguments: Mapping[str, Any]
    ) -> MethodAction:
        _ = self.backplane
        component = object._component
        assert component is not None, "add the object first"
        spec = next(spec for spec in type(object).__operations__.values() if spec.name == operation)
        name = f"{component.component_name}.{operation}"
        urgency = spec.mark.priority if priority is None else priority
        action = MethodAction(object, name, urgency, spec.function, spec.bind(arguments, name))
        action.spec = spec
        return action

    def _tell_of_outside(self, *, is_up: bool) -> None:
        assert self._backplane is not None
        engine = self._backplane.engine
        # A route that is served here, too, has two backplanes, like that of replicas.
        served, here = engine.registry.routes, self._config.backplane
        routes: dict[str, tuple[str, ...]] = {
            route: ("outside", here) if route in served else ("outside",) for route in self._outside
        }
        topics: dict[str, tuple[str, ...]] = {topic: ("outside",) for topic in self._topics}
        places = {
            "outside": Place(1, "/nowhere/outside-1.sock", is_up),
            self._config.backplane: Place(1, "/nowhere/here-1.sock"),
        }
        version = engine.routing.directory.version + 1
        engine.update(Directory("test", version, places, routes, topics, self._idempotent), self.clock.now_ns())


def _check_component(given: Any) -> None:
    """Raises `DeclarationError` for a component that a test has given as a class, or that is none."""
    if isinstance(given, type):
        raise DeclarationError(
            f"VirtualBackplane: {given.__qualname__} is a class: give it an object of it, {given.__name__}()"
        )
    if not isinstance(given, Component):
        raise DeclarationError(
            f"VirtualBackplane: {type(given).__qualname__} is not derived from Component: `add` takes other objects"
        )
