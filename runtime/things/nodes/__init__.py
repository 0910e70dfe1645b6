"""Things of other nodes: one node exposes its things, and the gateway of another one consumes and serves them.

    ExposedThings  exposed_things.py  the component of the node on which the things live: lists, reports and calls them
    NewsFeed       news.py            the last notifications there, numbered, and the messages between the two nodes
    ConsumedNode   consumed_node.py   another node as a gateway sees it: its things, its permissions, and whether it is reached

The user of a request travels along with it, and is permitted or refused where the thing lives. Read exposed_things.py first.
"""

from .exposed_things import ExposedThings

__all__ = ["ExposedThings"]
