"""Remote: a client of a system on another host, by the door of that system's node.

To such a client the node is the whole system: it hands out a directory in which it serves all that the client's key may use
(runtime/peers/clients.py), so that everything a client does on its own host (session.py) it does here in the same way: only
its link is another one. It is no peer: it says nothing of itself, is not dialled, and has its answers by the line on which it
asked. Read first: greeting.py, what both ends say before anything else; then remote_link.py (the client's end), visitors.py
(the door's) and target.py (`tcp://NAME@HOST:PORT`).
"""
