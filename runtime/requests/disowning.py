"""Disowning: what becomes of requests whose owner has ended, or given them up, without having rejoined them all.

Nobody will ask for them any more. If their owner failed, its worker died, or it said so, those that have not begun never will:
the work that they are part of has failed. Else they are executed, and end as what nobody wanted back. Both are counted, and
the kernel says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .element import State
from .owners import Account

if TYPE_CHECKING:
    from .ledger import Ledger


def disown(ledger: Ledger, account: Account, because: str, now_ns: int, *, is_all: bool = True) -> int:
    """How many requests were withdrawn. `because`: why what has not begun of this owner never will; "": it will.

    `is_all`: False lets those begin all the same that were posted with `rejoin=False`.
    Commonly nothing of it is ready, and the pool, which may be large, need not be searched.
    """
    withdrawn_count = 0
    for element in account.done:
        ledger.rejoinable[element.lane] -= 1
        element.state = State.DONE
        ledger.unclaimed_total += 1
        if element.error is not None:
            ledger.goes_unheard(element)
    account.done.clear()
    account.dropped_to = account.posted_count
    if because and account.existing_count > _not_ready(ledger, account):
        for element in ledger.ready.remove_of(account, is_all=is_all):
            ledger.entries.remove(element.lane)
            element.state, element.error = State.FAILED, f"withdrawn: {because}"
            element.ended_ns = now_ns
            ledger.withdrawn_total += 1
            account.existing_count -= 1
            withdrawn_count += 1
    ledger.tell_none_exist(account)
    return withdrawn_count


def _not_ready(ledger: Ledger, account: Account) -> int:
    """How many of its requests wait for room, or are with a worker."""
    taken = sum(element.account is account for held in ledger.workers.values() for element in held.elements)
    return taken + sum(element.account is account for element in ledger.posters)
