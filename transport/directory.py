"""Directory: the routing table: backplanes by route, subscribed backplanes by topic, and the address of each backplane.

The supervisor builds it from the registrations and pushes every new version to backplanes and clients. Each of them resolves
routes locally, so a call needs no third party. A restarted backplane has a new generation and with it a new socket path:
nothing meant for the dead one can reach the new one (TRAPS 5). Plain data, the same on the wire.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

#: From this priority on, work may wait behind other such work: it is less urgent than an operation that declares no priority
#: (runtime/objects/operation.py). Between nodes it has a line of its own.
BULK_FROM = 5
#: Longest word for which a similar one is sought: nobody mistypes a longer one, and the search takes time with its length.
LIKENESS_MAX = 200


class OperationEntry(msgspec.Struct, frozen=True):
    """One operation as its component declared it."""

    route: str
    priority: int
    #: As a person would write it: "(text: str, limit: int = 20) -> list[dict]".
    signature: str
    states: tuple[str, ...]
    summary: str = ""
    reentrant: bool = False
    #: Routes it declares to call; `check` looks for cycles among these.
    calls: tuple[str, ...] = ()
    #: Whether a repetition is harmless, so that callers may retry.
    idempotent: bool = False
    #: Whether other nodes may call it.
    export: bool = False


class ComponentEntry(msgspec.Struct, frozen=True):
    """One component: a module of the system state machine."""

    name: str
    depends_on: tuple[str, ...] = ()
    operations: tuple[OperationEntry, ...] = ()
    #: Topics its objects subscribe to.
    topics: tuple[str, ...] = ()
    objects_count: int = 0
    #: "system": it moves when all its dependencies allow; "backplane": it waits only for those in its own backplane.
    driven_by: str = "system"
    #: Topics that cross nodes: other nodes may receive its messages on them, and it may receive theirs.
    exported_topics: tuple[str, ...] = ()


class Registration(msgspec.Struct, frozen=True):
    """Report of a backplane to the supervisor once its components are constructed (law 12)."""

    backplane: str
    generation: int
    pid: int
    #: Path of the socket it listens on.
    path: str
    components: tuple[ComponentEntry, ...]
    #: Its slot on the shared-memory board; -1: none.
    slot: int = -1
    #: Whether callers keep calls until it has room for them (`balance = "pull"`).
    is_pulled: bool = False


class Place(msgspec.Struct, frozen=True):
    """One generation of a backplane, and its address. `is_up` turns False as soon as its death is seen."""

    generation: int
    path: str
    is_up: bool = True
    #: For boosting it (execution/urgency/os_priority.py): its process id, which is also that of its process group, and the
    #: folder of its own cgroup, if it has one.
    pid: int = 0
    cgroup: str | None = None
    #: Its slot on the shared-memory board.
    slot: int = -1
    #: It is up, and finishes its accepted work. Callers with a choice go elsewhere, and others wait if they can.
    is_draining: bool = False
    #: Its components are in their target states, and it is not about to stop. Callers with a choice prefer it.
    is_ready: bool = True
    #: It ended after a complete drain: all calls that it had accepted were done or refused, and answered.
    has_finished: bool = False
    #: Callers keep calls until it has room for them (pulling.py).
    is_pulled: bool = False


class Directory(msgspec.Struct, frozen=True):
    """One version of the routing table of the whole system."""

    system: str
    version: int = 0
    backplanes: dict[str, Place] = {}
    #: Route to the names of the backplanes that serve it.
    routes: dict[str, tuple[str, ...]] = {}
    #: Topic to the names of the backplanes that subscribe to it.
    topics: dict[str, tuple[str, ...]] = {}
    #: Routes that may be called again if the work may have been done: all backplanes that serve them declare so.
    idempotent: tuple[str, ...] = ()
    #: Routes that other nodes may call: all backplanes that serve them declare so.
    exported: tuple[str, ...] = ()
    #: Exported routes whose work may wait (`BULK_FROM`), as all backplanes that serve them declare.
    bulk: tuple[str, ...] = ()
    #: Of routes whose backplanes grant credit: the priority of a call that names none, the most urgent that one declares.
    priorities: dict[str, int] = {}
    #: Topics that cross nodes; messages on them go to `node`, too.
    exported_topics: tuple[str, ...] = ()
    #: The backplane that carries calls to other nodes; "": this system knows no others.
    node: str = ""
    #: The name of this node among the others; "": this system knows no others.
    node_name: str = ""
    #: Backplanes of this system that have never registered: their routes are not known yet, so `routes` is incomplete.
    missing: tuple[str, ...] = ()

    @property
    def home(self) -> str:
        """The name of this system in addresses (address.py): that of the node that it is, else its own."""
        return self.node_name or self.system

    def newly_draining(self, before: "Directory | None") -> list[str]:
        """Backplanes that are draining and were not in the version `before`."""
        known = {} if before is None else before.backplanes
        return [
            name
            for name, place in self.backplanes.items()
            if place.is_draining
            and ((was := known.get(name)) is None or place.generation != was.generation or not was.is_draining)
        ]

    @property
    def wanted_topics(self) -> tuple[str, ...]:
        """Topics that cross nodes and have subscribers in this system."""
        return tuple(
            topic for topic in self.exported_topics if any(name != self.node for name in self.topics.get(topic, ()))
        )

    @property
    def unready(self) -> frozenset[str]:
        """Backplanes that should not be called if another can be."""
        return frozenset(name for name, place in self.backplanes.items() if not place.is_ready)

    @classmethod
    def from_body(cls, body: Any) -> "Directory":
        """From the body of an envelope. Raises `msgspec.ValidationError`."""
        return msgspec.convert(body, cls)

    def to_body(self) -> dict[str, Any]:
        """As the body of an envelope."""
        body: dict[str, Any] = msgspec.to_builtins(self)
        return body

    def nearest(self, route: str) -> str | None:
        """The known route most like `route`, for an error message."""
        return nearest(route, self.routes)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one; None: none is close, or it is longer than LIKENESS_MAX."""
    if len(word) > LIKENESS_MAX:
        return None
    close = difflib.get_close_matches(word, known, n=1)
    return close[0] if close else None


