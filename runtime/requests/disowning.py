"""Disowning: what becomes of requests whose owner has ended, or given them up, without having rejoined them all.

Nobody will ask for them any more. If their owner failed, its worker died, or it said so, those that have not begun never will:
the work that they are part of has failed. Else they are executed, and end as what nobody wanted back. Both are counted, and
the kernel says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import TYPE_CHECKING

from .element import Element, State
from .owners import Account

if TYPE_CHECKING:
    from .ledger import Ledger


def disown(ledger: Ledger, account: Account, because: str, now_ns: int) -> None:
    """`because`: why what has not begun of this owner never will; "": it will."""
    owner = account.owner
    for element in account.done:
        ledger.rejoinable[element.lane] -= 1
        element.state = State.DONE
        ledger.unclaimed_total += 1
    account.done.clear()
    if because:
        for element in [each for each in ledger.ready if each.owner == owner]:
            ledger.ready.remove(element)
            ledger.entries.remove(element.lane)
            element.state, element.error = State.FAILED, f"withdrawn: {because}"
            element.ended_ns = now_ns
            ledger.withdrawn_total += 1
            account.existing_count -= 1
    for held in ledger.workers.values():
        for element in held.elements:
            _drop(ledger, element, owner)
    for element in itertools.chain(ledger.posters, ledger.ready):
        _drop(ledger, element, owner)
    ledger.tell_none_exist(account)


def _drop(ledger: Ledger, element: Element, owner: Hashable) -> None:
    if element.owner == owner and element.is_rejoined:
        element.is_rejoined = False
        ledger.unclaimed_total += 1
