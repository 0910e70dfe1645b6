"""Security: who may speak to this node over TCP, and what it may use. What crosses hosts is CURVE, or it is not bound.

A node has one key pair, and a ring of the keys of others: each with a name, the routes and topics that it may use, and
whether it was revoked. Files that decide take text and facts (keys, grants, ring, admission, refusals, addresses); the others
do: folder (private files), keyring (the ring as it is now), links (the options of a socket, in one place), gatekeeper (answers
ZeroMQ's question whether a key may come in), doorstep (who showed none) and roll (who is connected, and is cut). Nothing here
knows routes, nodes or a protocol: whoever owns the sockets asks, and refuses. Fails closed: a gatekeeper that is not there,
a ring that cannot be read and a frame without a name let nobody in. Read first: ring.py,
gatekeeper.py, roll.py; tests/transport/security/house.py puts them together.
"""
