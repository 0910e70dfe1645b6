"""Purposes: tokens of a session's own calls. Each tells the session how to handle the end of its call (session.py)."""

from .hearing import Ask


class Own:
    """Purpose of one of the session's own calls."""


class Fetch(Own):
    """Fetch of the routing table on behalf of `token`; None: of the session itself."""

    def __init__(self, token: object) -> None:
        self.token = token


class SubscribeCall(Own):
    """Request to one backplane to be subscribed."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask


class Settling(Own):
    """Calls of which only the end matters; `token`, if any, comes back with the last."""

    def __init__(self, token: object, remaining_count: int = 0) -> None:
        self.token = token
        self.remaining_count = remaining_count
