"""Purposes: what calls of a session's own are for, and what the end of each means to it (session.py)."""

from .hearing import Ask


class Own:
    """What a call of the session's own is for."""


class Fetch(Own):
    """For the directory, on behalf of `token`; None: of itself."""

    def __init__(self, token: object) -> None:
        self.token = token


class Asked(Own):
    """To be subscribed."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask


class Settling(Own):
    """For answers that matter only as such; `token`, if any, comes back with the last."""

    def __init__(self, token: object, remaining_count: int = 0) -> None:
        self.token = token
        self.remaining_count = remaining_count
