"""Remote: a client of a system on another host, connected to that system's node.

To such a client the node is the whole system: it sends a routing table in which it serves all routes that the client's key may
use (runtime/peers/clients.py). So a client works as on its own host (session.py), over another kind of link. It is no peer: it
takes no part in membership, is not dialled, and gets its replies on the connection on which it asked. Read first: greeting.py
(the first messages of both ends), then remote_link.py (the client's end), visitors.py (the node's end) and target.py
(`tcp://NAME@HOST:PORT`).
"""