def build(
    system: str,
    version: int,
    registrations: list[Registration],
    down: set[str],
    cgroups: Mapping[str, str | None] | None = None,
    draining: Collection[str] = (),
    unready: Collection[str] = (),
    node: str = "",
    missing: Collection[str] = (),
    finished: Collection[str] = (),
    node_name: str = "",
) -> Directory:
    """The routing table of all registered backplanes; those in `down` keep their routes but cannot be reached. `cgroups`:
    folders of those with a cgroup of their own. `draining`: up, but accept nothing new. `unready`: not to be called if
    another can be. `node`: carries calls to other nodes. `missing`: never registered. `finished`: in `down` after a drain.
    `node_name`: of this node among the others.
    """
    folders = cgroups or {}
    routes: dict[str, list[str]] = {}
    topics: dict[str, list[str]] = {}
    once_only: set[str] = set()
    kept: set[str] = set()
    urgent: set[str] = set()
    priorities: dict[str, int] = {}
    exported_topics: dict[str, None] = {}
    for registration in registrations:
        name = registration.backplane
        for component in registration.components:
            for operation in component.operations:
                routes.setdefault(operation.route, []).append(name)
                if not operation.idempotent:
                    once_only.add(operation.route)
                if not operation.export:
                    kept.add(operation.route)
                if operation.priority < BULK_FROM:
                    urgent.add(operation.route)
                if registration.is_pulled:
                    known = priorities.get(operation.route, operation.priority)
                    priorities[operation.route] = min(known, operation.priority)
            exported_topics |= dict.fromkeys(component.exported_topics)
            for topic in component.topics:
                if name not in topics.setdefault(topic, []):
                    topics[topic].append(name)
    if node:
        for topic in exported_topics:
            if node not in topics.setdefault(topic, []):
                topics[topic].append(node)
    return Directory(
        system=system,
        version=version,
        backplanes={
            r.backplane: Place(
                generation=r.generation,
                path=r.path,
                is_up=r.backplane not in down,
                pid=r.pid,
                cgroup=folders.get(r.backplane),
                slot=r.slot,
                is_draining=r.backplane in draining,
                is_ready=r.backplane not in unready,
                has_finished=r.backplane in finished,
                is_pulled=r.is_pulled,
            )
            for r in registrations
        },
        routes={route: tuple(names) for route, names in routes.items()},
        topics={topic: tuple(names) for topic, names in topics.items()},
        idempotent=tuple(route for route in routes if route not in once_only),
        exported=tuple(route for route in routes if route not in kept),
        bulk=tuple(route for route in routes if route not in kept and route not in urgent),
        priorities=priorities,
        exported_topics=tuple(exported_topics),
        node=node,
        node_name=node_name,
        missing=tuple(missing),
    )
