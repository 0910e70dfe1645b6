"""Web: the gateway, which serves the things of a system over HTTP (W3C WoT TD 1.1 with HTTP forms).

A component in a backplane of its own, so that slow browsers and JSON hold nothing else up. It runs a server of aiohttp (extra
`web`) in one thread, which is a client of the system. Read `gateway.py` first; `forms.py`, `problems.py` and `cache.py` do
no I/O. `openid.py` signs users in at a provider; the files that it names decide, without I/O.
"""

__all__ = ["Gateway"]

from .gateway import Gateway
