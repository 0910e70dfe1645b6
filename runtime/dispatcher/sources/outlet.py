"""Outlet: by which handlers send: messages to this dispatcher or another, casts to operations, and topics.

An active object: what it sends leaves at once, while the handler still runs, and nothing waits. In a test of a handler, an
outlet of nobody's keeps what was sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_topic

from ..message import Message, declared
from ..sending import addressed, fields_of
from .source import Source


class Sent(NamedTuple):
    """What an outlet of nobody's was given: to a route, or a topic."""

    to: str
    arguments: dict[str, Any]


class Outlet(Source):
    """Register it for the handlers that send. All of it may be used from any thread, and does not wait."""

    __slots__ = ("casts", "published", "sent")

    def __init__(self) -> None:
        #: In a test: messages for other components, by the component's name; casts; and what was published.
        self.sent: list[tuple[str, Message]] = []
        self.casts: list[Sent] = []
        self.published: list[Sent] = []

    @property
    def posted(self) -> list[Message]:
        """In a test: what was posted; `emitted`, as of any source."""
        return self.emitted

    def post(self, message: Message, *, priority: int | None = None) -> None:
        """Have this dispatcher handle a message. Raises `NoHandler`, and `Busy`."""
        self.emit(message, priority=priority)

    def _drain(self) -> None:
        """What handlers send belongs to what has begun."""

    def _check_open(self) -> None:
        """Always."""

    def send(self, component: str, message: Message, *, priority: int | None = None) -> None:
        """Have the dispatcher `component`, in any backplane, handle it. Raises `UnknownRoute`, and `Busy`."""
        dispatcher = self._dispatcher
        route, fields, key = addressed(component, message)
        if dispatcher is None:
            self.sent.append((component, message))
            return
        dispatcher._host.cast(dispatcher, CallSpec(route, fields, key=key, priority=priority))

    def cast(self, route: str, /, *, key: str | None = None, priority: int | None = None, **arguments: Any) -> None:
        """Send an operation its arguments, and expect nothing back. Raises `UnknownRoute`, and `Busy`."""
        if self._dispatcher is None:
            self.casts.append(Sent(route, arguments))
            return
        self._dispatcher.cast(route, key=key, priority=priority, **arguments)

    def publish(self, topic: str | Message, /, **body: Any) -> None:
        """Tell all subscribers of a topic; of a message, those of the topic that `@message(topic=…)` names."""
        if isinstance(topic, Message):
            spec = declared(topic)
            if spec.topic is None:
                raise InvalidArgument(f"{spec.type.__name__} has no topic: declare @message(topic=…), or name one")
            body, topic = fields_of(topic), spec.topic
        if self._dispatcher is None:
            check_topic(topic)
            self.published.append(Sent(topic, body))
            return
        self._dispatcher.publish(topic, **body)
