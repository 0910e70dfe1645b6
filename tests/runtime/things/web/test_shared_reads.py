"""Shared reads: reads of one property that come while it is being read share the next call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from appbackplane.runtime import Busy
from appbackplane.runtime.things.web import shared_reads as shared_reads_module
from appbackplane.runtime.things.web.shared_reads import SharedReads


class Calls:
    """Calls that a test answers, in the order in which they have begun."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[bytes]] = []

    async def __call__(self) -> bytes:
        self.begun.append(asyncio.get_running_loop().create_future())
        return await self.begun[-1]


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take no time here, however slow the machine is."""
    monkeypatch.setattr(shared_reads_module, "STALLED_S", 3600.0)
    monkeypatch.setattr(shared_reads_module, "GAP_S", 0.0)


def played(play: Callable[[SharedReads, Calls], Awaitable[None]]) -> None:
    async def main() -> None:
        reads = SharedReads()
        async with asyncio.timeout(10.0):
            await play(reads, Calls())
            while reads._next:  # what nobody reads takes no room
                await asyncio.sleep(0)

    asyncio.run(main())


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_value_is_never_older_than_its_read() -> None:
    """The call under way may have read the property before the read came, so it answers none but its own."""

    async def play(reads: SharedReads, calls: Calls) -> None:
        first = asyncio.create_task(reads.read("level", calls))
        await settled()
        others = [asyncio.create_task(reads.read("level", calls)) for _ in range(15)]
        await settled()
        assert len(calls.begun) == 1
        calls.begun[0].set_result(b"old")
        await settled()
        assert len(calls.begun) == 2, "fifteen reads are one call"
        late = asyncio.create_task(reads.read("level", calls))
        await settled()
        calls.begun[1].set_result(b"new")
        assert await first == b"old"
        assert await asyncio.gather(*others) == [b"new"] * 15
        await settled()
        calls.begun[2].set_result(b"newest")
        assert await late == b"newest"

    played(play)


def test_readers_that_ask_again_share_the_next_call_as_soon_as_all_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first of them would be a call by itself, and all others the next."""
    monkeypatch.setattr(shared_reads_module, "GAP_S", 0.05)

    async def play(reads: SharedReads, calls: Calls) -> None:
        first = asyncio.create_task(reads.read("level", calls))
        await settled()
        both = [asyncio.create_task(reads.read("level", calls)) for _ in range(2)]
        await settled()
        calls.begun[0].set_result(b"7")
        while len(calls.begun) < 2:  # the first reader does not come back
            await asyncio.sleep(0)
        monkeypatch.setattr(shared_reads_module, "GAP_S", 3600.0)
        calls.begun[1].set_result(b"7")
        await asyncio.gather(first, *both)
        again = [asyncio.create_task(reads.read("level", calls))]
        await settled()
        assert len(calls.begun) == 2, "it waits for the other"
        again.append(asyncio.create_task(reads.read("level", calls)))
        await settled()
        monkeypatch.setattr(shared_reads_module, "GAP_S", 0.0)
        calls.begun[2].set_result(b"8")
        assert await asyncio.gather(*again) == [b"8"] * 2

    played(play)


def test_a_reader_alone_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharing is for many."""
    monkeypatch.setattr(shared_reads_module, "GAP_S", 3600.0)

    async def play(reads: SharedReads, calls: Calls) -> None:
        for number in range(3):
            read = asyncio.create_task(reads.read("level", calls))
            await settled()
            calls.begun[number].set_result(b"7")
            assert await read == b"7"

    played(play)


def test_reads_of_different_users_or_properties_share_nothing() -> None:
    """Each user's call is admitted by itself, where the thing lives."""

    async def play(reads: SharedReads, calls: Calls) -> None:
        both = [asyncio.create_task(reads.read(("level", user), calls)) for user in ("ada", "bob")]
        await settled()
        for each in calls.begun:
            each.set_result(b"7")
        assert await asyncio.gather(*both) == [b"7", b"7"]
        assert len(calls.begun) == 2

    played(play)


def test_an_error_is_that_of_all_who_share_the_call() -> None:
    """And of nobody else."""

    async def play(reads: SharedReads, calls: Calls) -> None:
        first = asyncio.create_task(reads.read("level", calls))
        await settled()
        others = [asyncio.create_task(reads.read("level", calls)) for _ in range(3)]
        await settled()
        calls.begun[0].set_exception(Busy("full"))
        await settled()
        calls.begun[1].set_exception(Busy("still full"))
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert [str(each) for each in found] == ["full"] + ["still full"] * 3

    played(play)


def test_a_call_ends_when_its_last_reader_has_gone() -> None:
    """A client that goes takes its call back, and nobody else's."""

    async def play(reads: SharedReads, calls: Calls) -> None:
        first = asyncio.create_task(reads.read("level", calls))
        await settled()
        others = [asyncio.create_task(reads.read("level", calls)) for _ in range(2)]
        gone = asyncio.create_task(reads.read("level", calls))
        await settled()
        gone.cancel()
        first.cancel()
        await settled()
        assert calls.begun[0].cancelled()
        others[0].cancel()
        await settled()
        assert not calls.begun[1].cancelled()
        others[1].cancel()
        await settled()
        assert calls.begun[1].cancelled()

    played(play)


def test_a_thing_that_is_busy_delays_a_read_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a read would wait for a whole action and then for its own call, twice the time that its client allows."""
    monkeypatch.setattr(shared_reads_module, "STALLED_S", 0.0)

    async def play(reads: SharedReads, calls: Calls) -> None:
        first = asyncio.create_task(reads.read("level", calls))
        await settled()
        second = asyncio.create_task(reads.read("level", calls))
        while len(calls.begun) < 2:
            await asyncio.sleep(0)
        calls.begun[1].set_result(b"2")
        assert await second == b"2"
        calls.begun[0].set_result(b"1")
        assert await first == b"1"

    played(play)
