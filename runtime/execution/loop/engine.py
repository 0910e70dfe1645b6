"""Engine: the parts of one backplane, which its workers share, and the steps of their loop under the lead.

The lead is one lock over scheduler, registry, link and outstanding calls. `choose` drains the link into the ready queues
(law 7: the receiving thread dispatches), flushes outgoing frames and takes the next action. The worker runs it without the
lead; `complete` books its outcome. `wait` gives the lead up until there is work. Replies leave before an action not known to
be short, and at the latest after `DRAIN_INTERVAL_NS`. A virtual backplane runs the same steps in one thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from appbackplane.transport import codec
from appbackplane.transport.batching import SendResult
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.connections import LinkPort
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, CAST, CREDIT, FORWARD, PUBLISH, REPLY, STATUS, Envelope
from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.salvage import Salvaged, salvage

from ...objects.action import DONE, LOCAL, WAITING, AcceptedCalls, Action, Outcome, ParkableAction, run_foreign
from ...objects.module_state import ModuleState
from ...objects.registry import Registry
from ...observation.statistics import OperationStatistics, Statistics
from ...process_config import ProcessConfig
from ...scheduling.timers import Timer, earlier
from ..actions.batch_action import BatchAction
from ..actions.completion import Completion
from ..actions.coroutines import CallRequest, Pause
from ..actions.inheritance import Inheritance
from ..actions.method_action import MethodAction
from ..actions.parked_actions import ParkedActions
from ..actions.reading_action import ReadingAction
from ..actions.recorders import Recorders
from ..actions.reports import Reports
from ..actions.stream_action import StreamAction
from ..intake.admission import Admission
from ..intake.awaiting_calls import AwaitingCalls
from ..intake.call_changes import CallChanges
from ..intake.caller_liveness import CallerLiveness
from ..intake.component_limits import ComponentLimits
from ..intake.deferring import Deferring
from ..intake.digest import Digesters
from ..intake.fairness import FairKeys, scheduler_of
from ..intake.grants import Grants
from ..intake.idempotency_cache import IdempotencyCache
from ..intake.intake import Intake
from ..intake.overload_control import OverloadControl
from ..intake.remote_routes import RemoteRoutes
from ..intake.shutdown_gate import ShutdownGate
from ..intake.sources import Sources, access_of
from ..intake.withdrawal import Withdrawal
from ..outgoing.forwarding import Forwarding
from ..outgoing.outgoing_calls import OutgoingCalls
from ..outgoing.publishing import Publishing
from ..outgoing.ring_detector import RingDetector
from ..outgoing.routing import Routing
from ..outgoing.sender import Sender
from ..outgoing.streaming import Streaming
from ..urgency.board import OwnSlot
from ..urgency.os_priority import OsPriority
from ..urgency.priority_publisher import PriorityPublisher
from ..workers.clock import Clock
from ..workers.poll_leader import QUANTUM_NS, PollLeader
from ..workers.worker import Worker
from .batching import Batching
from .late_actions import LateActions
from .lifecycle import Lifecycle
from .progress import is_long

#: How long short actions may run one after the other before the link is polled again. A poll costs 1.4 us, 3 % of 50 us.
#: An urgent message may be delayed by 50 us: the price of one round trip on an idle machine.
DRAIN_INTERVAL_NS: Final = 50_000
#: Frames received in one drain. A frame holds up to 512 calls: a flood must not keep the workers from working.
FRAMES_MAX: Final = 64
#: Time limit of one drain. Accepting a call costs about 8 us; after this long, accepted calls run first.
DRAIN_MAX_NS: Final = 1_000_000
#: Before an action known to take longer than this, a hand-over of the poll (15 to 60 us) or a flush (5 us) pays.
SHORT_NS: Final = 100_000
#: Skip re-reading the thread's CPU clock before short actions if it was read less than this ago. At most this much CPU is
#: attributed to the wrong action.
CPU_MARK_NS: Final = 1_000_000
#: A peer whose socket was full is offered its envelopes again after this.
STALLED_RETRY_NS: Final = 2_000_000
#: Drains before the link, or a connection, is closed. They receive calls that clients sent before they knew of the end, and
#: replies that a backplane sent before its own end.
STOP_LOOKS_MAX = 100
WAIT_MAX_MS = 3_600_000  # poll(2) takes an int: a timer of a month would not fit

log = logging.getLogger("appbackplane.runtime")


class EngineLink(LinkPort, Protocol):
    """The methods that the engine needs of a link (transport/link.py; testing/memory_link.py)."""

    def known_as(self, peer: bytes) -> bytes: ...
    def expect(self) -> None: ...
    def process(self) -> int: ...
    def has_input(self) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class Engine:
    """The parts of one backplane, and the steps that use them. Every method except `execute` needs the lead."""

    def __init__(
        self,
        config: ProcessConfig,
        *,
        clock: Clock,
        link: EngineLink,
        slot: OwnSlot | None = None,
        os_priority: OsPriority | None = None,
    ) -> None:
        self.backplane = backplane = config.backplane
        self.clock = clock
        #: The clock's function itself: it is called three times an action.
        self.now_ns: Callable[[], int] = clock.now_ns
        self.link = link
        self.registry = registry = Registry(backplane, config.priorities, config.incarnation)
        fair_keys = FairKeys(config.fair_by, config.weights) if config.fair_by else None
        self.scheduler = scheduler = scheduler_of(config, fair_keys, clock.now_ns())
        self.lead = lead = threading.RLock()
        self.statistics = statistics = Statistics()
        self.reports = reports = Reports(config.slow_action_ns)
        self.poll_leader = poll_leader = PollLeader(link.fileno())
        self.late_actions = LateActions(config.max_latency_ns, scheduler, poll_leader)
        self.sender = sender = Sender(self.hear)
        self.outbox = sender.outbox
        self.accepted: AcceptedCalls = {}
        accepted = self.accepted
        self.calls = calls = OutstandingCalls[CallRequest | Pause]()
        self.recorders = recorders = Recorders()
        self.remote = remote = RemoteRoutes()
        self.limits = limits = ComponentLimits()
        self.digesters: Digesters = {}
        digesters = self.digesters
        # Each part is given the parts that it uses, so it knows only those before it. The few calls upwards are methods of
        # this class that a part is given.
        self.routing = routing = Routing(backplane, registry, link, config.system)
        self.priority_publisher = priority_publisher = PriorityPublisher(
            lead=lead, now_ns=clock.now_ns, scheduler=scheduler, poll_leader=poll_leader, drain_if_due=self.drain_if_due,
            slot=slot, os_priority=os_priority,
        )  # fmt: skip
        self.sources = sources = Sources(backplane, routing, config.sources)
        self.permissions = config.permissions
        self.access = access = access_of(config, clock)
        self.grants = grants = Grants(sender, config.threads) if config.balance == "pull" else None
        self.shutdown_gate = shutdown_gate = ShutdownGate(
            backplane, registry=registry, accepted=accepted, sender=sender, poll_leader=poll_leader
        )
        self.replays = replays = IdempotencyCache(
            config.replay, clock=clock, sender=sender, accepted=accepted, is_debug=config.debug
        )
        self.inheritance = inheritance = Inheritance(
            scheduler=scheduler, poll_leader=poll_leader, sender=sender, accepted=accepted, calls=calls, routing=routing,
            replays=replays, priority_publisher=priority_publisher,
        )  # fmt: skip
        self.forwarding = forwarding = Forwarding(backplane, accepted=accepted, routing=routing, sender=sender)
        self.completion = completion = Completion(
            lead=lead, scheduler=scheduler, statistics=statistics, reports=reports, sender=sender, accepted=accepted,
            shutdown_gate=shutdown_gate, inheritance=inheritance, replays=replays, recorders=recorders, grants=grants,
            forwarding=forwarding, is_debug=config.debug,
        )  # fmt: skip
        self.awaiting = awaiting = AwaitingCalls(statistics=statistics, completion=completion, accepted=accepted)
        self.deferring = deferring = Deferring(scheduler=scheduler, statistics=statistics, completion=completion)
        self.parking = parking = ParkedActions(
            lead=lead, scheduler=scheduler, poll_leader=poll_leader, priority_publisher=priority_publisher,
            inheritance=inheritance, completion=completion, hand_over=self.hand_over,
        )  # fmt: skip
        self.withdrawal = withdrawal = Withdrawal(
            scheduler=scheduler, completion=completion, parking=parking, deferring=deferring, awaiting=awaiting
        )
        self.admission = admission = Admission(
            clock=clock, limits=limits, statistics=statistics, digesters=digesters, parking=parking, withdrawal=withdrawal,
            awaiting=awaiting,
        )  # fmt: skip
        self.overload = overload = OverloadControl(
            config.aim_ns, clock=clock, registry=registry, statistics=statistics, reports=reports, withdrawal=withdrawal,
            priorities=config.priorities,
        )  # fmt: skip
        rings = RingDetector(
            clock=clock, scheduler=scheduler, sender=sender, accepted=accepted, calls=calls, inheritance=inheritance,
            replays=replays, withdrawal=withdrawal,
        )  # fmt: skip
        self.intake = intake = Intake(
            clock=clock, registry=registry, scheduler=scheduler, statistics=statistics, reports=reports, sender=sender,
            accepted=accepted, shutdown_gate=shutdown_gate, admission=admission, overload=overload, digesters=digesters,
            replays=replays, rings=rings, completion=completion, inheritance=inheritance, routing=routing, remote=remote,
            sources=sources, grants=grants, fair_keys=fair_keys, awaiting=awaiting, forwarding=forwarding, access=access,
        )  # fmt: skip
        self.outgoing = outgoing = OutgoingCalls(
            calls=calls, routing=routing, scheduler=scheduler, sender=sender, intake=intake, inheritance=inheritance,
            priority_publisher=priority_publisher, recorders=recorders, poll_leader=poll_leader, grants=grants,
        )  # fmt: skip
        self.batching = Batching(scheduler=scheduler, completion=completion, outgoing=outgoing)
        self.streaming = Streaming(accepted=accepted, sender=sender, outgoing=outgoing, remote=remote)
        self.changes = changes = CallChanges(
            scheduler=scheduler, statistics=statistics, accepted=accepted, replays=replays, rings=rings, completion=completion,
            inheritance=inheritance, parking=parking, deferring=deferring, outgoing=outgoing, remote=remote,
            awaiting=awaiting,
        )  # fmt: skip
        self.callers = callers = CallerLiveness(
            clock=clock, accepted=accepted, changes=changes, routing=routing, remote=remote, sender=sender, sources=sources,
            grants=grants, is_reachable=self.is_reachable,
        )  # fmt: skip
        self.publishing = Publishing(
            backplane, registry=registry, sender=sender, routing=routing, intake=intake, remote=remote, callers=callers
        )
        self.lifecycle = Lifecycle(backplane, clock=clock, registry=registry, timers=scheduler.timers, post=self.post)
        #: Called under the lead after each new routing table.
        self.directory_hearers: list[Callable[[], None]] = []
        self._drained_ns = 0
        #: Whether anything was sent since the link was last found empty: a send may consume the descriptor's edge.
        self._is_unsure = True
        #: Whether a single call, known to be short, has come after a wait.
        self._is_lone = False
        self._retry_ns: int | None = None

    def stop_recording(self) -> None:
        """Record neither actions nor messages from now on."""
        self.recorders.stop()
        self.publishing.records = {}

    # -- one iteration of a worker ------------------------------------------------------------------------------------

    def choose(self, worker: Worker) -> Action | None:  # hot: scripts/bench call_rtt
        """The action that `worker` runs next; None: it must wait. Drains the link if that is due."""
        now_ns = self.now_ns()
        scheduler = self.scheduler
        self._is_lone = False
        if now_ns - self._drained_ns >= DRAIN_INTERVAL_NS or not scheduler.ready.count:
            self.drain(now_ns)
            if now_ns - worker.marked_ns >= CPU_MARK_NS:
                self._mark_cpu(worker, now_ns)
        while (action := scheduler.next(now_ns, worker.below)) is not None:
            if (
                action.deadline_ns is not None
                and now_ns >= action.deadline_ns
                and self.completion.is_too_late(action, now_ns)
            ):
                continue
            if action.limit is not None and self.completion.has_queued_too_long(action, action.limit, now_ns):
                continue
            if not isinstance(action, BatchAction) or self.batching.gather(action, now_ns):
                break
        if action is None:
            worker.action = None
            self.priority_publisher.show(worker)
            return None
        last, worker.action = worker.action, action
        if not self._is_lone or self.priority_publisher.moves_threads:
            self.priority_publisher.show(worker)
        if action.account is None:
            action.account = self.statistics.of(action.name)
        chosen: OperationStatistics = action.account
        if self.late_actions.limit_ns:
            self.late_actions.begins(action, last, chosen, now_ns)
        typical_ns = chosen.typical_ns
        if typical_ns >= SHORT_NS or not typical_ns:  # an operation that has never run may take any time
            self._mark_cpu(worker, now_ns)
            if self.outbox:
                self.flush(now_ns)
            self.poll_leader.before_long(worker, is_overrun_sure=chosen.unseen_ns >= QUANTUM_NS or not typical_ns)
            self.nudge()
        elif not worker.is_relief:
            self.poll_leader.retire_reliefs()
        return action

    def execute(self, worker: Worker, action: Action) -> tuple[Outcome, int, int, int]:  # hot: scripts/bench call_rtt
        """Run the action in the calling thread, without the lead. Returns (outcome, end time, run ns, CPU ns).

        Reading the thread's CPU clock is a system call of 0.35 us. A run shorter than `SHORT_NS` is charged its wall time
        instead; a longer one at most the CPU that the thread has used since the clock was last read.
        """
        started_ns = self.now_ns()
        action.wait_ns += started_ns - action.posted_ns
        worker.begins(started_ns)
        if not action.started_ns:
            action.started_ns, action.queued_ns = started_ns, started_ns - action.wait_ns
        try:
            outcome = action.run() if isinstance(action, MethodAction) else run_foreign(action)
        except BaseException as error:  # the edge: sys.exit() in an operation ends the operation, not the worker
            action.error = error
            outcome = DONE
        worker.started_ns = 0
        run_ns = (now_ns := self.now_ns()) - started_ns
        if run_ns < SHORT_NS:
            return outcome, now_ns, run_ns, run_ns
        account: OperationStatistics = action.account or self.statistics.of(action.name)
        account.was_unseen(max(worker.unseen_ns, now_ns - worker.looked_ns))
        cpu_ns = self.clock.cpu_ns()
        used_ns, worker.cpu_mark_ns = cpu_ns - worker.cpu_mark_ns, cpu_ns
        return outcome, now_ns, run_ns, min(run_ns, used_ns)

    def complete(
        self, action: Action, outcome: Outcome, now_ns: int, run_ns: int, cpu_ns: int
    ) -> None:  # hot: scripts/bench call_rtt
        """Book an action that has run until `now_ns`: it ended, waits, or yielded."""
        action.run_ns += run_ns
        action.cpu_ns += cpu_ns
        if isinstance(action, StreamAction):
            self.streaming.send(action, now_ns)
        if outcome is not DONE:
            self.scheduler.finished(action, outcome, now_ns)
            if outcome is WAITING:
                if isinstance(action, ParkableAction):
                    if action.takes_room and self.grants is not None:
                        self.grants.rests(action, now_ns)
                    self.parking.park(action, now_ns)
                else:
                    assert isinstance(action, MethodAction), "only a method can await"
                    if isinstance(action, ReadingAction):
                        self.streaming.await_items(action, now_ns)
                    self.outgoing.start(action, now_ns)
        elif isinstance(action, MethodAction) and action.is_deferred:
            self.deferring.defer(action, now_ns)
        else:
            # The reply is packed before the object may run again: later changes of its state must not change the reply.
            if action.peer is not None or action.error is not None or self.replays.running:
                self.completion.answer(action, now_ns)
            if isinstance(action, BatchAction) and action.companions:
                self.batching.end(action, now_ns, run_ns, cpu_ns)
            self.scheduler.finished(action, outcome, now_ns)
            if not self.scheduler.ready.count and self.outbox:
                self.flush(now_ns)  # no action is ready: the reply leaves before the action is booked
            self.completion.book(action, now_ns)
            if self.outgoing.streams and isinstance(action, MethodAction):
                self.outgoing.reader_ended(action, now_ns)
        self.scheduler.budget.charge(cpu_ns)
        account: OperationStatistics = action.account or self.statistics.of(action.name)
        account.typical_ns += (run_ns - account.typical_ns) >> 3 if account.typical_ns else run_ns
        if run_ns >= self.reports.slow_actions.threshold_ns and not is_long(action):
            account.slow_count += 1
            self.reports.was_slow(action, run_ns, now_ns)

    def wait(self, worker: Worker) -> None:
        """Give the lead up until there may be work for `worker`."""
        if self.outbox and self.flush(self.now_ns()):
            return  # a peer was unreachable: its calls have failed, and their callers go on
        if self._is_unsure and self.link.has_input():
            self._drained_ns = 0
            return
        wake_ns = self.next_wake_ns()
        if worker.below is not None and self.scheduler.ready.count:
            # A tick may give quota to work that a relief may run.
            wake_ns = earlier(wake_ns, self.scheduler.ticks.next_ns)
        # Rounded up: waking a millisecond early would waste an iteration.
        timeout_ms = None if wake_ns is None else min(WAIT_MAX_MS, max(0, -((self.now_ns() - wake_ns) // 1_000_000)))
        self.poll_leader.wait(worker, wake_ns, timeout_ms)

    def nudge(self) -> None:
        """Wake the poller if there is work that it does not know of. While it slept, another holder of the lead may have
        made an action ready, set an earlier wake-up, or consumed the link's edge by a send."""
        poll_leader = self.poll_leader
        if poll_leader.poller is not None and (
            self.scheduler.has_work(poll_leader.relief_limit() if poll_leader.poller.is_relief else None)
            or poll_leader.oversleeps(self.next_wake_ns())
            or self.link.has_input()
        ):
            poll_leader.notify()

    def step_back(self, worker: Worker) -> None:
        """A worker ends or parks without choosing again: hand the poll and the remaining work to other workers."""
        worker.action = None
        self.priority_publisher.show(worker)
        self.hand_over()

    def leaves(self, worker: Worker) -> None:
        self.poll_leader.leaves(worker)
        self.step_back(worker)
        self.priority_publisher.left(worker)

    def hand_over(self) -> None:
        """The calling worker will neither send nor poll: send what is queued, and have another worker poll."""
        if self.outbox:
            self.flush(self.now_ns())
        self.poll_leader.hand_over()
        self.nudge()

    def stop(self) -> None:
        """The process ends: move the components down, receive the last calls, and answer all waiting callers."""
        for component in self.registry.components.values():
            component._module_state = ModuleState.DOWN
            component._enters(ModuleState.DOWN)
        for _ in range(STOP_LOOKS_MAX):
            self.drain(self.now_ns())
            if not self.link.has_input():
                break
        self.shutdown_gate.end(self.now_ns())
        self._retry_ns = None
        self.flush(self.now_ns())

    def close(self) -> None:
        """Close the link, and the descriptor that wakes the poller."""
        self.link.close()
        self.poll_leader.close()

    def next_wake_ns(self) -> int | None:
        """When the next timer, tick, deadline, probe or retry of a stalled peer is due; None: none is."""
        grants_ns = None if self.grants is None else self.grants.due_ns
        earliest_ns = earlier(self.scheduler.next_wake_ns(), self.calls.next_deadline_ns())
        earliest_ns = earlier(earliest_ns, earlier(self.deferring.next_deadline_ns(), self.awaiting.next_deadline_ns()))
        earliest_ns = earlier(earliest_ns, earlier(self.callers.next_wake_ns(), self._retry_ns))
        return earlier(earliest_ns, earlier(self.routing.connections.retired_due_ns, grants_ns))

    # -- the link -----------------------------------------------------------------------------------------------------

    def drain_if_due(self, now_ns: int) -> None:
        """Drain the link unless that was done within `DRAIN_INTERVAL_NS`."""
        if now_ns - self._drained_ns >= DRAIN_INTERVAL_NS:
            self.drain(now_ns)

    def drain(self, now_ns: int) -> None:  # hot: scripts/bench call_rtt
        """Send queued frames, receive and dispatch frames, then fire due timers and expire calls past their deadlines."""
        if self.outbox:
            self.flush(now_ns)
        self._is_unsure = True
        receive = self.link.receive
        is_awake = self.poll_leader.is_readable
        if is_awake:
            self.poll_leader.is_readable = False
            self.link.expect()
        for number in range(FRAMES_MAX):
            received = None
            try:
                received = receive()
                if received is None:
                    self._drained_ns = now_ns
                    self._is_unsure = False
                    self.intake.unread_since_ns = 0
                    break
                try:
                    envelopes = codec.decode(received[1])
                except MalformedFrame:
                    self._hear_salvaged(received[0], salvage(received[1]), now_ns)
                    raise
                if received[0] not in self.callers.heard_ns:
                    self.sources.note(received[0], self.link.process())
                self.callers.heard_ns[received[0]] = now_ns
                for envelope in envelopes:
                    self.hear(received[0], envelope, now_ns)
                is_lone = is_awake and number == 0 and len(envelopes) == 1 and not self.batching.waiting
                if is_lone and 0 < self.statistics.typical_ns(envelopes[0].route or "") < SHORT_NS:
                    self._is_lone = True  # run it before timers, deadlines and the board: 2 us sooner
                    return
            except MalformedFrame as error:
                self.reports.malformed(received[0] if received else b"", error, now_ns)
            if self.now_ns() - now_ns >= DRAIN_MAX_NS:
                break
        for timer in self.scheduler.timers.due(now_ns):
            self._fire(timer, now_ns)
        self.outgoing.expire(now_ns, is_unread=self._is_unsure)
        if self.batching.waiting:
            self.batching.look(now_ns)
        self.deferring.expire(now_ns)
        self.awaiting.expire(now_ns)
        if self.grants is not None:
            self.grants.take_back(now_ns)
        if now_ns >= self.callers.due_ns:
            self._is_unsure = True  # it sends past the outbox
            self.callers.look(now_ns)
        if self.outbox:
            self.flush(now_ns)

    def _fire(self, timer: Timer, now_ns: int) -> None:
        """Queue the action that a due timer becomes (law 8), if it makes one; it takes the timer's place in `max_posted`."""
        if timer.object._component is None:  # a spawned object has ended since: nobody walks over all timers then
            timer.is_over, timer.is_pending = True, False
            if timer.account is not None:
                timer.account.ended(now_ns)
            return
        if timer.make is None:
            object = self.registry.queue_of(timer.object)
            action = MethodAction(object, timer.name, timer.priority, timer.function, timer.arguments)
            action.timer = timer
            action.throttle, timer.account = timer.account, None
            self.inheritance.post(action, now_ns)
            return
        made = None
        try:
            made = timer.make()
        except Exception:  # the edge: `make` may be a user's code; the worker that fires timers goes on
            log.exception("%s: the timer's action could not be created", timer.name)
        account = None
        if not timer.interval_ns:
            account, timer.account = timer.account, None
        if made is not None:
            made.throttle = account
            self.inheritance.post(made, now_ns)
            return
        timer.is_pending = False
        if account is not None:
            account.ended(now_ns)

    def _hear_salvaged(self, peer: bytes, salvaged: Salvaged, now_ns: int) -> None:
        for refusal in salvaged.refusals:
            self.sender.say(peer, refusal, now_ns)
        for envelope in salvaged.heard:
            self.hear(peer, envelope, now_ns)

    def hear(self, peer: bytes, envelope: Envelope, now_ns: int) -> None:  # hot: scripts/bench call_pipelined
        """Dispatch one envelope from a peer, or from this backplane itself (LOCAL). All input passes here."""
        kind = envelope.kind
        if kind == CALL or kind == CAST:
            self.intake.accept(peer, envelope, now_ns)
        elif kind == PUBLISH:
            if peer is LOCAL:
                self.intake.accept_topic(LOCAL, envelope, now_ns)
            else:
                self.publishing.receive(peer, envelope, now_ns)
        elif kind == CANCEL:
            self.changes.cancel(peer, envelope.id, now_ns)
        elif kind == BOOST:
            self.changes.change_priority(peer, envelope, now_ns)
        elif kind == CREDIT and not envelope.id:
            self.outgoing.grant(peer, envelope.body, now_ns)
        elif kind == REPLY or kind == STATUS:
            self.outgoing.answered(peer, envelope, now_ns)
        elif kind >= FORWARD:
            self.intake.hear_of_operands(peer, envelope, now_ns)
        else:
            self.streaming.hear(peer, envelope, now_ns)

    def see_unread(self, now_ns: int) -> None:
        """Note since when unread input waits at the link. Called by the sentinel; takes the lead."""
        with self.lead:
            if not self.intake.unread_since_ns and self.poll_leader.poller is None and self.link.has_input():
                self.intake.unread_since_ns = now_ns

    def is_reachable(self, peer: bytes, frame: bytes) -> bool:
        """Send a frame past the outbox. False: the peer is dead, and its subscriptions are dropped."""
        if self.link.send(peer, frame) is SendResult.UNREACHABLE:
            self.publishing.forget(peer)
            return False
        return True

    # -- the routing table --------------------------------------------------------------------------------------------

    def update(self, directory: Directory, now_ns: int) -> None:
        """Adopt a new routing table: calls to dead instances end now; new instances are connected when first used."""
        routing, old = self.routing, self.routing.directory
        if directory.version < old.version:
            return
        self.callers.update(old, directory)
        routing.adopt(directory)
        self.sources.refresh()
        for name in routing.connections.outdated(directory, keep=""):
            peer = self.outgoing.retire(name, now_ns)
            self.outbox.forget(peer)
            self.publishing.forget(peer)
        self.publishing.update(directory)
        for name in directory.newly_draining(old):
            self.outgoing.say_farewell(name, now_ns)
        self.outgoing.look_again(now_ns)
        for hear in self.directory_hearers:
            hear()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _mark_cpu(self, worker: Worker, now_ns: int) -> None:
        worker.cpu_mark_ns, worker.marked_ns = self.clock.cpu_ns(), now_ns

    def overrun(self) -> None:
        """An action runs unexpectedly long: send the replies that waited for its end, and have another worker poll."""
        now_ns = self.now_ns()
        for worker in self.poll_leader.team:
            if isinstance(worker.action, StreamAction) and worker.action.has_unsent:
                self.streaming.send(worker.action, now_ns)
        if self.outbox:
            self.flush(now_ns)
        self.priority_publisher.show(self.poll_leader.team[0])
        self.poll_leader.overrun(now_ns)
        self.nudge()

    def flush(self, now_ns: int) -> bool:
        """Send all queued frames. Calls to unreachable peers fail here; returns whether there were such peers."""
        self._is_unsure = True
        is_retry = self._retry_ns is None or now_ns >= self._retry_ns
        unreachable = self.outbox.flush(self.link.send, with_stalled=is_retry)
        for peer in unreachable:
            self.sender.undelivered_count += 1
            self.publishing.forget(peer)
            self.outgoing.fail_peer(peer, now_ns)
            self.callers.gone(peer)
        if not self.outbox.stalled:
            self._retry_ns = None
        elif is_retry:
            self._retry_ns = now_ns + STALLED_RETRY_NS
        return bool(unreachable)

    def post(self, action: Action, now_ns: int) -> None:
        """Queue an action that did not come over the link, and wake a worker for it."""
        self.inheritance.post(action, now_ns)
        self.poll_leader.notify()
