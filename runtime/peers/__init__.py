"""Peers: the endpoint of a node. One backplane of a system carries all traffic between its processes and other nodes.

    Node          node.py           the component: reads its settings, keeps one thread
    NodeEndpoint  node_endpoint.py  that thread: sockets, membership, and a client's session into this system
    Outward       outward.py        calls of this system's processes to other nodes
    Inward        inward.py         calls of other nodes to this system
    Clients       clients.py        programs on other hosts that are clients here, and not nodes
    Topics        topics.py         messages of topics that cross nodes
    Hearers       hearers.py        topics to which clients on other hosts subscribe
    Answers       answers.py        replies to nodes, clients and local processes, so that every call ends
    Breaks        breaks.py         connections that have broken, and the peers to be notified
    PacedLog      paced_log.py      the log, with a limit a minute
    Roster        roster.py         nodes and clients, as `node.peers` shows them

Membership is decided in `appbackplane.transport.peers`; admission and grants in `appbackplane.transport.security`. Read first:
node_endpoint.py.
"""

from .node import Node

__all__ = ["Node"]
