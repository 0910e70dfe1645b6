"""Consumed thing: the class of a thing that lives elsewhere, made from its description.

Its properties, actions and events are those of any thing of this system, so permissions, deadlines and limits hold before a
request leaves. Several requests are under way at once (`interleaves`): the order is up to the thing itself.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS
from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded, PeerError, Unavailable

from ...execution.actions.coroutines import OneShotEvent
from ...execution.workers.user_functions import current
from ..declaring import action, event, prop
from ..description import PREFIXES
from ..thing import Thing
from .consumed_description import ConsumedAffordance, ConsumedDescription, Form
from .consumer_thread import MISSED, ConsumerThread, ProtocolBinding

#: Messages of streams that wait to be published; the newest beyond it are dropped, which is logged. A burst of a gateway.
HEARD_MAX: Final = 4_096
#: Seconds after which a caller beyond the limits may come again.
BUSY_S: Final = 0.2
#: Any value of JSON. Bounds are checked by the thing itself.
JsonValue = bool | int | float | str | list[Any] | dict[str, Any] | None
log = logging.getLogger("appbackplane.proxies")


class ProxyLimits(msgspec.Struct, frozen=True):
    """requests: under way at once. waiting: those that wait for their turn; beyond it callers get `Busy`. max_age: seconds for
    which a value that was read answers further reads.
    """

    requests: int = 16
    waiting: int = 64
    max_age: float = 0.0


class RemoteAnswer:
    """The answer to one request: set in the consumer's thread, awaited by an operation."""

    def __init__(self, limit_s: float, what: str) -> None:
        self.event = OneShotEvent(round(limit_s * 1e9), what)
        self.value: Any = None
        self.error: BackplaneError | None = None

    async def wait(self, what: str) -> Any:
        await self.event
        if self.error is not None:
            raise self.error
        if not self.event.is_set:
            raise DeadlineExceeded(f"{what}: no answer within the time of this call")
        return self.value


class ConsumedThing(Thing):
    """One thing that lives elsewhere. Subclasses are made by `class_of`."""

    interleaves = True
    __is_proxy__ = True

    #: The description of the class.
    consumed: ConsumedDescription

    def __init__(
        self, binding: ProtocolBinding, limits: ProxyLimits, thread: ConsumerThread, token_file: str = ""
    ) -> None:
        """`token_file`: named in the log when the credentials are refused."""
        self.place = self.consumed.place
        self._binding, self._limits, self._thread, self._token_file = binding, limits, thread, token_file
        self._slots = asyncio.Semaphore(limits.requests)
        self._outstanding = 0
        #: By property: the value that was read last, and until when it holds, ns.
        self._read: dict[str, tuple[Any, int]] = {}
        #: Counts the times at which values may have changed.
        self._changes_count = 0
        #: Why it cannot be used; "": it can be.
        self._problem = ""
        self._heard: deque[tuple[ConsumedAffordance, Any]] = deque()
        self._is_scheduled = False

    def follow(self) -> list[Callable[[], None]]:
        """Begin to read its streams; returns what ends them."""
        found = (*self.consumed.properties.values(), *self.consumed.events.values())
        return [
            self._thread.begin(self._thread.follow(each.stream, self._binding, partial(self.hear, each)))
            for each in found
            if each.stream is not None
        ]

    def hear(self, said: ConsumedAffordance, data: Any) -> None:
        """A stream has said something. Called in the consumer's thread."""
        if data is MISSED:
            log.warning("%s: messages of %r were missed", self.key, said.name)
            return
        if len(self._heard) >= HEARD_MAX:
            log.warning("%s: a message of %r is dropped: %d wait to be published", self.key, said.name, HEARD_MAX)
            return
        self._heard.append((said, data))
        if not self._is_scheduled:
            self._is_scheduled = True
            try:
                self.after(0.0, self._tell)
            except Busy:
                self._is_scheduled = False
                log.warning("%s: a message of %r comes later: its component has too much to do", self.key, said.name)

    def _tell(self) -> None:
        self._is_scheduled = False
        while self._heard:
            said, data = self._heard.popleft()
            if said.read is None:
                self._notify("event", said.name, data)
                continue
            self._notify("property", said.name, data)
            self._forget_read()

    async def read_property(self, said: ConsumedAffordance) -> Any:
        """Its value, at most `max_age` old."""
        known = self._read.get(said.name)
        now_ns = self._host.now_ns()
        if known is not None and now_ns < known[1]:
            return known[0]
        assert said.read is not None
        changes_count = self._changes_count
        value = await self._ask(said.read, None)
        if self._limits.max_age and changes_count == self._changes_count:
            self._read[said.name] = value, now_ns + round(self._limits.max_age * 1e9)
        return value

    async def write_property(self, said: ConsumedAffordance, value: Any) -> None:
        """Set it."""
        assert said.write is not None
        try:
            await self._ask(said.write, value)
        finally:
            self._forget_read()

    async def invoke_action(self, said: ConsumedAffordance, arguments: Any) -> Any:
        """The result of an action; None: it has none. Whatever was read may have changed by it."""
        assert said.invoke is not None
        try:
            return await self._ask(said.invoke, arguments)
        finally:
            self._forget_read()

    def _forget_read(self) -> None:
        """Values may have changed, those included whose requests are under way."""
        self._changes_count += 1
        self._read.clear()

    async def _ask(self, form: Form, body: Any) -> Any:
        """The value that a request is answered with. Raises `BackplaneError`."""
        if self._outstanding >= self._limits.requests + self._limits.waiting:
            raise Busy(
                f"{self.key}: {self._outstanding} requests to it are outstanding, the maximum", retry_after=BUSY_S
            )
        deadline_ns, now_ns = current().deadline_ns, self._host.now_ns()
        limit_s = (TIMEOUT_DEFAULT_NS if deadline_ns is None else max(0, deadline_ns - now_ns)) / 1e9
        answer = RemoteAnswer(limit_s, form.url)
        self._outstanding += 1
        try:
            cancel = self._thread.begin(self._request(form, body, limit_s, answer))
            try:
                value = await answer.wait(form.url)
            finally:
                cancel()
        except BackplaneError as error:
            self._note(error)
            raise
        finally:
            self._outstanding -= 1
        self._note(None)
        return value

    async def _request(self, form: Form, body: Any, limit_s: float, answer: RemoteAnswer) -> None:
        """In the consumer's thread."""
        try:
            async with asyncio.timeout(limit_s), self._slots:
                answer.value = await self._binding.request(form, body, limit_s)
        except BackplaneError as error:
            answer.error = error
        except TimeoutError:
            answer.error = DeadlineExceeded(f"{form.url}: no answer within the time of this call")
        except asyncio.CancelledError:
            answer.error = Unavailable(f"{self.key} is not asked any more: this process goes down")
            raise
        finally:
            self._platform.set(answer.event)

    def _note(self, error: BackplaneError | None) -> None:
        """Log it once when the thing cannot be used, and when it can be again."""
        problem = error.message if isinstance(error, PeerError) and not isinstance(error, Busy) else ""
        if error is not None and not problem:
            return  # the thing has answered
        if problem and not self._problem:
            secret = f" (token_file = {self._token_file!r})" if self._token_file else ""
            log.warning("%s cannot be used: %s%s", self.key, problem, secret)
        elif self._problem and not problem:
            log.info("%s can be used again", self.key)
        self._problem = problem


