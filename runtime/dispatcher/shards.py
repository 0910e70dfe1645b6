"""Shards: one dispatcher in several backplanes (`sharded = True`, `replicas = N`), the data of each key in one of them.

Every message with a key has a home: the backplane that the resolver's hash chooses for the key among those that serve its
route. A message that arrives elsewhere is forwarded there, as a call awaited by a coroutine without a thread. So priority,
deadline, trace, chain, cancellation and backpressure are those of any call. Messages of one key are forwarded one after the
other, in their order (law 1). Forwarding costs a round trip, which senders save by giving the key (sending.py). At home, only
the hash costs: 1.5 us. Registration refuses data that shards would silently duplicate, or would not find.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from appbackplane.transport.errors import (
    BackplaneError,
    FailedPrecondition,
    InvalidArgument,
    Unavailable,
    error_from,
)
from appbackplane.transport.resolver import RETRY_AFTER_S, home

from ..execution.actions.method_action import MethodAction
from ..objects.action import Action
from ..objects.endpoint import Request
from .checks.matching import HandlerParameter
from .errors import RegistrationError
from .message import Message, MessageSpec
from .protectors import Choice, DataProtector, SelectiveAccessorOf, SelectiveProtector
from .registration import HandlerEntry
from .sending import fields_of, key_text

if TYPE_CHECKING:
    from .delivery_queues import DeliveryQueue
    from .dispatcher_base import DispatcherBase

#: Suffix of the route of a forwarded message in statistics and chains.
FORWARD = ".forward"

log = logging.getLogger("appbackplane.runtime")


class Shards:
    """Finds the homes of one dispatcher's messages, and forwards them. Any thread may call it."""

    def __init__(self, dispatcher: DispatcherBase) -> None:
        self._dispatcher = dispatcher
        #: Protectors whose data are distributed over the shards by key.
        self._spread: list[SelectiveProtector[Any, Any]] = []
        #: The backplanes that served at the last lookup.
        self._places: tuple[str, ...] = ()

    def admit(self, entry: HandlerEntry) -> None:
        """Check a handler that is being registered. Raises `RegistrationError` if its data cannot be sharded."""
        check(entry)
        route = self._route(entry.spec)
        for parameter in entry.parameters:
            protector = parameter.protector
            if isinstance(protector, SelectiveProtector) and not protector.per_shard and protector not in self._spread:
                self._spread.append(protector)
                protector._guard = lambda key, name=protector.name: self._expect_here(route, name, key)

    def home_of(self, message: Message) -> str | None:
        """Name of the backplane that handles the message; None: any, because it has no key."""
        spec = type(message).__message__
        if spec.key is None:
            return None
        return self._home(self._route(spec), self._key(spec, message))

    def is_here(self, message: Message) -> bool:
        """Whether it is to be handled in this backplane."""
        return self.home_of(message) in (None, self._here)

    def away(
        self,
        message: Message,
        spec: MessageSpec,
        priority: int,
        deadline_ns: int | None,
        request: Request | None = None,
    ) -> Action | None:
        """The action that forwards a message to its home; None: its home is here.

        Raises `InvalidArgument` if the key is missing or differs from that of its request. Raises `Unavailable` if a shard
        with another routing table forwarded it here: that shard is to look its home up again.
        """
        if spec.key is None:
            return None
        route, key = self._route(spec), self._key(spec, message)
        if request is not None and request.key is not None and request.key != key:
            raise InvalidArgument(
                f"{route}: key={request.key!r}, but its {spec.key} is {key!r}: give the same, or leave key= out"
            )
        place = self._home(route, key)
        if place == self._here:
            return None
        name = route + FORWARD
        if request is not None and any(link[1] == name for link in request.chain):
            raise Unavailable(
                f"{route}: {key!r} is at home in {place}, not in {self._here} where it was forwarded to: the set of shards "
                "is changing",
                retry_after=RETRY_AFTER_S,
            )
        queue = self._dispatcher._queues.take((spec.type, key, FORWARD))
        arguments = (route, key, fields_of(message), deadline_ns is not None)
        action = MethodAction(queue, name, priority, _forward, arguments, deadline_ns)
        action.on_end = self._has_ended
        return action

    def _has_ended(self, action: Action) -> None:
        if action.error is not None and action.peer is None:
            self._dispatcher._report(action, action.error)
        self._dispatcher._ended(action)

    # -- steps --------------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> str:
        return self._dispatcher._host.backplane

    def _route(self, spec: MessageSpec) -> str:
        return f"{self._dispatcher.component_name}.{spec.name}"

    def _key(self, spec: MessageSpec, message: Message) -> str:
        assert spec.key is not None
        key = key_text(getattr(message, spec.key))
        if key is None:
            raise InvalidArgument(
                f"{self._route(spec)}: {spec.key} is None: in a sharded dispatcher it selects the message's shard"
            )
        return key

    def _home(self, route: str, key: str) -> str:
        host = self._dispatcher._host
        places = host.platform.places(route)
        if not places:
            return host.backplane  # no other shard is known yet
        if places != self._places:
            self._places = places
            self._let_go(places)
        return home(places, key)

    def _let_go(self, places: Sequence[str]) -> None:
        """Shards have come or gone: drop data whose home is elsewhere now; they would be outdated if their key returned."""
        here = self._here
        for protector in self._spread:
            count = protector._keep(lambda key: home(tuple(places), str(key)) == here)
            if count:
                log.warning(
                    "%s: %d %s released, at home in other shards now", self._dispatcher.name, count, protector.name
                )

    def _expect_here(self, route: str, name: str, key: Any) -> None:
        place = self._home(route, str(key))
        if place != self._here:
            raise FailedPrecondition(
                f"{name} {key!r} is at home in {place}, not in {self._here}: an accessor reaches what is in its own shard; "
                "send a message to it"
            )


