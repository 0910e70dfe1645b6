"""Callers of an overloaded service refuse by themselves: blocking and asyncio clients, and the objects of other backplanes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from appbackplane.transport import AsyncClient, Busy, connect_async
from tests.waiting import Limit, wait_until

from .conftest import LIMIT_S, System, standing
from .pressing import TOGETHER, press, wait_until_all_are_sent

FAIR = """
[backplane.fair]
components = ["components:Booth"]
[backplane.street]
components = ["components:Crowd"]
"""


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    with standing(FAIR) as system:
        yield system


def test_a_client_refuses_by_itself_and_asks_again_when_there_is_room(system: System) -> None:
    """What it refuses the service has not received; and it says so. Priority 0 passes all the time."""
    with system.connect() as client:
        refusals = press(client, "booth.serve")
        here = [error for error in refusals if "refused here" in error.message]
        assert here and all(error.is_refused and error.retry_after == 0.02 for error in here)
        urgent = [client.submit("booth.serve", priority=0, retry=False, timeout=LIMIT_S) for _ in range(50)]
        assert [call.exception(LIMIT_S) for call in urgent] == [None] * 50
        wait_until_all_are_sent(client, "booth.serve")
        # Each of these leaves; a service that gets no CPU for 20 ms refuses even a call that is alone.
        call = partial(client.submit, "booth.serve", retry=False, timeout=LIMIT_S)
        wait_until(lambda: call().exception(LIMIT_S) is None, "no call is served again")


def test_a_blocking_call_ends_at_once_where_it_is_refused(system: System) -> None:
    """Nothing was sent, so no answer wakes the thread that waits for it."""
    with system.connect() as client:
        limit, message = Limit(), ""
        while "refused here" not in message:
            press(client, "booth.serve")
            for _ in range(TOGETHER):
                try:
                    client.call("booth.serve", retry=False, timeout=10 * LIMIT_S)
                except Busy as error:
                    message = error.message
                    if "refused here" in message:
                        break
            limit.check(f"nothing is refused here: {message}")


def test_a_client_on_asyncio_does_the_same(system: System) -> None:
    """Its calls and the futures of `submit` end in the same error."""

    async def pressing(client: AsyncClient) -> list[BaseException | None]:
        limit = Limit()
        while True:
            calls = [client.call("booth.serve", retry=False, timeout=LIMIT_S) for _ in range(TOGETHER)]
            calls += [client.submit("booth.serve", retry=False, timeout=LIMIT_S) for _ in range(TOGETHER)]  # type: ignore[misc]
            errors = await asyncio.gather(*calls, return_exceptions=True)
            if client.refused_here_count:
                return errors
            limit.check(f"nothing is refused here: {errors[:3]}")

    async def main() -> None:
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            errors = await pressing(client)
            assert all(error is None or isinstance(error, Busy) for error in errors)
            assert any("refused here" in str(error) for error in errors)

    asyncio.run(main())


def test_objects_of_another_backplane_do_the_same_and_it_is_counted(system: System) -> None:
    """With the operator of the backplane that calls: it is the one to be slowed."""
    with system.connect() as client:
        limit = Limit()
        while True:
            visits = [client.submit("crowd.visit", timeout=LIMIT_S) for _ in range(TOGETHER)]
            answers = [visit.result(LIMIT_S) for visit in visits]
            if any("refused here" in answer for answer in answers):
                break
            limit.check(f"nothing is refused here: {answers[:3]}")
        told = client.call("backplane.street.statistics")
        assert told["links"]["refused_here"] > 0
        assert client.call("backplane.fair.statistics")["links"]["refused_here"] == 0
    line = f"refused here, for overloaded services: {told['links']['refused_here']:,} call"
    # Status goes on without a backplane that does not answer in time.
    wait_until(lambda: line in system.command("status", "--stats").stdout, f"not shown: {line}")
