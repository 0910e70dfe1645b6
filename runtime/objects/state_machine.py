"""StateMachine: an object whose operations are accepted by state, refused or deferred otherwise.

States are an Enum; `become` moves. A refused call ends in FAILED_PRECONDITION and names the state; a deferred one waits
beside the queue and is put back, in its old order and before anything newer, at the next change of state (the postpone
rule of OTP's gen_statem). Deferred work still counts towards the component's limit, so it cannot grow without end.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from appbackplane.transport.errors import FailedPrecondition

from .app_object import AppObject
from .operation import DeclarationError
from .own import check_operations, owned

if TYPE_CHECKING:
    from .action import Action


class NotAccepted(FailedPrecondition):
    """The state does not accept the operation. Statistics count it as refused, and as no error of the operation."""


class StateMachine(AppObject):
    """Set `initial` to a member of an Enum and mark operations with `accepted_in=(State.OPEN, …)`."""

    __slots__ = ("_deferred", "_machine_state")

    initial: ClassVar[Enum]
    _machine_state: Enum
    _deferred: list[Action]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        initial = getattr(cls, "initial", None)
        if not isinstance(initial, Enum):
            raise DeclarationError(f"{cls.__qualname__}.initial: expected a member of an Enum, got {initial!r}")
        check_operations(cls, StateMachine)
        for spec in cls.__operations__.values():
            for state in spec.mark.accepted_in or ():
                if not isinstance(state, type(initial)):
                    raise DeclarationError(
                        f"{cls.__qualname__}.{spec.attribute}: {state!r} is no {type(initial).__name__}"
                    )

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls)
        self._machine_state = cls.initial
        self._deferred = []
        return self

    @owned
    def state(self) -> Enum:
        """Where the machine is."""
        return self._machine_state

    def become(self, state: Enum) -> None:
        """Move to `state`; what was deferred is tried again before anything newer, once this action has ended."""
        if not isinstance(state, type(self.initial)):
            raise TypeError(f"{self.name} has no state {state!r}: expected a {type(self.initial).__name__}")
        changed = state is not self._machine_state
        self._machine_state = state
        if changed and self._deferred:
            deferred, self._deferred = self._deferred, []
            self._host.requeue_deferred(self, deferred)