async def _forward(queue: DeliveryQueue, route: str, key: str, fields: dict[str, Any], has_caller: bool) -> Any:
    """The call to another shard, as an operation of the queue."""
    # A message with a caller keeps that caller's deadline; all others wait as long as any call.
    timeout = TIMEOUT_MAX_S if has_caller else TIMEOUT_DEFAULT_S
    try:
        return await queue.request(route, fields, key=key, timeout=timeout)
    except BackplaneError as error:
        # A new error: one received by an operation's own call would be reported as its own fault (actions/failures.py).
        raise error_from(int(error.status), error.message, error.retry_after, error.trace) from None


def check(entry: HandlerEntry) -> None:
    """Check that a handler's data can be in the shard of its message. Raises `RegistrationError`."""
    if entry.spec.internal and entry.spec.key is not None:
        raise RegistrationError(
            f"{entry.name}: {entry.spec.type.__name__} is internal and has a key: it finds its shard by its route, "
            "and has none; leave one of them out"
        )
    for parameter in entry.parameters:
        where = f"{entry.name}: parameter {parameter.name!r}"
        protector = parameter.protector
        if protector is None or protector.per_shard:
            continue
        if isinstance(protector, DataProtector):
            raise RegistrationError(
                f"{where}: each shard would have a {protector.name} of its own: say that this is meant, "
                "DataProtector(…, per_shard=True), or spread it by key with a SelectiveProtector"
            )
        assert isinstance(protector, SelectiveProtector)
        _check_spread(where, parameter, protector, entry.spec)


def _check_spread(
    where: str, parameter: HandlerParameter, protector: SelectiveProtector[Any, Any], spec: MessageSpec
) -> None:
    message, name = spec.type.__name__, protector.name
    if spec.key is None:
        raise RegistrationError(
            f"{where}: {message} has no key, which would say in which shard its {name} is: declare @message(key=…), "
            "or SelectiveProtector(…, per_shard=True)"
        )
    if not protector._has_factory:
        raise RegistrationError(
            f"{where}: all data of {name} would be in every shard: give SelectiveProtector a function that makes one of its "
            "key (and raises NotFound where there is none), or per_shard=True"
        )
    if isinstance(parameter.argument, SelectiveAccessorOf):
        return
    by = parameter.argument.by if isinstance(parameter.argument, Choice) else protector._field
    is_function = protector._has_function if by is None else not isinstance(by, str)
    if is_function or by not in (None, spec.key):
        by_what = "a function" if is_function else repr(by)
        raise RegistrationError(
            f"{where}: {name} is chosen by {by_what}, but a {message} goes to the shard of its key, {spec.key!r}: "
            f"choose by that, or reach it by messages of its own"
        )
