"""Disowning: drops the requests of an owner that has ended, or has given them up, before it rejoined them all.

Nobody will ask for them any more. Requests not begun are withdrawn if the owner failed, its worker died, or it asked for that:
the work that they are part of has failed. Otherwise they are executed, and end unclaimed. Both are counted and logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .element import State
from .owners import Account

if TYPE_CHECKING:
    from .ledger import Ledger


def disown(ledger: Ledger, account: Account, because: str, now_ns: int, *, is_all: bool = True) -> int:
    """Returns how many requests were withdrawn. `because`: the reason to withdraw unbegun requests; "": they still run.

    `is_all`: False withdraws none that were posted with `rejoin=False`.
    Commonly no request is ready, and the pool, which may be large, need not be searched.
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
    """How many of the owner's requests wait for room, or are with a worker."""
    taken = sum(element.account is account for held in ledger.workers.values() for element in held.elements)
    return taken + sum(element.account is account for element in ledger.posters)
