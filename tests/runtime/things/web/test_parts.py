"""The pure parts of the gateway: histories, problems, the cache, the catalogue and invocations."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from itertools import count, pairwise
from typing import Any

import pytest

from appbackplane.runtime import Busy, DeadlineExceeded, InternalError, NotFound, PeerDown
from appbackplane.runtime.things.catalogue import Catalogue
from appbackplane.runtime.things.property_cache import PropertyCache
from appbackplane.runtime.things.web import invocations as invocations_module
from appbackplane.runtime.things.web.history import BYTES_MAX, MESSAGES_MAX, History, event_id, number_of
from appbackplane.runtime.things.web.invocations import Invocations
from appbackplane.runtime.things.web.problems import HTTP_STATUS, problem_of
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.errors import Status, Unavailable


def test_each_subscriber_has_its_place_in_one_history() -> None:
    """And is told what it has missed, to the message."""
    history = History()
    assert history.after(0) == (None, 0)
    for number in range(MESSAGES_MAX + 10):
        history.add(b"%d" % number)
    found, lost = history.after(0)
    assert found is not None and (found.number, found.data, lost) == (11, b"10", 10)
    found, lost = history.after(MESSAGES_MAX + 9)
    assert found is not None and (found.number, lost) == (MESSAGES_MAX + 10, 0)
    assert history.after(MESSAGES_MAX + 10) == (None, 0)


def test_a_history_is_bounded_in_bytes() -> None:
    """Messages may have megabytes; the newest is kept, however large."""
    history = History()
    for _ in range(5):
        history.add(b"x" * (BYTES_MAX // 3))
    found, lost = history.after(0)
    assert found is not None and (found.number, lost) == (3, 2)
    history.add(b"x" * (2 * BYTES_MAX))
    found, lost = history.after(0)
    assert found is not None and (found.number, lost) == (6, 5)


def test_a_history_that_is_closed_wakes_its_subscribers() -> None:
    """Nobody waits for a thing that is gone."""

    async def main() -> bool:
        history = History()
        waiting = asyncio.create_task(history.wait())
        await asyncio.sleep(0)
        history.close()
        again = asyncio.create_task(history.wait())
        for _ in range(3):
            await asyncio.sleep(0)
        return waiting.done() and again.done()

    assert asyncio.run(main())


def test_all_who_wait_are_woken_by_one_message() -> None:
    """And one that has gone is in nobody's way."""

    async def main() -> list[bytes]:
        history = History()
        waiting = [asyncio.create_task(history.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        history.add(b"1")
        await asyncio.gather(*waiting[1:])
        assert not history._waiting
        return [entry.data for entry, _ in [history.after(0)] if entry is not None]

    assert asyncio.run(main()) == [b"1"]


@pytest.mark.parametrize("number", [0, 1, 7, (1 << 64) - 1])
def test_an_id_leads_back_to_its_message(number: int) -> None:
    """In the process that has made it."""
    id = event_id("ab12", number)
    assert number_of(id, "ab12") == number
    assert number_of(id, "ab13") is None, "numbers of another process began anew, so one of them would hide messages"


@pytest.mark.parametrize(
    "id", ["ab12-7", "ab12-", "7", "ab12--1", "ab12-" + "9" * 30, "ab12-" + "F" * 16, "ab12-" + "0" * 15 + "_"]
)
def test_an_id_that_nobody_has_made_means_nothing(id: str) -> None:
    """It is the client's."""
    assert number_of(id, "ab12") is None


def test_ids_do_not_count_what_is_between_them() -> None:
    """Else a user whose permission is interrupted learns how much happened meanwhile."""
    numbers = [int(event_id("ab12", number).partition("-")[2], 16) for number in range(1_000)]
    assert len(set(numbers)) == 1_000
    assert numbers != sorted(numbers)
    assert len({after - before for before, after in pairwise(numbers)}) > 900


def test_every_status_has_its_http_status() -> None:
    """A new one would be told as 500."""
    assert set(HTTP_STATUS) == set(Status) - {Status.OK} if hasattr(Status, "OK") else set(HTTP_STATUS) == set(Status)


def test_a_problem_says_when_to_come_back() -> None:
    """In whole seconds in the header, and exactly in the body."""
    status, body, headers = problem_of(Busy("full", retry_after=0.25))
    assert (status, headers["Retry-After"], body["retry_after"], body["detail"]) == (503, "1", 0.25, "full")
    assert problem_of(Unavailable("no"))[2] == {"Retry-After": "1"}
    for error, expected in (
        (NotFound("x"), 404),
        (DeadlineExceeded("x"), 504),
        (PeerDown("x"), 502),
        (InternalError("x"), 500),
    ):
        status, body, headers = problem_of(error)
        assert (status, body["status"], headers) == (expected, expected, {})


def test_a_cached_value_counts_for_the_process_that_published_it() -> None:
    """Another process has begun anew."""
    cache = PropertyCache()
    cache.put("lamp", "level", "p1", b"7")
    assert cache.get("lamp", "level", "p1") == b"7" and cache.get("lamp", "level", "p2") is None
    assert cache.is_to_ask("lamp", "p1") and not cache.is_to_ask("lamp", "p1") and cache.is_to_ask("lamp", "p2")
    cache.ask_again("lamp", "p2")
    assert cache.is_to_ask("lamp", "p2")
    cache.drop("lamp", "level")
    assert cache.get("lamp", "level", "p1") is None
    cache.put("lamp", "level", "p1", b"8")
    cache.clear()
    assert cache.get("lamp", "level", "p1") is None and cache.is_to_ask("lamp", "p1")


def listing(process: str, *things: tuple[str, str, str | None]) -> dict[str, Any]:
    """As `listing_of` makes it."""
    return {
        "process": process,
        "things": [[id, component, key, "m:Lamp"] for id, component, key in things],
        "models": {"m:Lamp": {"title": "Lamp"}},
        "setters": {"m:Lamp": {"level": "set_level"}},
    }


class Places:
    """The backplanes of a system, and what they answer."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.generations = dict.fromkeys(answers, 1)
        self.asked: list[str] = []
        self.catalogue = Catalogue(self._ask)
        self.is_complete = False

    async def _ask(self, route: str) -> Any:
        name = route.split(".")[1]
        self.asked.append(name)
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def directory(self) -> Directory:
        return Directory("s", 1, {name: Place(number, "x", True) for name, number in self.generations.items()}, {}, {})

    def refresh(self, *, is_thorough: bool = False) -> list[str]:
        """The ids that are known afterwards."""
        self.is_complete = asyncio.run(self.catalogue.refresh(self.directory(), is_thorough=is_thorough))
        return list(self.catalogue.things)


def test_backplanes_are_asked_once_a_generation() -> None:
    """Unless somebody asks for a thing that nobody knows."""
    places = Places(a=listing("p1", ("lamp", "house", "lamp")), b=listing("p2"))
    assert places.refresh() == ["lamp"] and places.asked == ["a", "b"]
    assert places.refresh() == ["lamp"] and places.asked == ["a", "b"]
    found = places.catalogue.things["lamp"]
    assert (found.component, found.key, found.backplane, found.process) == ("house", "lamp", "a", "p1")
    places.generations["a"] = 2
    assert not places.catalogue.is_current(found, places.directory())
    places.answers["a"] = Unavailable("starting")
    assert places.refresh() == ["lamp"], "it keeps its things until it has said which it has now"
    places.answers["a"] = listing("p3")
    places.asked = ["a", "b"]
    assert places.refresh() == [] and places.asked == ["a", "b", "a"]
    places.answers["b"] = listing("p2", ("door", "house", "door"))
    assert places.refresh() == [] and places.refresh(is_thorough=True) == ["door"]


def test_a_backplane_that_does_not_answer_keeps_what_it_said(caplog: pytest.LogCaptureFixture) -> None:
    """Its things are there; one that has never answered has none yet, and is asked again."""
    places = Places(a=listing("p1", ("lamp", "house", "lamp")), b=Unavailable("starting"))
    assert places.refresh() == ["lamp"] and not places.is_complete
    assert places.refresh() == ["lamp"] and places.asked == ["a", "b", "b"]
    assert caplog.text.count("b does not list its things: starting") == 1
    places.answers = {"a": Busy("full"), "b": listing("p2", ("door", "house", "door"))}
    assert places.refresh() == ["lamp", "door"]
    assert places.is_complete
    assert places.refresh(is_thorough=True) == ["lamp", "door"] and not places.is_complete
    assert "a does not list its things: full" in caplog.text


def test_two_things_with_one_id_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first is served; replicas of one component are no mistake, but their values may differ."""
    caplog.set_level(logging.WARNING)
    places = Places(
        a=listing("p1", ("lamp", "house", "lamp"), ("door", "house", "door")),
        b=listing("p2", ("lamp", "garden", "lamp"), ("door", "house", "door")),
    )
    places.refresh()
    places.refresh(is_thorough=True)
    assert places.generations.pop("b")
    assert places.refresh() == ["lamp", "door"] and places.catalogue.things["door"].is_cached
    places.generations["b"] = 1
    places.refresh()
    lamp, door = places.catalogue.things["lamp"], places.catalogue.things["door"]
    assert (lamp.component, lamp.is_cached, door.is_cached) == ("house", True, False)
    assert caplog.text.count("two things have the id lamp: that of component house is served") == 1


def test_an_invocation_is_told_to_those_who_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its end; and beyond the bound the oldest that has ended is forgotten."""
    monkeypatch.setattr(invocations_module, "INVOCATIONS_MAX", 2)

    minutes = count()

    async def main() -> None:
        kept, release = Invocations(lambda: f"12:0{next(minutes)}"), asyncio.Event()

        def call(end: Any) -> Coroutine[Any, Any, Any]:
            async def run() -> Any:
                await release.wait()
                if isinstance(end, Exception):
                    raise end
                return end

            return run()

        first, second = (
            kept.begin("/fade", "ada", call(5)),
            kept.begin("/fade", "ada", call(Busy("full"))),
        )
        assert first.href != second.href and re.fullmatch("/fade/[0-9a-f]{32}", first.href), "nobody else guesses it"
        assert kept.find(first.href, "eve") is None and kept.find(first.href, "ada") is first
        assert first.status()["status"] == "running" and "timeEnded" not in first.status()
        with pytest.raises(Busy, match="the gateway already runs 2 long actions"):
            kept.begin("/fade", "ada", call(6))
        release.set()
        await asyncio.gather(first.task, second.task, return_exceptions=True)
        assert (first.status()["status"], first.status()["output"]) == ("completed", 5)
        assert (second.status()["status"], second.status()["error"]["status"]) == ("failed", 503)
        assert (second.status()["timeRequested"], second.status()["timeEnded"]) == ("12:01", "12:03")
        assert kept.of("/fade", "ada") == [second, first] and kept.of("/fad", "ada") == kept.of("/fade", "eve") == []
        third = kept.begin("/fade", "ada", call(7))
        assert kept.find(first.href, "ada") is None and kept.find(second.href, "ada") is second
        third.task.cancel()
        await asyncio.gather(third.task, return_exceptions=True)
        assert third.status()["error"]["status"] == 499

    asyncio.run(main())


def test_nobody_takes_all_long_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a share the oldest results of the same user are forgotten, not those of others."""
    monkeypatch.setattr(invocations_module, "PRINCIPAL_INVOCATIONS_MAX", 2)

    async def main() -> None:
        kept, release = Invocations(lambda: "now"), asyncio.Event()
        bens = kept.begin("/fade", "ben", release.wait())
        first, second = (kept.begin("/fade", "ada", release.wait()) for _ in range(2))
        with pytest.raises(Busy, match="ada already has 2 long actions running") as refused:
            kept.begin("/fade", "ada", release.wait())
        assert refused.value.retry_after == 1.0
        kept.begin("/fade", "ben", release.wait())
        release.set()
        await asyncio.gather(bens.task, first.task, second.task)
        kept.begin("/fade", "ada", release.wait())
        found = [kept.find(each.href, each.principal) for each in (bens, first, second)]
        assert found == [bens, None, second]

    asyncio.run(main())
