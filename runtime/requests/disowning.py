"""Disowning: what becomes of requests whose owner has ended, or given them up, without having rejoined them all.

Nobody will ask for them any more. If their owner failed, its worker died, or it said so, those that have not begun never will:
the work that they are part of has failed. Else they are executed, and end as what nobody wanted back. Both are counted, and
the kernel says so.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from .element import Element, State
from .owners import Account

if TYPE_CHECKING:
    from .ledger import Ledger


def disown(ledger: Ledger, account: Account, because: str, now_ns: int) -> None:
    """`because`: why what has not begun of this owner never will; "": it will."""
    for element in account.done:
        ledger.rejoinable[element.lane] -= 1
        element.state = State.DONE
        ledger.unclaimed_total += 1
    account.done.clear()
    if not account.existing_count:  # commonly: the pool, which may be large, need not be searched
        ledger.tell_none_exist(account)
        return
    if because:
        for element in ledger.ready.remove_of(account):
            ledger.entries.remove(element.lane)
            element.state, element.error = State.FAILED, f"withdrawn: {because}"
            element.ended_ns = now_ns
            ledger.withdrawn_total += 1
            account.existing_count -= 1
    for held in ledger.workers.values():
        for element in held.elements:
            _drop(ledger, element, account)
    for element in itertools.chain(ledger.posters, ledger.ready):
        _drop(ledger, element, account)
    ledger.tell_none_exist(account)


def _drop(ledger: Ledger, element: Element, account: Account) -> None:
    if element.account is account and element.is_rejoined:
        element.is_rejoined = False
        ledger.unclaimed_total += 1
