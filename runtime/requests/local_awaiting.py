"""Local awaiting: coroutines that post and rejoin in the kernel's own process; like local_context.py, but by a signal."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from .context import PACKED
from .element import Element
from .owners import Rejoin
from .waiting import AN_END, ROOM, SignalWaiter

if TYPE_CHECKING:
    from .local_context import LocalContext


async def post(kernel: LocalContext, elements: list[Element], wait: bool, timeout: float | None) -> None:
    """`LocalContext._post`, for a coroutine."""
    for element in elements:
        if kernel._is_packed and element.request is not PACKED:
            kernel._pack(element)
        if wait and kernel._ledger.try_post(element):
            continue
        waiter = SignalWaiter(kernel._platform, timeout, kernel._what(ROOM)) if wait else None
        if kernel._ledger.post(element, waiter):
            continue
        assert waiter is not None
        try:
            await waiter.signal
        except BaseException:
            kernel._ledger.withdraw(element)
            raise
        if not waiter.is_told and kernel._ledger.withdraw(element):
            raise kernel._too_late(element, timeout)
        if waiter.error is not None:
            raise waiter.error


async def rejoin(
    kernel: LocalContext, owner: Hashable, wait: bool, timeout: float | None
) -> tuple[Rejoin, Element | None]:
    """`LocalContext._rejoin`, for a coroutine; its waiter is never patient."""
    found, element = kernel._ledger.rejoin(owner, None, None)
    if found is not Rejoin.NONE_READY or not wait:
        return found, kernel._unpacked(element)
    waiter = SignalWaiter(kernel._platform, timeout, kernel._what(AN_END))
    found, element = kernel._ledger.rejoin(owner, waiter, kernel.element)
    if found is not Rejoin.NONE_READY:
        return found, kernel._unpacked(element)
    try:
        await waiter.signal
    except BaseException:
        if not kernel._ledger.forget(owner, waiter) and waiter.element is not None:
            kernel._ledger.unjoin(waiter.element)
        raise
    if not waiter.is_told and kernel._ledger.forget(owner, waiter):
        raise kernel._nothing_ended(owner, timeout)
    return kernel._answer(waiter)
