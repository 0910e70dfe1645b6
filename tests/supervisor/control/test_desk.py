"""Desk: whatever a request of the supervisor ends in, its caller is told, and the system goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from appbackplane.supervisor.control.control_socket import SupervisorCall
from appbackplane.supervisor.control.desk import SupervisorRoutes
from appbackplane.supervisor.direction.effects import Caller
from appbackplane.transport.errors import BackplaneError, InternalError, NotFound, UnknownRoute


class Refused:
    """The socket, as far as refusals go."""

    def __init__(self) -> None:
        self.errors: list[BackplaneError] = []

    def refuse(self, caller: Caller, error: BackplaneError) -> None:
        """Note it."""
        self.errors.append(error)


@pytest.mark.parametrize(
    ("route", "raised", "told"),
    [
        ("supervisor.why", NotFound("no object 'x'"), NotFound("no object 'x'")),
        ("supervisor.wyh", None, UnknownRoute("supervisor.wyh", "supervisor.status")),
        ("supervisor.why", TypeError("'str' and 'str'"), InternalError("supervisor.why: TypeError: 'str' and 'str'")),
    ],
)
def test_a_request_that_fails_is_refused(route: str, raised: Exception | None, told: BackplaneError) -> None:
    """A mistake of ours in `scale` took all backplanes down."""

    def ask_why(asked: SupervisorCall) -> None:
        assert raised is not None
        raise raised

    socket, said = Refused(), list[str]()
    parts: dict[str, Any] = {
        "questions": SimpleNamespace(ask_why=ask_why), "reconfiguring": SimpleNamespace(reload=None, scale=None),
        "trials": SimpleNamespace(restart=None), "control": socket, "say": said.append,
    }  # fmt: skip
    unused = dict.fromkeys(("director", "tenure", "take", "status_now", "change_limit"))
    SupervisorRoutes(**parts, **unused).serve(SupervisorCall(Caller(b"peer", 1), route, {}))
    (error,) = socket.errors
    assert (type(error), error.message) == (type(told), told.message)
    if isinstance(told, InternalError):
        (line,) = said
        assert line.startswith("supervisor.why failed: this is a bug of the supervisor\nTraceback")
        assert line.endswith("TypeError: 'str' and 'str'")
    else:
        assert said == []
