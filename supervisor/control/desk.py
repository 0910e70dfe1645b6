"""Desk: serves the supervisor's routes: replies, refuses, or passes an event to the director.

A route whose result comes later (a move, a registration) becomes an event that carries its caller; the director replies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.errors import BackplaneError, FailedPrecondition, UnknownRoute

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


class SupervisorRoutes:
    """The routes of one supervisor and their handlers."""

    def __init__(
        self,
        control: ControlSocket,
        director: Director,
        questions: Questions,
        reconfiguring: Reconfiguring,
        trials: Trials,
        *,
        take: Callable[[events.Event], None],
        status_now: Callable[[], dict[str, Any]],
        tenure: Tenure | None = None,
        change_limit: Callable[[Caller, str, int, int | None], None],
        say: Callable[[str], None],
    ) -> None:
        """`take`: pass an event to the director. `change_limit`: change a generation's CPU limit; it replies to the caller."""
        self._control, self._director, self._questions = control, director, questions
        self._tenure = tenure
        self._take, self._status_now, self._say = take, status_now, say
        self._awaiting_end: list[Caller] = []
        self._served: dict[str, Callable[[SupervisorCall], None]] = {
            "supervisor.register": lambda asked: take(events.Registered(meaning.registration(asked), asked.caller)),
            "supervisor.limit": lambda asked: change_limit(asked.caller, *meaning.limit(asked)),
            "supervisor.directory": self._directory,
            "supervisor.status": self._status,
            "supervisor.why": questions.ask_why,
            "supervisor.routes": lambda asked: control.reply(asked.caller, status.routes(director)),
            "supervisor.move": self._move,
            "supervisor.hand_over": self._hand_over,
            "supervisor.restart": trials.restart,
            "supervisor.reload": reconfiguring.reload,
            "supervisor.scale": reconfiguring.scale,
            "supervisor.down": self._down,
        }

    def serve(self, asked: SupervisorCall) -> None:
        """Serve one call: reply now or later, or refuse."""
        try:
            if (handler := self._served.get(asked.route)) is None:
                raise UnknownRoute(asked.route, "supervisor.status" if asked.route.startswith("supervisor.") else None)
            handler(asked)
        except BackplaneError as error:
            self._control.refuse(asked.caller, error)

    def _directory(self, asked: SupervisorCall) -> None:
        self._control.subscribe(asked.caller.peer)
        self._control.reply(asked.caller, self._director.directory.to_body())

    def _status(self, asked: SupervisorCall) -> None:
        look = meaning.look(asked)
        if look.has_statistics:
            self._questions.ask_statistics(asked.caller, look)
        else:
            self._control.reply(asked.caller, self._status_now())

    def _move(self, asked: SupervisorCall) -> None:
        to, component, limit_ns = meaning.move(asked)
        self._take(events.MoveOrdered(asked.caller, to, component, limit_ns))
        if self._tenure is not None and component is None and to is ModuleState.PRIMARY:
            self._tenure.name_primary(self._tenure.node)

    def _hand_over(self, asked: SupervisorCall) -> None:
        if self._tenure is None:
            raise FailedPrecondition("this system is in no cluster: add a table [cluster] to its TOML")
        self._tenure.name_primary(meaning.node(asked))
        self._control.reply(asked.caller, self._tenure.describe())

    def close(self) -> None:
        """The system is down: reply to each `supervisor.down` with `wait`."""
        for caller in self._awaiting_end:
            self._control.reply(caller, {"unfinished": draining.unfinished(self._director.children.values())})

    def _down(self, asked: SupervisorCall) -> None:
        if asked.body.get("wait") and len(self._awaiting_end) < ORDERS_MAX:
            self._awaiting_end.append(asked.caller)
        else:
            self._control.reply(asked.caller, {})
        is_final = bool(asked.body.get("now"))
        self._say("ordered to kill everything" if is_final else "ordered to go down")
        self._take(events.DownOrdered("ordered by a client", is_final=is_final))
