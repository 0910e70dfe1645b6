"""Endpoint: where messages enter that are not operations, for those who convert a foreign protocol.

An endpoint names its route and the states in which it is registered, and turns each request into an `Action` of its own
making, in the thread that received it (law 7; seed 002, "Hermes Request Processing Example"). Work that does not come
over a link at all (a device, another library's thread) is posted with `Component.post`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .operation import SERVING_STATES, states_of

if TYPE_CHECKING:
    from .action import Action


class Request(NamedTuple):
    """What came, before anyone has looked at its arguments."""

    route: str
    key: str | None
    body: Mapping[str, Any]
    priority: int
    #: Monotonic ns; None: never too late.
    deadline_ns: int | None
    #: [object, route] of every call that waits for it, outermost first.
    chain: Sequence[Sequence[str]] = ()
    #: The topic of which it is a message; None: it was called or cast.
    topic: str | None = None


class Endpoint:
    """Subclass it, write `create_action`, and `expose` it in the component's `setup`."""

    #: Whether its requests count in `max_requests`. For control, which must come through when the component is full: it then
    #: has to limit its requests itself.
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
        """`summary` and `signature`: for `appbackplane routes`. `topic`: its messages are requests of this endpoint, too.
        `export`: other nodes may use both.
        """
        self.name, self.priority, self.states, self.summary = name, priority, states_of(states), summary
        self.signature, self.topic, self.export = signature, topic, export

    def create_action(self, request: Request) -> Action | None:
        """The action, with its object chosen. Be quick: it runs in the thread that received the request.

        Raise a `CallerError` to refuse. `action.refuse(error)` is called if it cannot run later. None: of a topic's message,
        that it is for others who hear it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say what its requests become: define create_action()"
        )
