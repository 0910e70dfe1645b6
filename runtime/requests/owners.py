"""Owners: which requests there are of each owner, so that "no more exist" is the truth at the moment it is said.

The source searches three pools and, should it find nothing, has its dispatcher thread search them again, because a request
may be between two of them (seed 001, section 5.4.3). Here a request is counted from before it is admitted until it is handed
over, in one step under the kernel's mutex with each change of its state: what the count says is authoritative, and costs
nothing to ask. An owner is whatever can be a key of a dictionary; of a request's own sub-requests it is that request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Any

from appbackplane.transport.errors import text_of

from .element import Element


class Rejoin(Enum):
    """What there is for an owner (seed 001, section 5.4: RJR_RETURNED, RJR_NONE_READY, RJR_NONE_EXIST)."""

    RETURNED = "returned"
    NONE_READY = "none ready"
    NONE_EXIST = "none exist"


class Part:
    """An owner of its own for what one `map_unordered` posts. It ends with that, or with the request that it is of.

    Also the owner of what an operation posts without naming one; it ends with the operation.
    """

    __slots__ = ("is_over", "name", "number", "whose")

    def __init__(self, whose: Element | None, number: int, name: str = "") -> None:
        """`whose`: the request whose execution it is; None: somebody's outside. `number`: its own of that.

        `name`: of the operation whose requests these are; "": they are those of a `map_unordered` or a `run`.
        """
        self.whose, self.number, self.name = whose, number, name
        #: Nobody asks for what is of it any more.
        self.is_over = False

    def __repr__(self) -> str:
        if self.name:
            return f"operation {self.name}"
        return f"part {self.number} of {'what was posted from outside' if self.whose is None else repr(self.whose)}"


def named(owner: Hashable) -> str:
    """For messages: bounded, whatever its class makes of itself."""
    try:
        said = repr(owner)
    except Exception:  # it is somebody's own
        said = f"a {type(owner).__name__}"
    return text_of(said, 100)


class Account:
    """The requests of one owner."""

    __slots__ = ("done", "dropped_to", "existing_count", "owner", "patient", "posted_count", "waiters")

    def __init__(self, owner: Hashable) -> None:
        self.owner = owner
        #: Posted, ready or executing.
        self.existing_count = 0
        #: Ever; and how many of the first of these nobody asks for any more.
        self.posted_count = self.dropped_to = 0
        #: In the rejoin pool, in the order in which they ended.
        self.done: deque[Element] = deque()
        #: Who waits for one to end, of whatever kind the kernel's waiters are.
        self.waiters: deque[Any] = deque()
        #: Which of them would rather find more, a little later, than be told of the first.
        self.patient: Any = None

    def wants(self, element: Element) -> bool:  # hot: scripts/bench requests
        """Whether one of its requests comes back to its owner when it has ended."""
        return element.is_rejoined and element.turn > self.dropped_to


class Owners:
    """All accounts; one that has nothing is not kept."""

    __slots__ = ("_accounts",)

    def __init__(self) -> None:
        self._accounts: dict[Hashable, Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def __iter__(self) -> Iterator[Account]:
        return iter(list(self._accounts.values()))

    def get(self, owner: Hashable) -> Account | None:
        """Its account; None: there is nothing of it."""
        return self._accounts.get(owner)

    def posts(self, element: Element) -> Account:  # hot: scripts/bench requests
        """One more request of its owner exists."""
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
        """It is asked no more, if nothing of it exists."""
        if not account.existing_count and not account.done:
            self._accounts.pop(account.owner, None)

    def largest(self) -> Account | None:
        """The one with most requests in the rejoin pool, for who has to say whose fault it is that it is full."""
        return max(self._accounts.values(), key=lambda account: len(account.done), default=None)
