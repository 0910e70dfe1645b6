"""Peers: the endpoint of a node. One backplane of a system carries what its backplanes and other nodes say to each other.

    Node       node.py       the component: reads its settings, keeps one thread
    Endpoint   endpoint.py   that thread: sockets, membership, and a client's session into this system
    Outward    outward.py    calls of this system's processes to other nodes
    Inward     inward.py     calls of other nodes to this system
    Clients    clients.py    programs on other hosts that are clients here, and no nodes
    Topics     topics.py     what is published here and there, as far as it crosses nodes
    Hearers    hearers.py    programs on other hosts that hear some of it
    Answers    answers.py    what goes back to those who asked, so that every call ends
    Breaks     breaks.py     lines that have broken, and who is to be told
    PacedLog   paced_log.py  what is said of all that in the log
    Roster     roster.py     what is told of nodes to those who look on

Who there is, and what is thought of him, is decided in `appbackplane.transport.peers`; who may come in, and what he may use, in
`appbackplane.transport.security`. Read first: endpoint.py.
"""

from .node import Node

__all__ = ["Node"]
