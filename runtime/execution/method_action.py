"""MethodAction: an action that runs a method of its object. Every call, topic, timer and hook is one.

Plain methods run in one go. Coroutine methods run from await to await; the same action is queued again, in front, when
what it awaited has come. How it ended is kept here until the engine tells the caller: a peer (by packed reply), an
action of this same backplane, or whoever set `on_end`. Slots only: this is allocated once a call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import BackplaneError, Cancelled, FailedPrecondition

from ..objects.action import Action, Outcome
from ..objects.operation import OperationSpec
from ..objects.state_machine import StateMachine
from .coroutines import STEP_ASIDE, CallRequest, Pause

if TYPE_CHECKING:
    from ..objects.app_object import AppObject
    from ..scheduling.throttle import Throttle
    from ..scheduling.timers import Timer

#: Stands for the peer of a call whose caller is an action of this very backplane.
LOCAL = b""


class MethodAction(Action):
    """One run of one method, from arrival to end."""

    __slots__ = (
        "arguments", "awaiting_id", "call_id", "chain", "coroutine", "cpu_ns", "error", "function", "inbox", "is_cancelled",
        "is_deferred", "on_end", "peer", "request", "result", "run_ns", "spec", "thrown", "throttle", "timer", "trace", "wait_ns",
    )  # fmt: skip

    def __init__(
        self,
        object: AppObject,
        name: str,
        priority: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        deadline_ns: int | None = None,
    ) -> None:
        self.object, self.name, self.priority, self.deadline_ns = object, name, priority, deadline_ns
        self.posted_ns = 0
        self.continues = False
        self.next = None
        #: Called with the object and the arguments.
        self.function = function
        self.arguments = arguments
        self.spec: OperationSpec | None = None
        #: Who waits for the reply: a peer, LOCAL, or None for nobody; and its context id.
        self.peer: bytes | None = None
        self.call_id = 0
        self.chain: Sequence[Sequence[str]] = ()
        self.trace: str | None = None
        self.throttle: Throttle | None = None
        self.timer: Timer | None = None
        self.on_end: Callable[[MethodAction], None] | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        #: What the coroutine is sent, or has thrown into it, when it goes on.
        self.inbox: Any = None
        self.thrown: BaseException | None = None
        #: What it awaits now, and the id of the call that became of it.
        self.request: CallRequest | Pause | None = None
        self.awaiting_id = 0
        self.is_cancelled = False
        self.is_deferred = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.wait_ns = self.run_ns = self.cpu_ns = 0

    def run(self) -> Outcome:  # hot: scripts/bench call_rtt
        """Run to the end, or to the next await."""
        coroutine = self.coroutine
        try:
            if coroutine is None:
                if self.spec is not None and self.spec.mark.accepted_in is not None and not self._is_accepted():
                    return Outcome.DONE
                result = self.function(self.object, *self.arguments)
                if type(result).__name__ != "coroutine":
                    self.result = result
                    return Outcome.DONE
                self.coroutine = coroutine = result
            return self._drive(coroutine)
        except Exception as error:
            self.error = error
            return Outcome.DONE

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> Outcome:
        thrown, self.thrown = self.thrown, None
        value, self.inbox = self.inbox, None
        try:
            while True:
                instruction = coroutine.send(value) if thrown is None else coroutine.throw(thrown)
                if instruction is STEP_ASIDE:
                    return Outcome.YIELDED
                if isinstance(instruction, (CallRequest, Pause)):
                    self.request = instruction
                    return Outcome.WAITING
                thrown = TypeError(
                    f"{self.name} awaited {type(instruction).__name__}: an operation may await self.call(...), "
                    "pause(...) and checkpoint(); libraries of asyncio belong in a client or a thread of their own"
                )
        except StopIteration as stop:
            self.result = stop.value
            return Outcome.DONE

    def _is_accepted(self) -> bool:
        machine, spec = self.object, self.spec
        assert isinstance(machine, StateMachine) and spec is not None and spec.mark.accepted_in is not None
        if machine._machine_state in spec.mark.accepted_in:
            return True
        if spec.mark.otherwise == "defer":
            self.is_deferred = True
        else:
            accepted = ", ".join(state.name for state in spec.mark.accepted_in)
            self.error = FailedPrecondition(
                f"{self.name} is not accepted by {machine.name} in state {machine._machine_state.name} (accepted in: {accepted})"
            )
        return False

    def refuse(self, error: BackplaneError) -> None:
        """End without (further) running."""
        self.error = error
        if self.coroutine is not None:
            self.coroutine.close()

    def cancel(self) -> None:
        """Its caller has gone: at the next await it ends with `Cancelled`."""
        self.is_cancelled = True
        self.thrown = Cancelled(f"{self.name}: the caller took the call back")
