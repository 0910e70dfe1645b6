"""Pseudo peers: callees in a table of outstanding calls that are no process, such as the clock for which a pause waits.

A process that connects to a backplane chooses the identity under which its messages arrive. A constant could be chosen, too:
an answer from it would end a pause for ever, or give a call that waits for its retry a forged result. So each process draws
its pseudo peers at its start, and they never leave it.
"""

import os


def pseudo_peer(word: str) -> bytes:
    """A peer that no connection has. `word`: for people who debug."""
    return b"\x00" + word.encode() + os.urandom(16)
