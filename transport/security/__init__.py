"""Security: which keys may connect to this node over TCP, and what they may use. Only CURVE links cross hosts.

A node has one key pair, and a ring of the keys of others: each with a name, the routes and topics that it may use, and whether
it was revoked. Files that decide take text and facts (keys, grants, ring, admission, refusals, endless, addresses). The others
do: folder (private files), keyring (the present ring), links (the options of a socket), gatekeeper (answers ZeroMQ's question
whether a key may come in), doorstep (connections that show no key), headroom (descriptors kept from these) and roll
(connections, and how they are cut). Nothing here knows routes, nodes or a protocol: the owner of the sockets asks, and
refuses. Fails closed: without a gatekeeper, a readable ring or a name on a frame, nobody comes in. Read first: ring.py,
gatekeeper.py, roll.py; tests/transport/security/house.py puts them together.
"""
