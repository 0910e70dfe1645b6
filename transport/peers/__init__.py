"""Peers: how each node of a multi-host system sees the other nodes.

Decides which nodes exist and can be reached (membership), which routes each offers, and which messages follow. It reads no
clock and no keys; only lines.py and line.py know sockets. The owner (runtime/peers) hands in events with `now_ns`, and carries
out the effects. Read first: node.py (the whole, as its owner sees it), membership.py, peer.py (when a node is suspected and
given up), policy.py (the stated times), lines.py.
"""
