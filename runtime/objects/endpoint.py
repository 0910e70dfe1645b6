"""Endpoint: the entry for messages that are not operations; the place to convert a foreign protocol.

An endpoint names its route and the states in which it is registered. It turns each request into an `Action` of its own,
in the thread that received the request (law 7; seed 002, "Hermes Request Processing Example"). Work that does not arrive
over a link (from a device, another library's thread) is posted with `Component.post`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .operation import SERVING_STATES, states_of

if TYPE_CHECKING:
    from .action import Action


class Request(NamedTuple):
    """A request as received; its arguments are not checked yet."""

    route: str
    key: str | None
    body: Mapping[str, Any]
    priority: int
    #: Monotonic ns; None: never too late.
    deadline_ns: int | None
    #: [object, route] of every call that waits for it, outermost first.
    chain: Sequence[Sequence[str]] = ()
    #: The topic that it was published on; None: it was called or cast.
    topic: str | None = None
    #: Who asks: "client:NAME/PID", "node:NAME/FINGERPRINT", or an object, "BACKPLANE/COMPONENT.KEY".
    source: str = ""
    #: On whose behalf, if a backplane says so.
    principal: str | None = None


class Endpoint:
    """Subclass it, write `create_action`, and `expose` it in the component's `setup`."""

    #: Whether its requests count in `max_requests`. Set False for control requests, which a full component must still accept;
    #: the endpoint then has to bound them itself.
    is_counted: bool = True

    def __init__(
        self,
        name: str,
        *,
        priority: int,
        states: Sequence[str] = SERVING_STATES,
        summary: str = "",
        signature: str = "(...)",
        topic: str | None = None,
        export: bool = False,
    ) -> None:
        """`summary` and `signature`: shown by `appbackplane routes`. `topic`: a topic whose messages become requests, too.
        `export`: other nodes may use the route and the topic.
        """
        self.name, self.priority, self.states, self.summary = name, priority, states_of(states), summary
        self.signature, self.topic, self.export = signature, topic, export

    def create_action(self, request: Request) -> Action | None:
        """Make the action, with its object chosen. Be quick: this runs in the thread that received the request.

        Raise a `CallerError` to refuse. If the action cannot run later, its `refuse(error)` is called. Return None to ignore
        a message of a topic.
        """
        raise NotImplementedError(f"{type(self).__name__} makes no actions of its requests: define create_action()")
