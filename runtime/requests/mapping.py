"""Mapping: posting and rejoining in one step, for an owner that nobody else has; requests given up are disowned.

Works on a `Context`. A caller that posts as there is room, and takes back ended requests in between, never waits for itself,
however small the pools are. If an iteration is broken off, or a caller's deadline passes, nobody can ask for its requests:
they would fill the rejoin pool for everybody. Such an end may come from the garbage collector, in any thread, under any lock;
so it is only noted here (`Context._give_up`). The twins for coroutines are in awaiting.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from .element import Element

if TYPE_CHECKING:
    from .context import Context

#: Makes an element of a request, for this owner.
Make: TypeAlias = Callable[[Any, Hashable], Element]


def run(kernel: Context, request: Any, make: Make) -> Any:
    """Implements `Context.run`; gives the request up if the wait is broken off."""
    owner = kernel._new_part()
    try:
        kernel._post([make(request, owner)], True, None)
        _, done = kernel._rejoin(owner, True, None)
    except BaseException:
        kernel._give_up(owner)
        raise
    kernel._let_go_of(owner)
    assert done is not None, "what is posted rejoins"
    return done.get()


def map_unordered(kernel: Context, requests: Iterable[Any], make: Make) -> Iterator[Element]:
    """Implements `Context.map_unordered`; gives up the rest if it is broken off."""
    owner = kernel._new_part()
    is_over = False
    try:
        for request in requests:
            element = make(request, owner)
            while not kernel._try_post(element):
                _, done = kernel._rejoin(owner, True, None)
                if done is None:  # others' requests fill the pools
                    kernel._post([element], True, None)
                    break
                yield done
        yield from kernel.joined(owner)
        is_over = True
        kernel._let_go_of(owner)
    finally:
        if not is_over:
            kernel._give_up(owner)
