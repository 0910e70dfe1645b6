"""MethodAction: an action that runs a method of its object. Every call, topic, timer and hook is one.

Plain methods run in one go. Coroutine methods run from await to await; the same action is queued again, in front, when
what it awaited has come. Slots only: this is allocated once a call.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import BackplaneError, Cancelled

from ..objects.action import DONE, WAITING, YIELDED, Action, Outcome
from ..objects.operation_spec import OperationSpec
from ..objects.state_machine import NotAccepted, StateMachine
from .coroutines import STEP_ASIDE, CallRequest, Pause

if TYPE_CHECKING:
    from ..objects.app_object import AppObject
    from ..scheduling.timers import Timer

AWAITABLE: Final = (
    "an operation may await self.call(...), pause(...) and checkpoint(); libraries of asyncio belong in a client or a thread "
    "of their own"
)
#: With what asyncio fails where no loop of its own runs, in the words of either function.
_LOOPLESS: Final = ("no running event loop", "There is no current event loop")


class MethodAction(Action):
    """One run of one method, from arrival to end."""

    __slots__ = (
        "arguments", "awaiting_id", "coroutine", "function", "inbox", "is_deferred", "received", "request",
        "sender", "spec", "thrown", "timer",
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
        #: The peer that asked for it, whether or not it waits for an answer.
        self.sender = b""
        self.timer: Timer | None = None
        self.coroutine: Coroutine[Any, Any, Any] | None = None
        #: What the coroutine is sent, or has thrown into it, when it goes on.
        self.inbox: Any = None
        self.thrown: BaseException | None = None
        #: The last error that a call of its own ended in: if it comes out unhandled, it is not the caller's fault.
        self.received: BaseException | None = None
        #: What it awaits now, and the id of the call that became of it.
        self.request: CallRequest | Pause | None = None
        self.awaiting_id = 0
        self.is_deferred = False

    def run(self) -> Outcome:  # hot: scripts/bench call_rtt
        """Run to the end, or to the next await."""
        coroutine = self.coroutine
        try:
            if coroutine is None:
                if self.thrown is not None:  # taken back on its way from a state machine's side track to the queue
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

    @property
    def has_begun(self) -> bool:
        """It has run, and goes on; not known while it runs for the first time."""
        return self.coroutine is not None

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> Outcome:
        thrown, self.thrown = self.thrown, None
        value, self.inbox = self.inbox, None
        try:
            while True:
                instruction = coroutine.send(value) if thrown is None else coroutine.throw(thrown)
                if instruction is STEP_ASIDE:
                    return YIELDED
                if isinstance(instruction, (CallRequest, Pause)):
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
        """End without (further) running."""
        super().refuse(error)
        if self.coroutine is not None:
            self.coroutine.close()

    def cancel(self) -> None:
        """Its caller has gone: at the next await it ends with `Cancelled`."""
        self.thrown = Cancelled(f"{self.name}: the caller took the call back")


def explained(error: Exception) -> Exception:
    """With what is to be done instead, where somebody has asked asyncio for its event loop (`asyncio.sleep`)."""
    said = error.args[0] if error.args else None
    if not (isinstance(said, str) and said.startswith(_LOOPLESS)):
        return error
    better = RuntimeError(f"{said}: there is no asyncio here; for asyncio.sleep(1) await pause(1); {AWAITABLE}")
    better.__cause__ = error
    return better
