"""CoroutineAction: drives a user's own action whose `run` is a coroutine.

"DoneWaitForReply" (seed 000): a user's action makes a call, and goes on with the reply. It awaits as an `async def` operation
does, and is driven like one: this action stands for it in the queues, and hands on to it how it ends.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from appbackplane.transport.errors import BackplaneError

from ...objects.action import DONE, Action, Outcome
from ..workers.current import current
from .method_action import MethodAction

#: Classes of actions that are known to be coroutines, or not. A program that makes classes all the time has them forgotten.
KINDS_MAX: Final = 1_000
is_coroutine_by_kind: Final[dict[type, bool]] = {}


class CoroutineAction(MethodAction):
    """Stands for `own`, a user's action with `async def run`."""

    __slots__ = ("own",)

    def __init__(self, own: Action) -> None:
        super().__init__(own.object, own.name, own.priority, _begin, (own,), own.deadline_ns)
        self.own = own
        if own.on_end is not None:
            self.on_end = _ended

    def run(self) -> Outcome:
        """Run the coroutine to its end, or to its next await."""
        outcome = super().run()
        if outcome is DONE:
            self.own.posted_ns = 0
            if self.error is None and self.result is not DONE:
                returned = str(self.result) if isinstance(self.result, Outcome) else type(self.result).__name__
                self.error = TypeError(
                    f"{type(self.own).__name__}.run() returned {returned}: a coroutine returns Outcome.DONE"
                )
            self.own.error = self.error
            self.result = self.own.result
        return outcome

    def refuse(self, error: BackplaneError) -> None:
        """End with `error` without running (further); the user's action releases its resources."""
        super().refuse(error)
        self.own.posted_ns = 0
        self.own.refuse(error)


def as_posted(action: Action) -> Action:
    """The action to post for a user's: itself, or what drives its coroutine."""
    return CoroutineAction(action) if is_coroutine(type(action)) else action


def is_coroutine(kind: type[Action]) -> bool:
    """Whether actions of this class are coroutines."""
    if len(is_coroutine_by_kind) >= KINDS_MAX:
        is_coroutine_by_kind.clear()
    code = getattr(kind.run, "__code__", None)  # compiled functions have none
    found = is_coroutine_by_kind[kind] = code is not None and bool(code.co_flags & inspect.CO_COROUTINE)
    return found


def _begin(object: Any, own: Any) -> Any:
    action = current.action
    assert action is not None
    own.source, own.principal, own.trace, own.chain = action.source, action.principal, action.trace, action.chain
    return own.run()


def _ended(action: Action) -> None:
    assert isinstance(action, CoroutineAction)
    own = action.own
    assert own.on_end is not None
    own.on_end(own)
