"""StateMachine: an object that accepts an operation in certain states, and refuses or defers it in others.

States are an Enum; `become` changes the state. A refused call ends in FAILED_PRECONDITION, which names the state. A deferred
call is kept outside the queue. At the next change of state it is put back, in its old order and before newer ones (the
postpone rule of OTP's gen_statem). Deferred calls count in the component's `max_requests`, so they are bounded.
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
    """The state does not accept the operation. Statistics count the call as refused, not as an error of the operation."""


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
        """The current state; `become` changes it."""
        return self._machine_state

    def become(self, state: Enum) -> None:
        """Move to `state`. When this action has ended, deferred calls are tried again before newer ones."""
        if not isinstance(state, type(self.initial)):
            raise TypeError(f"{self.name} has no state {state!r}: expected a {type(self.initial).__name__}")
        changed = state is not self._machine_state
        self._machine_state = state
        if changed and self._deferred:
            deferred, self._deferred = self._deferred, []
            self._host.requeue_deferred(self, deferred)
