"""MethodAction: an action that runs a method of its object, for a call, a topic's message, a timer or a hook.

Plain methods run in one go. Coroutine methods run from await to await; the same action is queued again, in front, when its
awaited reply or time has come. It has slots only, because one is allocated for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import BackplaneError, Cancelled

from ...objects.action import DONE, WAITING, YIELDED, Action, Outcome
from ...objects.operation_spec import OperationSpec
from ...objects.state_machine import NotAccepted, StateMachine
from .coroutines import STEP_ASIDE, CallRequest, Gather, Pause

if TYPE_CHECKING:
    from ...objects.app_object import AppObject
    from ...scheduling.timers import Timer

AWAITABLE: Final = (
    "an operation may await self.call(...), self.gather(...) (not asyncio.gather), pause(...) and checkpoint(); libraries of "
    "asyncio belong in a client or a thread of their own"
)
#: The messages of asyncio's two functions that fail without a running event loop.
_LOOPLESS: Final = ("no running event loop", "There is no current event loop")


class MethodAction(Action):
    """One run of one method, from arrival to end."""

    __slots__ = (
        "arguments", "awaits_since_ns", "coroutine", "deferred_id", "function", "inbox", "is_awaiting", "is_deferred",
        "received", "request", "sender", "spec", "thrown", "timer",
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
        super().__init__(object, name, priority, deadline_ns)
        #: Called with the object and the arguments.
        self.function = function
        self.arguments = arguments
        self.spec: OperationSpec | None = None
        #: The peer that sent the request, whether or not it waits for a reply.
        self.sender = b""
        self.timer: Timer | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        #: The value to send into the coroutine when it goes on, and the error to throw instead.
        self.inbox: Any = None
        self.thrown: BaseException | None = None
        #: The last error of a call made by this action: if it is raised unhandled, it is not the caller's fault.
        self.received: BaseException | None = None
        #: The instruction that its coroutine awaits, until that has ended; and whether it is in the wait queue for it.
        self.request: CallRequest | Pause | Gather | None = None
        self.is_awaiting = False
        #: When it was last put there.
        self.awaits_since_ns = 0
        #: Its deadline's id while a state machine has deferred it (deferring.py); 0: it has none.
        self.deferred_id = 0
        self.is_deferred = False

    def run(self) -> Outcome:  # hot: scripts/bench call_rtt
        """Run to the end, or to the next await."""
        coroutine = self.coroutine
        try:
            if coroutine is None:
                if self.thrown is not None:  # cancelled between being deferred and being queued again
                    raise self.thrown
                if self.spec is not None and self.spec.mark.accepted_in is not None and not self._is_accepted():
                    return DONE
                result = self.function(self.object, *self.arguments)
                if type(result).__name__ != "coroutine":
                    self.result = result
                    return DONE
                self.coroutine = coroutine = result
            return self._drive(coroutine)
        except Exception as error:
            self.error = explained(error) if type(error) is RuntimeError else error
            return DONE

    def open_calls(self) -> Sequence[CallRequest]:
        """The calls that it awaits and that are under way. The caller holds the lead."""
        request = self.request
        if not self.is_awaiting:
            return ()
        if isinstance(request, Gather):
            return [call for call in request.calls if call.id]
        return (request,) if isinstance(request, CallRequest) else ()

    @property
    def has_begun(self) -> bool:
        """Whether it has run and will go on; still False while it runs for the first time."""
        return self.coroutine is not None

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> Outcome:
        thrown, self.thrown = self.thrown, None
        value, self.inbox = self.inbox, None
        try:
            while True:
                instruction = coroutine.send(value) if thrown is None else coroutine.throw(thrown)
                if instruction is STEP_ASIDE:
                    return YIELDED
                if isinstance(instruction, (CallRequest, Pause, Gather)):
                    self.request = instruction
                    return WAITING
                thrown = TypeError(f"{self.name} awaited {type(instruction).__name__}: {AWAITABLE}")
        except StopIteration as stop:
            self.result = stop.value
            return DONE

    def _is_accepted(self) -> bool:
        machine, spec = self.object, self.spec
        assert isinstance(machine, StateMachine) and spec is not None and spec.mark.accepted_in is not None
        if machine._machine_state in spec.mark.accepted_in:
            return True
        if spec.mark.otherwise == "defer":
            self.is_deferred = True
        else:
            accepted = ", ".join(state.name for state in spec.mark.accepted_in)
            self.error = NotAccepted(
                f"{self.name} is not accepted by {machine.name} in state {machine._machine_state.name} "
                f"(accepted in: {accepted})"
            )
        return False

    def refuse(self, error: BackplaneError) -> None:
        """End with `error` without running (further); closes the coroutine."""
        super().refuse(error)
        if self.coroutine is not None:
            self.coroutine.close()

    def cancel(self) -> None:
        """Its caller has cancelled the call or died: `Cancelled` is thrown into the coroutine when it next goes on."""
        self.thrown = Cancelled(f"{self.name}: the caller cancelled the call")


def explained(error: Exception) -> Exception:
    """Add advice to asyncio's error about a missing event loop (`asyncio.sleep`); any other error is returned unchanged."""
    said = error.args[0] if error.args else None
    if not (isinstance(said, str) and said.startswith(_LOOPLESS)):
        return error
    better = RuntimeError(f"{said}: there is no asyncio here; for asyncio.sleep(1) await pause(1); {AWAITABLE}")
    better.__cause__ = error
    return better
