"""Desk: serves the supervisor's routes: replies, refuses, or passes an event to the director.

A route whose result comes later (a move, a registration) becomes an event that carries its caller; the director replies.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.errors import BackplaneError, FailedPrecondition, InternalError, UnknownRoute, text_of

from ..cluster.tenure import Tenure
from ..direction import draining, events
from ..direction.director import Director
from ..direction.effects import Caller
from ..direction.orders import ORDERS_MAX
from . import asked as meaning
from . import status
from .control_socket import ControlSocket, SupervisorCall
from .questions import Questions
from .reconfiguring import Reconfiguring
from .trials import Trials


@dataclass(slots=True, kw_only=True)
class SupervisorRoutes:
    """The routes of one supervisor and their handlers."""

    control: ControlSocket
    director: Director
    questions: Questions
    reconfiguring: Reconfiguring
    trials: Trials
    tenure: Tenure | None
    #: Pass an event to the director.
    take: Callable[[events.Event], None]
    status_now: Callable[[], dict[str, Any]]
    #: Change a generation's CPU limit; it replies to the caller.
    change_limit: Callable[[Caller, str, int, int | None], None]
    say: Callable[[str], None]
    _awaiting_end: list[Caller] = field(default_factory=list, init=False)
    _served: dict[str, Callable[[SupervisorCall], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._served = {
            "supervisor.register": lambda asked: self.take(
                events.Registered(meaning.registration(asked), asked.caller)
            ),
            "supervisor.limit": lambda asked: self.change_limit(asked.caller, *meaning.limit(asked)),
            "supervisor.directory": self._directory,
            "supervisor.status": self._status,
            "supervisor.why": self.questions.ask_why,
            "supervisor.routes": lambda asked: self.control.reply(asked.caller, status.routes(self.director)),
            "supervisor.move": self._move,
            "supervisor.hand_over": self._hand_over,
            "supervisor.restart": self.trials.restart,
            "supervisor.reload": self.reconfiguring.reload,
            "supervisor.scale": self.reconfiguring.scale,
            "supervisor.down": self._down,
        }

    def serve(self, asked: SupervisorCall) -> None:
        """Serve one call: reply now or later, or refuse."""
        try:
            if (handler := self._served.get(asked.route)) is None:
                raise UnknownRoute(asked.route, "supervisor.status" if asked.route.startswith("supervisor.") else None)
            handler(asked)
        except BackplaneError as error:
            self.control.refuse(asked.caller, error)
        except Exception as error:  # the edge: a mistake of ours in one answer must not take the whole system down
            self.say(f"{asked.route} failed: this is a bug of the supervisor\n{traceback.format_exc().rstrip()}")
            self.control.refuse(asked.caller, InternalError(f"{asked.route}: {type(error).__name__}: {text_of(error)}"))

    def _directory(self, asked: SupervisorCall) -> None:
        self.control.subscribe(asked.caller.peer)
        self.control.reply(asked.caller, self.director.directory.to_body())

    def _status(self, asked: SupervisorCall) -> None:
        look = meaning.look(asked)
        if look.has_statistics:
            self.questions.ask_statistics(asked.caller, look)
        else:
            self.control.reply(asked.caller, self.status_now())

    def _move(self, asked: SupervisorCall) -> None:
        to, component, limit_ns = meaning.move(asked)
        self.take(events.MoveOrdered(asked.caller, to, component, limit_ns))
        if self.tenure is not None and component is None and to is ModuleState.PRIMARY:
            self.tenure.name_primary(self.tenure.node)

    def _hand_over(self, asked: SupervisorCall) -> None:
        if self.tenure is None:
            raise FailedPrecondition("this system is in no cluster: add a table [cluster] to its TOML")
        self.tenure.name_primary(meaning.node(asked))
        self.control.reply(asked.caller, self.tenure.describe())

    def close(self) -> None:
        """The system is down: reply to each `supervisor.down` with `wait`."""
        for caller in self._awaiting_end:
            self.control.reply(caller, {"unfinished": draining.unfinished(self.director.children.values())})

    def _down(self, asked: SupervisorCall) -> None:
        if asked.body.get("wait") and len(self._awaiting_end) < ORDERS_MAX:
            self._awaiting_end.append(asked.caller)
        else:
            self.control.reply(asked.caller, {})
        is_final = bool(asked.body.get("now"))
        self.say("ordered to kill everything" if is_final else "ordered to go down")
        self.take(events.DownOrdered("ordered by a client", is_final=is_final))
