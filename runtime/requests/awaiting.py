"""Awaiting: the methods of `Context` for coroutines, which wait without a thread.

Checks and meaning are those of the plain methods (context.py); this module has only the ways to wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import Busy

from ..objects.app_object import AppObject
from .element import Element
from .owners import Rejoin

if TYPE_CHECKING:
    from .context import Context
    from .mapping import Make


async def post(kernel: Context, element: Element, wait: bool, timeout: float | None) -> Element:
    """Implements `Context.apost`; returns the element once it is posted."""
    await kernel._apost([element], wait, timeout)
    return element


async def post_all(kernel: Context, elements: list[Element]) -> list[Element]:
    """Implements `Context.apost_all`; returns the elements once all are posted."""
    await kernel._apost(elements, True, None)
    return elements


async def joined(kernel: Context, owner: Hashable) -> AsyncIterator[Element]:
    """Implements `Context.ajoined`, without a limit on each wait."""
    while True:
        _, element = await kernel._arejoin(owner, True, None)
        if element is None:
            return
        yield element


async def call(
    kernel: Context, object: AppObject, route: str, arguments: dict[str, Any], options: dict[str, Any]
) -> Any:
    """Implements `Context.acall`, on behalf of `object`."""
    await kernel._abefore_call()
    return await object.request(route, arguments, **options)


async def nothing() -> None:
    """An empty coroutine: there is nothing to wait for."""


async def try_post(kernel: Context, element: Element) -> bool:
    """Post a request if there is room; False: there is none."""
    try:
        await kernel._apost([element], False, None)
    except Busy:
        return False
    return True


async def at_once(answer: bool) -> bool:
    """A coroutine that returns `answer` without waiting."""
    return answer


async def run(kernel: Context, request: Any, make: Make) -> Any:
    """Implements `Context.arun`; gives the request up if it is cancelled."""
    owner = kernel._new_part()
    try:
        await kernel._apost([make(request, owner)], True, None)
        _, done = await kernel._arejoin(owner, True, None)
    except BaseException:
        kernel._give_up(owner)
        raise
    kernel._let_go_of(owner)
    assert done is not None, "what is posted rejoins"
    return done.get()


async def map_unordered(kernel: Context, requests: Iterable[Any], make: Make) -> AsyncIterator[Element]:
    """Implements `Context.amap_unordered`; gives up the rest if it is broken off."""
    owner = kernel._new_part()
    is_over = False
    try:
        for request in requests:
            element = make(request, owner)
            while not await kernel._atry_post(element):
                _, done = await kernel._arejoin(owner, True, None)
                if done is None:
                    await kernel._apost([element], True, None)
                    break
                yield done
        while True:
            found, done = await kernel._arejoin(owner, True, None)
            if done is None:
                assert found is Rejoin.NONE_EXIST
                break
            yield done
        is_over = True
        kernel._let_go_of(owner)
    finally:
        if not is_over:
            kernel._give_up(owner)
