"""Resolver: which backplane serves a route, by one version of the routing table.

Several backplanes may serve one route. Without a key they take turns, ready ones before all others (each picks its least busy
object itself). With a key the choice is a stable hash over all that serve the route, up or not: a key names an object, and
its requests must not move whenever its own backplane restarts. A draining backplane accepts nothing new, but for the calls of
the work it finishes. Routes that nobody here serves go to the backplane that carries calls to other nodes, if there is one;
so does `b/index.stats`, which names a node. Pure, the same in clients and backplanes; a new table is a new resolver. A
resolution without a key costs two dictionary look-ups.
"""

import zlib

from . import addressing
from .addressing import AT
from .call_spec import CallSpec
from .directory import Directory
from .errors import Unavailable, UnknownRoute

#: Seconds until a caller may retry a backplane that is down: a process is back in 56 ms (TRAPS 21), imports take longer.
RETRY_AFTER_S = 0.25
_OWN = f"{addressing.BACKPLANE}."
#: Resolutions cached beside those of the table's own routes: only callers know how many routes elsewhere there are.
_OTHERS_MAX = 4_096
#: Backplanes named in a message, at most.
_NAMED_MAX = 5
_ALONE = "one with a / is of another node, and this system knows none: give it a table [node] in its TOML"


class Resolver:
    """Routes to backplanes, by one routing table."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._up: dict[str, tuple[str, ...]] = {}
        self._turns: dict[str, int] = {}
        #: By route: the backplanes that share its calls; empty: they take turns.
        self._shared: dict[str, tuple[str, ...]] = {}
        self._idempotent = frozenset(directory.idempotent)
        #: Routes that begin with it name this very system, as those of addresses do.
        self._own = f"{directory.home}{addressing.OF_NODE}"
        self._kept_max = len(directory.routes) + _OTHERS_MAX

    def resolve(self, route: str, key: str | None = None) -> str:  # hot: scripts/bench call_rtt
        """The name of the backplane to call. Raises `UnknownRoute`; or `Unavailable`, also if it may yet be registered."""
        up = self._up.get(route)
        if up is None:
            up = self.taking(self._serving(route), route)
            if len(self._up) >= self._kept_max:
                self._up.clear()
            self._up[route] = up
        if key is not None:
            return self._by_key(route, key)
        if len(up) == 1:
            return up[0]
        turn = self._turns[route] = self._turns.get(route, -1) + 1
        return up[turn % len(up)]

    def is_idempotent(self, route: str) -> bool:
        """Whether a repetition of the operation does no harm."""
        return route.removeprefix(self._own) in self._idempotent

    def draining(self, route: str, key: str | None = None) -> str | None:
        """The name of a draining backplane that serves the route, for calls of the work it finishes; None: there is none."""
        names = self._serving(route)
        if key is not None:
            names = (_place_of(names, key),)
        return next((name for name in names if self._is_up(name) and self.directory.backplanes[name].is_draining), None)

    def is_pulled(self, spec: CallSpec) -> bool:
        """Whether a call waits at its caller for room at a replica, so that none is refused for a queue there."""
        return spec.is_shared() and len(self.shared(spec.route)) > 0

    def shared(self, route: str) -> tuple[str, ...]:  # hot: scripts/bench uneven
        """The replicas that share the calls of a route (`balance = "pull"`), up or not; empty: they take turns."""
        shared = self._shared.get(route)
        if shared is None:
            names = self.directory.routes.get(route, ())
            shared = names if all(self.directory.backplanes[name].is_pulled for name in names) else ()
            if names:  # callers may ask for any name
                self._shared[route] = shared
        return shared

    def taking(self, names: tuple[str, ...], route: str) -> tuple[str, ...]:
        """Those of `names` that take new calls of a route; ready ones if there are any. Raises `Unavailable` for none."""
        up = tuple(name for name in names if self._takes(name, route))
        if not up:
            raise self._unavailable(repr(route), names)
        return tuple(name for name in up if self.directory.backplanes[name].is_ready) or up

    def _by_key(self, route: str, key: str) -> str:
        names = self._serving(route)
        name = _place_of(names, key)
        if not self._takes(name, route):
            raise self._unavailable(f"{route!r}, key {key!r}", (name,))
        return name

    def _unavailable(self, what: str, names: tuple[str, ...]) -> Unavailable:
        why = "finishes what it has, and goes down" if any(map(self._is_up, names)) else "down now"
        return Unavailable(f"{what} is served by {', '.join(names)}: {why}", retry_after=RETRY_AFTER_S)

    def _serving(self, route: str) -> tuple[str, ...]:
        names = self.directory.routes.get(route, ())
        if not names and route.startswith(self._own):
            route = route.removeprefix(self._own)
            names = self.directory.routes.get(route, ())
        word, _, rest = route.partition(".")
        if word == addressing.BACKPLANE:  # every backplane serves its own operations, without declaring them
            name = rest.rpartition(".")[0]
            names = (name,) if name in self.directory.backplanes else ()
            if name in self.directory.missing:
                raise not_registered(route, (name,))
        return names or self._elsewhere(route, word)

    def _elsewhere(self, route: str, word: str) -> tuple[str, ...]:
        """The backplane that carries calls to other nodes, which decides where a key is at home. For an unknown route of the
        system's own operations (`RESERVED`) only if it names that node.
        """
        if word not in addressing.RESERVED and self.directory.node:
            return (self.directory.node,)
        if addressing.OF_NODE in route:
            raise UnknownRoute(route, because=_ALONE)
        if word not in addressing.RESERVED and self.directory.missing:
            raise not_registered(route, self.directory.missing)
        raise UnknownRoute(route, self.directory.nearest(route))

    def _is_up(self, name: str) -> bool:
        place = self.directory.backplanes.get(name)
        return place is not None and place.is_up

    def _takes(self, name: str, route: str) -> bool:
        """Whether a backplane accepts new calls. It serves its own operations to the end."""
        return self._is_up(name) and (not self.directory.backplanes[name].is_draining or route.startswith(_OWN))


def not_registered(route: str, missing: tuple[str, ...]) -> Unavailable:
    """The error for a route that nobody serves yet, while these backplanes have never registered."""
    named = ", ".join(missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
    return Unavailable(f"{route!r} is not known yet: {named} still to register", retry_after=RETRY_AFTER_S)


def home(names: tuple[str, ...], key: str) -> str:
    """The backplane of `names` that holds `key`: the same for every caller, whether it is up or not."""
    # Rendezvous hashing: the highest hash of a pair wins, so only the keys that a new backplane takes over move. (The codec
    # refuses a key that is not UTF-8.)
    return max(names, key=lambda name: (zlib.crc32(f"{name}\0{key}".encode(errors="surrogatepass")), name))


def _place_of(names: tuple[str, ...], key: str) -> str:
    """The backplane that `key` names, or its home."""
    named = key[1:].partition(":")[0] if key.startswith(AT) else ""
    return named if named in names else home(names, key)
