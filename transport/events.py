"""Events: results of one turn of a session, for its owner. Made once a call, hence slots, and no tuples."""

from typing import Any, final

from .errors import BackplaneError
from .inbox import Message


@final
class Ended:
    """A request of the owner has ended; `token` is the owner's. Exactly one per call."""

    __slots__ = ("error", "result", "token")

    def __init__(self, token: Any, result: Any, error: BackplaneError | None) -> None:
        self.token = token
        self.result = result
        self.error = error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ended):
            return False
        return bool(self.token == other.token and self.result == other.result and self.error == other.error)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ended({self.token!r}, {self.result!r}, {self.error!r})"


@final
class Heard:
    """A message for a subscriber, and its approximate size on the wire, bytes."""

    __slots__ = ("message", "size", "subscriber")

    def __init__(self, subscriber: Any, message: Message, size: int = 0) -> None:
        self.subscriber = subscriber
        self.message = message
        self.size = size

    def __repr__(self) -> str:
        return f"Heard({self.subscriber!r}, {self.message!r}, {self.size})"


@final
class Streamed:
    """Items of a stream have come, the first with this `number`; `token` is the owner's. Never after its `Ended`.

    `is_blocked`: more come only after credit.
    """

    __slots__ = ("is_blocked", "items", "number", "token")

    def __init__(self, token: Any, items: list[Any], number: int, is_blocked: bool) -> None:
        self.token = token
        self.items = items
        self.number = number
        self.is_blocked = is_blocked

    def __repr__(self) -> str:
        return f"Streamed({self.token!r}, {self.items!r})"


@final
class Credited:
    """The callee of `token`'s call lets this many items of its streamed argument be sent in all. Never after its `Ended`."""

    __slots__ = ("credit", "token")

    def __init__(self, token: Any, credit: int) -> None:
        self.token = token
        self.credit = credit

    def __repr__(self) -> str:
        return f"Credited({self.token!r}, {self.credit})"


Events = list[Ended | Heard | Streamed | Credited]
