"""Sources: the caller of a request: a client of this host, an object of a backplane, or a key of another node.

Seed 002: "Based on the source of the request you could assign the work a specific priority or drop it". A source is a string:

* `client:NAME/PID`: a process of this host that has connected as a client. The kernel vouches for its pid.
* `BACKPLANE/COMPONENT.KEY`: the object that calls, or `BACKPLANE` where no object is known (a message of a topic).
* `node:NAME/FINGERPRINT`: another node, and its key; said by this node's endpoint, which has checked the key.

Only processes of backplanes may say on whose behalf they call; the supervisor's directory lists their pids, and the kernel
tells the pid behind a connection. What a client says of its source is not looked at.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from ...objects.action import LOCAL
from ...process_config import ProcessConfig
from ..outgoing.routing import Routing
from ..workers.clock import Clock

#: What the configuration gives a source: a priority, or "refuse".
SourceRule = int | Literal["refuse"]
#: Sources whose rule is remembered. A client has a source of its own, so there may be any number in time.
_RULES_MAX: Final = 4_096


def share_of(peer: bytes, source: str) -> bytes:
    """The caller whose share of a component's places a request takes (scheduling/throttle.py): its peer, but of requests from
    other hosts, which all come over one link, the key.
    """
    return source.encode() if source.startswith("node:") else peer


class AccessPort(Protocol):
    """Refuses callers without a permission (permissions/access_control.py)."""

    def check(
        self, component: str, key: str | None, object: Any, access: Sequence[tuple[str, str]], source: str,
        principal: str | None,
    ) -> int | None: ...  # fmt: skip
    def caller_of(self, source: str, principal: str | None) -> str | None: ...
    def check_topic(self, topic: str, source: str, principal: str | None) -> None: ...
    def permits(self, principal: str, id: str, types: tuple[str, ...], kind: str = "", name: str = "") -> bool: ...


def access_of(config: ProcessConfig, clock: Clock) -> AccessPort | None:
    """The access control of a backplane; None: every caller may use all things."""
    if config.permissions is None:
        return None
    from ...permissions.access_control import access_control_of  # only where there are permissions

    return access_control_of(config.permissions, lambda: (clock.now_ns() + clock.unix_offset_ns()) / 1e9)


class Sources:
    """The process behind each peer that has sent something. Used under the lead."""

    def __init__(self, backplane: str, routing: Routing, rules: Mapping[str, SourceRule]) -> None:
        """`rules`: by pattern, in which `*` stands for any text; the first that fits a source holds for it."""
        self._backplane = backplane
        self._routing = routing
        self._processes: dict[bytes, int] = {}
        #: What clients are called, so that a call costs one look.
        self._clients: dict[bytes, str] = {}
        self.rules = rules
        self._known_rules: dict[str, SourceRule | None] = {}

    def note(self, peer: bytes, pid: int) -> None:
        """A peer has sent its first frame; `pid`: its process, by the kernel."""
        self._processes[peer] = pid

    def forget(self, peer: bytes) -> None:
        self._processes.pop(peer, None)
        self._clients.pop(peer, None)

    def refresh(self) -> None:
        """There is a new routing table: whoever was taken for a client may be a backplane that has just registered."""
        self._clients.clear()

    def keep(self, peers: Container[bytes]) -> None:
        for peer in [peer for peer in self._processes if peer not in peers]:
            self.forget(peer)

    def of(self, peer: bytes, chain: Sequence[Sequence[str]] | None, said: str | None) -> str:  # hot: call_pipelined
        """The source of a request. `chain`: the objects that wait for it, outermost first. `said`: by whoever sent it."""
        client = self._clients.get(peer)
        if client is not None:
            return client
        backplane = self._backplane if peer is LOCAL else self._backplane_of(peer)
        if backplane is None:
            name = peer.partition(b"/")[0].decode(errors="replace")
            client = self._clients[peer] = f"client:{name}/{self._processes.get(peer, 0)}"
            return client
        if said is not None:
            return said
        return chain[-1][0] if chain else backplane

    def rule_of(self, source: str) -> SourceRule | None:
        """The priority that the configuration gives the requests of a source, or "refuse"; None: it says nothing of it."""
        if source not in self._known_rules:
            from fnmatch import fnmatchcase  # only where there are rules: a process starts without it

            if len(self._known_rules) >= _RULES_MAX:
                self._known_rules.clear()
            fits = (rule for pattern, rule in self.rules.items() if fnmatchcase(source, pattern))
            self._known_rules[source] = next(fits, None)
        return self._known_rules[source]

    def may_say(self, peer: bytes) -> bool:
        """Whether a peer may say on whose behalf it calls: it is a backplane of this system."""
        return peer is LOCAL or self._backplane_of(peer) is not None

    def _backplane_of(self, peer: bytes) -> str | None:
        pid = self._processes.get(peer, 0)
        return self._routing.by_pid.get(pid) if pid else None
