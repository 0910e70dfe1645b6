"""Engine parts: the parts of one engine, and which of them know which.

Each part is constructed with the parts that it uses, so the order here is the order of their dependencies: none knows a later
one. The few calls upwards are functions of the engine that a part is given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.connections import LinkPort
from appbackplane.transport.envelope import Envelope

from ..objects.action import Action
from ..objects.registry import Registry
from ..observation.message_log import MessageLog
from ..observation.recorder import Recorder
from ..observation.statistics import Statistics
from ..scheduling.scheduler import Scheduler
from .accepted import AcceptedCalls
from .admission import Admission
from .board import OwnSlot
from .call_changes import CallChanges
from .caller_liveness import CallerLiveness
from .clock import Clock
from .completion import Completion
from .component_limits import ComponentLimits
from .deferring import Deferring
from .digest import Digesters
from .external_work import ExternalWorkRecorder
from .idempotency_cache import IdempotencyCache
from .inheritance import Inheritance
from .intake import Intake
from .lifecycle import Lifecycle
from .method_action import MethodAction
from .os_priority import OsPriority
from .outgoing_calls import OutgoingCalls
from .parked_actions import ParkedActions
from .poll_leader import PollLeader
from .priority_publisher import PriorityPublisher
from .publishing import Publishing
from .recorders import Recorders
from .remote_routes import RemoteRoutes
from .reports import Reports
from .ring_detector import RingDetector
from .routing import Routing
from .sender import Sender
from .shutdown_gate import ShutdownGate
from .sources import SourceRule, Sources
from .streaming import Streaming
from .withdrawal import Withdrawal


class EngineLink(LinkPort, Protocol):
    """The methods that the engine needs of a link (transport/link.py; testing/memory_link.py)."""

    def known_as(self, peer: bytes) -> bytes: ...
    def expect(self) -> None: ...
    def process(self) -> int: ...
    def has_input(self) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class EngineParts:
    """Constructs and holds the parts. The engine adds the steps that use them."""

    def __init__(
        self,
        *,
        backplane: str,
        clock: Clock,
        link: EngineLink,
        registry: Registry,
        scheduler: Scheduler,
        slow_action_ns: int,
        slot: OwnSlot | None = None,
        os_priority: OsPriority | None = None,
        is_debug: bool = False,
        source_rules: Mapping[str, SourceRule] = MappingProxyType({}),
    ) -> None:
        self.backplane = backplane
        self.clock = clock
        #: The clock's function itself: it is called three times an action.
        self.now_ns: Callable[[], int] = clock.now_ns
        self.link = link
        self.registry = registry
        self.scheduler = scheduler
        self.lead = lead = threading.RLock()
        self.statistics = statistics = Statistics()
        self.reports = reports = Reports(slow_action_ns)
        self.watch = watch = PollLeader(link.fileno())
        self.sender = sender = Sender(self.hear)
        self.outbox = sender.outbox
        self.accepted = accepted = AcceptedCalls()
        self.calls = calls = OutstandingCalls[MethodAction]()
        self.recorders = recorders = Recorders()
        self.remote = remote = RemoteRoutes()
        self.limits = limits = ComponentLimits()
        self.digesters = digesters = Digesters()
        # Each part knows those before it. The few calls upwards are functions that it is given.
        self.routing = routing = Routing(backplane, registry, link)
        self.presence = presence = PriorityPublisher(
            lead=lead, now_ns=clock.now_ns, scheduler=scheduler, watch=watch, drain_if_due=self.drain_if_due, slot=slot,
            os_priority=os_priority,
        )  # fmt: skip
        self.sources = sources = Sources(backplane, routing, source_rules)
        self.shutdown_gate = shutdown_gate = ShutdownGate(
            backplane, registry=registry, accepted=accepted, sender=sender, watch=watch
        )
        self.replays = replays = IdempotencyCache(clock=clock, sender=sender, accepted=accepted, is_debug=is_debug)
        self.inheritance = inheritance = Inheritance(
            scheduler=scheduler, watch=watch, sender=sender, accepted=accepted, calls=calls, routing=routing, replays=replays,
            presence=presence,
        )  # fmt: skip
        self.completion = completion = Completion(
            lead=lead, scheduler=scheduler, statistics=statistics, reports=reports, sender=sender, accepted=accepted,
            shutdown_gate=shutdown_gate, inheritance=inheritance, replays=replays, recorders=recorders, is_debug=is_debug,
        )  # fmt: skip
        self.deferring = deferring = Deferring(scheduler=scheduler, statistics=statistics, completion=completion)
        self.parking = parking = ParkedActions(
            lead=lead, scheduler=scheduler, watch=watch, presence=presence, inheritance=inheritance, completion=completion,
            hand_over=self.hand_over,
        )  # fmt: skip
        self.withdrawal = withdrawal = Withdrawal(
            scheduler=scheduler, completion=completion, parking=parking, deferring=deferring
        )
        self.admission = admission = Admission(
            clock=clock,
            limits=limits,
            statistics=statistics,
            digesters=digesters,
            parking=parking,
            withdrawal=withdrawal,
        )
        rings = RingDetector(
            clock=clock, scheduler=scheduler, sender=sender, accepted=accepted, calls=calls, inheritance=inheritance,
            replays=replays, withdrawal=withdrawal,
        )  # fmt: skip
        self.intake = intake = Intake(
            clock=clock, registry=registry, scheduler=scheduler, statistics=statistics, reports=reports, sender=sender,
            accepted=accepted, shutdown_gate=shutdown_gate, admission=admission, digesters=digesters, replays=replays,
            rings=rings, completion=completion, inheritance=inheritance, routing=routing, remote=remote, sources=sources,
        )  # fmt: skip
        self.outgoing = outgoing = OutgoingCalls(
            calls=calls, routing=routing, scheduler=scheduler, sender=sender, intake=intake, inheritance=inheritance,
            presence=presence, recorders=recorders, watch=watch,
        )  # fmt: skip
        self.streaming = Streaming(
            accepted=accepted,
            outbox=sender.outbox,
            encoder=sender.encoder,
            outgoing=outgoing,
            remote=remote,
            receive=self.hear,
        )
        self.changes = changes = CallChanges(
            scheduler=scheduler, statistics=statistics, accepted=accepted, replays=replays, rings=rings, completion=completion,
            inheritance=inheritance, parking=parking, deferring=deferring, outgoing=outgoing, remote=remote,
        )  # fmt: skip
        self.callers = callers = CallerLiveness(
            clock=clock, accepted=accepted, changes=changes, routing=routing, remote=remote, sender=sender, sources=sources,
            is_reachable=self.is_reachable,
        )  # fmt: skip
        self.publishing = Publishing(
            backplane, registry=registry, sender=sender, routing=routing, intake=intake, remote=remote, callers=callers
        )
        self.lifecycle = Lifecycle(backplane, clock=clock, registry=registry, timers=scheduler.timers, post=self.post)
        #: Called under the lead after each new routing table.
        self.directory_hearers: list[Callable[[], None]] = []

    def record_actions(self, recorder: Recorder, beside: Callable[[str], ExternalWorkRecorder]) -> None:
        """Record ended actions. `beside`: gives the recorder for external work of a name."""
        self.recorders.actions, self.recorders.beside = recorder, beside

    def record_messages(self, topic: str, messages: MessageLog) -> None:
        """Record the messages of a topic."""
        self.publishing.records[topic] = messages

    def stop_recording(self) -> None:
        """Record neither actions nor messages from now on."""
        self.recorders.stop()
        self.publishing.records = {}

    # -- the functions of the engine that parts are given -------------------------------------------------------------

    def hear(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:
        """Dispatch one envelope."""
        raise NotImplementedError

    def drain_if_due(self, now_ns: int) -> None:
        """Receive what has come over the link, unless that was just done."""
        raise NotImplementedError

    def hand_over(self) -> None:
        """Send what is queued, and have another worker poll."""
        raise NotImplementedError

    def is_reachable(self, peer: bytes, frame: bytes) -> bool:
        """Send a frame past the outbox. False: the peer is dead."""
        raise NotImplementedError

    def post(self, action: Action, now_ns: int) -> None:
        """Queue an action, and wake a worker for it."""
        raise NotImplementedError
