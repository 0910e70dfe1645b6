"""Computing: ten handlers that need the processor, in one backplane and spread over several by the key of their message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from appbackplane.runtime.dispatcher import Dispatcher, Message, SelectiveProtector, message
from appbackplane.transport.client import Client
from appbackplane.transport.resolver import home

from .figure9 import HANDLERS

#: Rounds of a loop that a handler computes: half as long as the others idle, so that the curves lie apart.
LOOPS = 30_000
#: Calls wait for all that came before.
TIMEOUT_S = 120.0


@message(category=91, id=3, key="part")
class Compute(Message):
    """Says which part of the data is to be worked on."""

    part: str


class Part:
    def __init__(self, key: str) -> None:
        self.total = 0


class Alone(Dispatcher):
    """All parts in one backplane."""

    def setup(self) -> None:
        parts = SelectiveProtector(Part)
        for _ in range(HANDLERS):
            self.register(handler(), parts)


class Spread(Alone):
    """Each part in one of its shards."""

    sharded: ClassVar[bool] = True


def handler() -> Callable[[Compute, Part], None]:
    def compute(message: Compute, part: Part) -> None:
        for number in range(LOOPS):
            part.total += number

    return compute


def tables(shards: int) -> dict[str, str]:
    """Of a system that has both."""
    return {
        "alone": f'components = ["{__name__}:Alone"]',
        "spread": f'components = ["{__name__}:Spread"]\nreplicas = {shards}',
    }


def parts(shards: int, count: int) -> list[str]:
    """So many keys, as many of them at home in each shard: uneven ones would measure the keys."""
    places = tuple(f"spread-{number}" for number in range(1, shards + 1))
    found: dict[str, list[str]] = {place: [] for place in places}
    number = 0
    while any(len(keys) < count // shards for keys in found.values()):
        key = f"part-{number}"
        found[home(places, key)].append(key)
        number += 1
    return [key for keys in zip(*found.values(), strict=False) for key in keys]


def computed(client: Client, component: str, keys: Sequence[str]) -> None:
    """A message to each of the parts; returns when all are handled."""
    calls = [client.submit(f"{component}.compute", part=key, key=key, timeout=TIMEOUT_S) for key in keys]
    for call in calls:
        call.result()
