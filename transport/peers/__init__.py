"""Peers: the nodes of a system on several hosts, as each of them knows the others.

What is decided here: who is there and can be reached (membership), who offers which route (routes), and what is said for
that. It reads no clock and asks nobody who holds a key, and but for lines.py it knows no socket: the owner (runtime/peers)
hands in what happened, with `now_ns`, and carries out the effects. Read first: node.py (the whole, as the owner sees it),
membership.py, peer.py (the rules by which somebody is suspected and given up), policy.py (the stated times), lines.py.
"""
