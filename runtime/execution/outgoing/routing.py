"""Routing: which backplane serves a call, and by which peer of the link it is reached.

Routes are resolved in the caller, by the routing table that the supervisor pushes; a call needs no third party.
"""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport import addressing
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.connections import Connections, LinkPort
from appbackplane.transport.directory import Directory, Place, nearest
from appbackplane.transport.errors import Unavailable, UnknownRoute
from appbackplane.transport.pulling import Pulling
from appbackplane.transport.resolver import RETRY_AFTER_S, Resolver

from ...objects.action import LOCAL
from ...objects.registry import Registry


class Routing:
    """The routing table of one backplane, and its connections to the others. Used under the lead."""

    def __init__(self, backplane: str, registry: Registry, link: LinkPort, system: str = "") -> None:
        self._backplane = backplane
        self._registry = registry
        #: The newest routing table. Readable without the lead: it is immutable.
        self.directory = Directory(system=system)
        self._resolver = Resolver(self.directory)
        #: Routes that begin with it name this very system, as those of addresses do.
        self._own = f"{system}{addressing.OF_NODE}"
        #: The backplanes of this system that are up, by their processes.
        self.by_pid: dict[int, str] = {}
        self.connections = Connections(link)
        #: None: no backplane grants credit.
        self.pulling: Pulling | None = None

    def adopt(self, directory: Directory) -> None:
        """Route by this table from now on."""
        self.directory, self._resolver = directory, Resolver(directory)
        self._own = f"{directory.home}{addressing.OF_NODE}"
        self.by_pid = {place.pid: name for name, place in directory.backplanes.items() if place.is_up and place.pid}
        self.connections.note(directory)
        if self.pulling is None and any(place.is_pulled for place in directory.backplanes.values()):
            self.pulling = Pulling(self.peer_up)
        if self.pulling is not None:
            self.pulling.adopt(self._resolver)

    def peer_of(self, backplane: str) -> bytes | None:
        """The peer of a backplane, connected if necessary; None while it is down."""
        place = self.directory.backplanes.get(backplane)
        if place is None or not place.is_up:
            return None
        return self.connections.peer(backplane) or self.connections.connect(backplane, place)

    def peer_up(self, backplane: str) -> bytes:
        """As `peer_of`. Raises `Unavailable` while it is down."""
        peer = self.peer_of(backplane)
        if peer is None:
            raise Unavailable(f"backplane {backplane} is down", retry_after=RETRY_AFTER_S)
        return peer

    def is_draining(self, backplane: str) -> bool:
        """Whether a backplane is draining: it finishes its accepted work, and accepts nothing new."""
        place = self.directory.backplanes.get(backplane)
        return place is not None and place.is_draining

    def place_of(self, peer: bytes) -> Place | None:
        """The instance behind a connected peer; None: it is no backplane, unknown, or has ended."""
        name = self.backplane_of(peer)
        return self.directory.backplanes.get(name) if name and self.connections.peer(name) == peer else None

    def backplane_of(self, peer: bytes) -> str | None:
        """The name of a peer's backplane; None for the clock, and for a peer that is no backplane."""
        if peer is LOCAL:
            return self._backplane
        return self.connections.place_name(peer)

    def is_idempotent(self, route: str) -> bool:
        """Whether calls of a route may be repeated."""
        return self._resolver.is_idempotent(route)

    def is_pulled(self, spec: CallSpec) -> bool:
        """As `Resolver.is_pulled`."""
        return self.pulling is not None and self._resolver.is_pulled(spec)

    def nearest(self, name: str) -> str | None:
        """The known route most like `name`, for an error message."""
        return nearest(name, self._registry.routes) or self.directory.nearest(name)

    def resolve(self, spec: CallSpec, chain: Sequence[Sequence[str]] = ()) -> str | None:
        """The backplane that is to serve a call; None: this one. `chain`: the calls that wait for its caller.

        Of several backplanes that serve a call without an object's key, the same idempotency key always selects the same one.
        Raises `UnknownRoute`, `Unavailable`.
        """
        route, key = spec.route, spec.key
        here = self._registry.routes.get(route)
        if here is None and route.startswith(self._own):
            spec.route = route = route.removeprefix(self._own)
            here = self._registry.routes.get(route)
        if here is not None and (
            (key is None and spec.idempotency_key is None)
            or (key is not None and self._registry.by_key(here.component.component_name, key) is not None)
        ):
            return None
        try:
            place = self._resolver.resolve(route, spec.routing_key())
        except UnknownRoute:
            if addressing.OF_NODE in route:
                raise
            if here is None:
                raise UnknownRoute(route, self.nearest(route)) from None
            return None  # the routing table does not hold our own routes yet
        except Unavailable:
            if here is not None and route not in self.directory.routes:
                return None  # as above, while others have yet to register
            if (
                not self._is_finishing(chain)
                or (draining := self._resolver.draining(route, spec.routing_key())) is None
            ):
                raise
            place = draining
        return None if place == self._backplane else place

    def _is_finishing(self, chain: Sequence[Sequence[str]]) -> bool:
        """Whether the call belongs to work of a draining backplane: this one, or one that waits for us."""
        if self.is_draining(self._backplane):
            return True
        for waiting, route in chain:
            if self.is_draining(waiting.partition("/")[0]):  # "backplane/object": its work may have no route of its own
                return True
            for name in self.directory.routes.get(route, ()):
                if self.is_draining(name):
                    return True
        return False