def class_of(description: ConsumedDescription) -> type[ConsumedThing]:
    """The class of the thing that this describes. Its Thing Model has the schemas of the description, to the letter."""
    members: dict[str, Any] = {
        "title": description.title,
        "types": tuple(each for each in description.types if _is_known(each, description)),
        "context": description.context,
        "consumed": description,
        "__doc__": description.description or None,
        "__module__": __name__,
    }
    taken = {*description.properties, *description.actions}
    for said in description.properties.values():
        reader = _reader(said)
        members[f"read {said.name}"] = reader
        if said.write is not None:
            setter = f"set_{said.name}"
            while setter in taken:
                setter += "_"
            taken.add(setter)
            members[setter] = reader.write(_writer(said, setter))
    for said in description.actions.values():
        members[f"invoke {said.name}"] = _invoker(said)
    for said in description.events.values():
        kind = JsonValue if "data" in said.said else type(None)
        members[f"event {said.name}"] = event(kind, name=said.name)
    cls: type[ConsumedThing] = type(f"Consumed({description.id})", (ConsumedThing,), members)
    for group in ("properties", "actions", "events"):
        for name, affordance in getattr(description, group).items():
            cls.__model__[group][name] = affordance.said
    return cls


def _reader(said: ConsumedAffordance) -> Any:
    async def read(self: ConsumedThing) -> Any:
        return await self.read_property(said)

    read.__annotations__ = {"return": JsonValue}
    return prop(name=said.name)(read)


def _writer(said: ConsumedAffordance, setter: str) -> Any:
    async def write(self: ConsumedThing, value: Any) -> None:
        await self.write_property(said, value)

    write.__name__ = setter
    write.__annotations__ = {"value": JsonValue, "return": None}
    return write


def _invoker(said: ConsumedAffordance) -> Any:
    schema = said.said.get("input")
    names = () if schema is None else tuple(schema["properties"])
    required = () if schema is None else schema.get("required", ())
    has_members = said.has_arguments

    async def invoke(self: ConsumedThing, **arguments: Any) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None or name in required}
        if schema is None:
            return await self.invoke_action(said, None)
        return await self.invoke_action(said, given if has_members else given.get("input"))

    invoke.__name__ = said.name
    invoke.__annotations__ = dict.fromkeys(names, JsonValue) | {"return": JsonValue if "output" in said.said else None}
    invoke.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty if name in required else None
                )
                for name in names
            ),
        ]
    )
    return action(name=said.name, safe=said.said["safe"], idempotent=said.said["idempotent"])(invoke)


def _is_known(kind: str, description: ConsumedDescription) -> bool:
    """Whether a semantic type can be written here: its prefix is known."""
    prefix, colon, term = kind.partition(":")
    return kind != "tm:ThingModel" and (
        not colon or term.startswith("//") or prefix in PREFIXES or prefix in description.context
    )
