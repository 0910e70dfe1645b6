"""Node: the component that makes a backplane the endpoint of its node. `[node]` in a system's TOML puts it there.

Calls of routes that this system does not serve come to its backplane (transport/resolver.py), whose admission passes them on
to the endpoint's thread unopened. A wrong file, key or address is reported in one sentence, before any message is sent.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Mapping, Set
from pathlib import Path

from appbackplane.transport import addressing
from appbackplane.transport.errors import InvalidArgument, NotFound, Unavailable
from appbackplane.transport.local_links import kind_at, local_link
from appbackplane.transport.peers.lines import Lines
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.view import Identity
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.session import ClientSession

from ..execution.services.watching import WatchEndpoint
from ..objects.component import Component
from ..objects.operation import operation
from .node_endpoint import NodeEndpoint
from .roster import PeerInWords

log = logging.getLogger("appbackplane.peers")

#: Time limit for leaving: a message to each peer, and a flush.
LEAVE_LIMIT_S = 2.0
#: Offers of a key that `[peers]` names, unless the ring states others: to name a node there means to call it.
OFFERS_OF_PEERS = Grant(("*",))


class Node(Component):
    """Carries all traffic between this system and other nodes."""

    driven_by = "backplane"

    def __init__(
        self, name: str, listen: str, peers: Mapping[str, str] | None = None, keys: str = "", advertise: str = ""
    ) -> None:
        """`name`: of this node. `listen`: an address. `peers`: the first addresses, each with the name of the key there.
        `keys`: the folder of this host's keys; "": the user's. `advertise`: by which others reach it; "": by `listen`.
        """
        self.node_name = name
        self._listen, self._advertise = listen, advertise
        self._peers = dict(peers or {})
        self._keyring = Keyring(Path(keys).expanduser() if keys else None)
        self._endpoint: NodeEndpoint | None = None
        self.expose(WatchEndpoint(self, lambda: self._host.node.monitors))

    def on_initializing(self) -> None:
        """Listen, and dial. Raises errors of the files or the addresses."""
        host, platform, keyring = self._host, self._platform, self._keyring
        keyring.refresh()
        lines = Lines(keyring, self._listen)
        own = str(keyring.own().public)
        me = Identity(self.node_name, platform.unix_ns(), self._advertise or lines.address, own)
        now_ns, unix_ns = host.now_ns(), platform.unix_ns
        membership = Membership(
            me, self._seeds, now_ns, random=random.random, unix_ns=unix_ns, is_allowed=self._is_named
        )
        node = PeerNode(membership, now_ns, self._offers, {name: address for address, name in self._peers.items()})
        # A new client with each start, or calls of the former one would be taken for those of this one.
        supervisor = addressing.supervisor_socket(Path(platform.run_dir))
        link = local_link(kind_at(supervisor), f"{host.backplane}-peers-{me.incarnation:x}")
        session = ClientSession(link, supervisor)
        self._endpoint = NodeEndpoint(
            node, lines, link, session, self._peers, now_ns=host.now_ns, deliver=host.node.send, look_for=host.node.look_for,
            patterns=host.node.client_patterns,
            believed=() if platform.permissions is None else platform.permissions.nodes,
        )  # fmt: skip
        host.node.take_foreign(self._endpoint.ask, self._endpoint.gone)
        self._endpoint.start()

    @operation(priority=0)
    def peers(self, routes: bool = False) -> list[PeerInWords]:
        """This node, its peers as it sees them, and clients; with `routes`, the routes that each offers."""
        if self._endpoint is None:
            raise Unavailable(f"node {self.node_name!r} has left", retry_after=1.0)
        now_ns, unix_ns = self._host.now_ns(), self._platform.unix_ns()
        return [row.in_words(now_ns, unix_ns, has_names=routes) for row in self._endpoint.roster.rows]

    def on_down(self) -> None:
        """Leave gracefully, within `LEAVE_LIMIT_S`."""
        if self._endpoint is not None:
            endpoint, self._endpoint = self._endpoint, None
            self._host.node.take_foreign(None)
            endpoint.stop(LEAVE_LIMIT_S)

    def _seeds(self) -> dict[str, str]:
        """The addresses in `[peers]`, each with the key that the ring has under its name now."""
        seeds = {}
        for address, name in self._peers.items():
            try:
                seeds[address] = str(self._keyring.ring.named(name).key)
            except NotFound as error:  # a revoked key must not keep the other addresses down
                log.warning("%s is not dialled: %s", address, error)
        return seeds

    def _is_named(self, key: str, name: str) -> bool:
        """Whether the ring has this key under this name: on all other nodes a node bears the name of its key."""
        try:
            one = self._keyring.ring.of_key(PublicKey.parse(key).raw)
        except InvalidArgument:  # reported by a peer about another
            return False
        return one is not None and one.name == name and not one.is_revoked

    def _offers(self, key: str, routes: Collection[str]) -> Set[str]:
        """Those of the routes that a key may offer: as the ring says, else all if `[peers]` names it, else none."""
        one = self._keyring.ring.of_key(PublicKey.parse(key).raw)
        if one is None or one.is_revoked:
            return frozenset()
        grant = one.offers
        if grant is None:
            if one.name not in self._peers.values():
                return frozenset()
            grant = OFFERS_OF_PEERS
        return frozenset(route for route in routes if grant.permits_all_of(route))
