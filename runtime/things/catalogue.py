"""Catalogue: the things of the system by id, and the process in which each lives.

Every backplane is asked for its things. One that has started again is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from appbackplane.transport.addressing import backplane_route
from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import BackplaneError

log = logging.getLogger(__name__)


#: A backplane and its generation.
BackplanePlace = tuple[str, int]


def things_route(place: BackplanePlace) -> str:
    """The operation by which a backplane lists its things."""
    return backplane_route(place[0], "things")


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One thing. `types`: its semantic types. `setters`: the operations that write its properties. `is_cached`: the value
    that it has published last answers reads. Not that of replicas, of which another may answer the next call; nor that of a
    proxy, since an older value may be told after a newer write. `node`: another node, where it lives under `home_id`; "": this
    one, and then `component`, `key`, `backplane` and `generation` say where.
    """

    id: str
    component: str
    key: str | None
    backplane: str
    generation: int
    process: str
    types: tuple[str, ...]
    model: Mapping[str, Any]
    setters: Mapping[str, str]
    is_cached: bool = True
    place: str = ""
    node: str = ""
    home_id: str = ""

    @property
    def is_observable(self) -> bool:
        """Whether it publishes the values of some properties."""
        return any(said.get("observable") for said in self.model.get("properties", {}).values())


class Catalogue:
    """Maps ids of things to components, keys and models. `ask(route)` calls an operation; None: the owner does (`to_ask`)."""

    def __init__(self, ask: Callable[[str], Awaitable[Any]] | None = None) -> None:
        self._ask = ask
        #: The answers, by backplane and generation.
        self._listed: dict[BackplanePlace, Mapping[str, Any]] = {}
        self.things: dict[str, CatalogueEntry] = {}
        self._reported: set[str] = set()
        #: Backplanes that have not answered.
        self._silent: set[BackplanePlace] = set()
        #: The things of other nodes, by node.
        self._elsewhere: dict[str, tuple[CatalogueEntry, ...]] = {}

    async def refresh(self, directory: Directory, *, is_thorough: bool) -> bool:
        """Ask the backplanes that have started; with `is_thorough` all of them, since things may have come and gone.

        For a backplane that does not answer, its last answer stays. Returns whether all have answered.
        """
        ask, asked = self._ask, self.to_ask(directory, is_thorough=is_thorough)
        assert ask is not None
        answers = await asyncio.gather(*(ask(things_route(place)) for place in asked), return_exceptions=True)
        return self.take(directory, asked, answers)

    def to_ask(self, directory: Directory, *, is_thorough: bool) -> list[BackplanePlace]:
        """The backplanes to ask for their things (`things_route`): those that have started; `is_thorough`: all."""
        return [place for place in _places_up(directory) if is_thorough or place not in self._listed]

    def take(
        self,
        directory: Directory,
        asked: Iterable[BackplanePlace],
        answers: Iterable[Mapping[str, Any] | BaseException],
    ) -> bool:
        """Take the answers of the backplanes that were asked; whether all have answered."""
        places = _places_up(directory)
        for place, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BackplaneError):
                if place not in self._silent:
                    log.warning("%s does not list its things: %s", place[0], answer.message)
                self._silent.add(place)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._listed[place] = answer
                self._silent.discard(place)
        self._silent.intersection_update(places)
        # A backplane that starts again keeps its things until it has said which it has now.
        newest: dict[str, BackplanePlace] = {}
        for place in self._listed:
            newest[place[0]] = max(newest.get(place[0], place), place)
        self._listed = {
            place: said
            for place, said in self._listed.items()
            if place[0] in directory.backplanes and newest[place[0]] == place
        }
        self._join()
        return not self._silent

    def take_elsewhere(self, node: str, entries: Iterable[CatalogueEntry]) -> None:
        """Another node has these things from now on."""
        self._elsewhere[node] = tuple(entries)
        self._join()

    def is_current(self, entry: CatalogueEntry, directory: Directory) -> bool:
        """Whether the process of a thing is the one that it was when it was listed. Another node tells that itself."""
        if entry.node:
            return True
        place = directory.backplanes.get(entry.backplane)
        return place is not None and place.is_up and place.generation == entry.generation

    def _join(self) -> None:
        things: dict[str, CatalogueEntry] = {}
        for (backplane, generation), said in sorted(self._listed.items(), key=lambda each: each[0]):
            for id, component, key, kind in said["things"]:
                known = things.get(id)
                is_replica = known is not None and (known.component, known.key) == (component, key)
                is_proxy = kind in said.get("proxies", ())
                if known is not None and not is_replica:
                    self._report(id, f"component {known.component}", component)
                    continue
                model = said["models"][kind]
                types = tuple(each for each in model.get("@type", ()) if each != "tm:ThingModel")
                things[id] = CatalogueEntry(
                    id, component, key, backplane, generation, said["process"], types, model,
                    said["setters"][kind], is_cached=not (is_replica or is_proxy), place=said.get("places", {}).get(id, ""),
                )  # fmt: skip
        for node, entries in sorted(self._elsewhere.items()):
            for entry in entries:
                known = things.setdefault(entry.id, entry)
                if known is not entry:
                    self._report(
                        entry.id, f"node {known.node}" if known.node else f"component {known.component}", f"node {node}"
                    )
        self.things = things

    def _report(self, id: str, served: str, other: str) -> None:
        """Say once that two things have one id."""
        if id not in self._reported:
            self._reported.add(id)
            log.warning(
                "two things have the id %s: that of %s is served, and that of %s is not: give one another key", id, served,
                other,
            )  # fmt: skip


def _places_up(directory: Directory) -> list[BackplanePlace]:
    return [
        (name, place.generation)
        for name, place in sorted(directory.backplanes.items())
        if place.is_up and name != directory.node
    ]
