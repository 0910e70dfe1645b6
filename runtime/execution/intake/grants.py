"""Grants: the callee's side of `balance = "pull"`: tells each caller how many calls this backplane has room for.

Callers keep the rest (transport/pulling.py), so that a call does not wait here while another replica is idle. A caller may have
as many unfinished calls here as take `AHEAD_NS` at the pace of the last ones, shared among the callers that have some; one in
any case, so that a lone call never waits for leave. Calls that await something leave their place to others. Credit is
cumulative, as in QUIC and AMQP: how many calls a caller may have sent in all. It is told in halves of what there is room for:
short calls bring one such envelope for some hundred. Room that a caller left unused is taken back when it falls idle, or calls
turn out to be longer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from appbackplane.transport.envelope import credit

from ...objects.action import Action
from ..outgoing.sender import Sender

#: Work that a replica keeps in store for one caller: a round trip beside saturated cores takes 1 to 5 ms. If shorter, a replica
#: falls idle between short calls; if longer, calls wait behind others that other replicas could have run.
AHEAD_NS: Final = 5_000_000
#: Calls that one caller may have here at most: throughput is flat from 1,000 calls on (transport/caller_core.py), and there are
#: at least two replicas.
ROOM_MAX: Final = 1_000
#: The run time of calls is that of the last ones, which ran for so long together: ten thousand short ones, among which one
#: that waited for a core does not count for much, or a long one alone.
MEMORY_NS: Final = 100_000_000
#: How long a caller may keep room that it does not use.
IDLE_NS: Final = 100_000_000


class _Caller:
    __slots__ = ("load", "may_send", "received_count", "rested_ns", "step", "untold_count")

    def __init__(self) -> None:
        self.may_send = 1  # as its side takes for granted
        self.received_count = 0
        #: Calls that have not ended, without those that have awaited something.
        self.load = 0
        #: When `load` became 0.
        self.rested_ns = 0
        #: Calls that have left their places since it was last told; and at how many it is to be told more.
        self.untold_count = 0
        self.step = 1


class Grants:
    """The room of one backplane, by caller. Used under the lead."""

    def __init__(self, sender: Sender, threads: int) -> None:
        """`threads`: how many actions may run at the same time, as configured."""
        self._sender = sender
        self._threads = threads
        self._callers: dict[bytes, _Caller] = {}
        #: Callers with load.
        self._busy_count = 0
        #: Of the last calls: their run time, and their number. None are remembered of the time before all callers were idle.
        self._run_ns = 0
        self._run_count = 0.0
        #: When `take_back` is due; None: nobody has room unused.
        self.due_ns: int | None = None

    def received(self, peer: bytes, action: Action | None, now_ns: int) -> None:  # hot: scripts/bench uneven
        """A call has come that counts (`CallSpec.is_shared`). `action`: as which it is queued; None: it was refused."""
        caller = self._callers.get(peer)
        if caller is None:
            caller = self._callers[peer] = _Caller()
        caller.received_count += 1
        if action is None or action.peer != peer:  # a digester's action has no caller
            self._tell(peer, caller, now_ns)
            return
        self._busy_count += not caller.load
        caller.load += 1
        action.takes_room = True

    def rests(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench uneven
        """An action with `takes_room` has ended, or awaits something: it leaves its place."""
        action.takes_room = False
        run_ns = action.run_ns
        self._run_ns += run_ns
        self._run_count += 1.0
        while self._run_ns > 2 * MEMORY_NS:
            self._run_ns >>= 1
            self._run_count /= 2
        assert action.peer is not None
        caller = self._callers.get(action.peer)
        if caller is None or not caller.load:  # it was taken for dead meanwhile
            return
        caller.load -= 1
        caller.untold_count += 1
        if not caller.load:
            self._busy_count -= 1
            caller.rested_ns = now_ns
        elif caller.untold_count < caller.step and run_ns < AHEAD_NS:
            return
        self._tell(action.peer, caller, now_ns)

    def take_back(self, now_ns: int) -> None:
        """Leave each caller that has been idle room for one call. Call it often."""
        if self.due_ns is None or now_ns < self.due_ns:
            return
        self.due_ns = None
        if not self._busy_count:
            self._run_ns, self._run_count = 0, 0.0
        for peer, caller in self._callers.items():
            if caller.load or caller.may_send - caller.received_count <= 1:
                continue
            if now_ns - caller.rested_ns < IDLE_NS:
                self._look_at(caller.rested_ns + IDLE_NS)
            else:
                self._say(peer, caller, caller.received_count + 1, now_ns)

    def forget(self, peer: bytes) -> None:
        """A caller is dead."""
        caller = self._callers.pop(peer, None)
        if caller is not None and caller.load:
            self._busy_count -= 1

    def keep(self, peers: Collection[bytes]) -> None:
        """Forget all others that have nothing here. One that lives yet is down to one call at a time."""
        self._callers = {peer: caller for peer, caller in self._callers.items() if caller.load or peer in peers}

    # -- steps --------------------------------------------------------------------------------------------------------

    def _tell(self, peer: bytes, caller: _Caller, now_ns: int) -> None:  # hot: scripts/bench uneven
        ahead = min(ROOM_MAX, int(AHEAD_NS * self._run_count) // max(1, self._run_ns))
        room = max(self._threads, ahead // max(1, self._busy_count))
        may_send = caller.received_count + max(0, room - caller.load)
        caller.untold_count, caller.step = 0, max(1, room >> 1)
        if abs(may_send - caller.may_send) >= caller.step:
            self._say(peer, caller, may_send, now_ns)
        if not caller.load and caller.may_send - caller.received_count > 1:
            self._look_at(now_ns + IDLE_NS)

    def _say(self, peer: bytes, caller: _Caller, may_send: int, now_ns: int) -> None:
        if self._sender.say_surely(peer, credit(0, may_send), now_ns):
            caller.may_send = may_send

    def _look_at(self, at_ns: int) -> None:
        if self.due_ns is None or at_ns < self.due_ns:
            self.due_ns = at_ns
