"""Owners: the requests of each owner, counted, so that "no more exist" is true at the moment it is said.

The source searches three pools. If it finds nothing, its dispatcher thread searches them again, because a request may be
between two of them (seed 001, section 5.4.3). Here a request is counted from before it is admitted until it is handed over.
Count and state change in one step, under the kernel's mutex. So the count is authoritative, and costs nothing to read. An
owner is any object that can be a key of a dictionary; by default a request owns its sub-requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Any

from appbackplane.transport.errors import text_of

from .element import Element


class Rejoin(Enum):
    """Answers to a rejoin (seed 001, section 5.4: RJR_RETURNED, RJR_NONE_READY, RJR_NONE_EXIST)."""

    RETURNED = "returned"
    NONE_READY = "none ready"
    NONE_EXIST = "none exist"


class ScopedOwner:
    """The owner of requests that one `map_unordered` or `run` posts. It ends with that call, or with the request that made it.

    Also the owner of requests that an operation posts without naming one; it ends with the operation.
    """

    __slots__ = ("is_over", "name", "number", "whose")

    def __init__(self, whose: Element | None, number: int, name: str = "") -> None:
        """`whose`: the request whose execution made it; None: made outside. `number`: its own among the parts of that request.

        `name`: of the operation; "": it belongs to a `map_unordered` or a `run`.
        """
        self.whose, self.number, self.name = whose, number, name
        #: Whether nobody will rejoin its requests any more.
        self.is_over = False

    def __repr__(self) -> str:
        if self.name:
            return f"operation {self.name}"
        return f"part {self.number} of {'requests posted from outside' if self.whose is None else repr(self.whose)}"


def named(owner: Hashable) -> str:
    """The owner as text for messages: bounded, even if its `repr` is long or raises."""
    try:
        said = repr(owner)
    except Exception:  # a `__repr__` of the user's
        said = f"a {type(owner).__name__}"
    return text_of(said, 100)


class Account:
    """The requests of one owner."""

    __slots__ = ("done", "dropped_to", "existing_count", "next_turn", "owner", "patient", "posted_count", "waiters")

    def __init__(self, owner: Hashable) -> None:
        self.owner = owner
        #: Requests that are posted, ready or executing.
        self.existing_count = 0
        #: Requests ever posted; the first `dropped_to` of them are no longer wanted.
        self.posted_count = self.dropped_to = 0
        #: The turn in which its next request leaves the ready pool, where owners take turns; a later one if it was idle.
        self.next_turn = 0
        #: Ended requests in the rejoin pool, in the order in which they ended.
        self.done: deque[Element] = deque()
        #: Waiters for a request to end; opaque to this module.
        self.waiters: deque[Any] = deque()
        #: The waiter that prefers more requests, a little later, to being notified of the first.
        self.patient: Any = None

    def wants(self, element: Element) -> bool:  # hot: scripts/bench requests
        """Whether this request of the owner rejoins it when it has ended."""
        return element.is_rejoined and element.turn > self.dropped_to


class Owners:
    """All accounts; an account without requests is not kept."""

    __slots__ = ("_accounts",)

    def __init__(self) -> None:
        self._accounts: dict[Hashable, Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def __iter__(self) -> Iterator[Account]:
        return iter(list(self._accounts.values()))

    def get(self, owner: Hashable) -> Account | None:
        """The owner's account; None: it has no requests."""
        return self._accounts.get(owner)

    def posts(self, element: Element) -> Account:  # hot: scripts/bench requests
        """Count one more request of its owner. Returns the owner's account."""
        owner = element.owner
        account = self._accounts.get(owner)
        if account is None:
            account = self._accounts[owner] = Account(owner)
        account.existing_count += 1
        account.posted_count += 1
        element.account = account
        element.turn = account.posted_count
        return account

    def close_if_empty(self, account: Account) -> None:
        """Drop the account if its owner has no requests."""
        if not account.existing_count and not account.done:
            self._accounts.pop(account.owner, None)

    def largest(self) -> Account | None:
        """The account with most requests in the rejoin pool: the one to name when that is full."""
        return max(self._accounts.values(), key=lambda account: len(account.done), default=None)
