"""Retries and idempotency keys, with processes that die: what can be asked again is answered, what must not is done once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from appbackplane.transport import AsyncClient, Busy, Client, PeerDown, RetryBudget, connect, connect_async
from tests.figures import IS_LONG
from tests.waiting import Limit

from .conftest import LIMIT_S, System, ask_until, standing, wait_dead, wait_ready

TILL = """
[backplane.shop]
components = ["components:Cashier"]
restart = { max = 100, backoff = "20ms", backoff_max = "50ms" }
[backplane.street]
components = ["components:Buyer"]
"""
KILLS_COUNT, THREADS_COUNT = 4 if IS_LONG else 2, 4


@pytest.fixture(scope="module")
def till(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: whatever a test has killed is there again after it."""
    with standing(TILL) as system:
        yield system


@pytest.fixture
def system(till: System) -> System:
    """Nothing is at work in it, and nothing was counted before."""
    with till.connect() as client:
        ask_until(client, "backplane.shop.statistics", lambda told: not told["components"]["cashier"]["outstanding"])
        client.call("cashier.forget")
    return till


def kill(system: System, backplane: str) -> int:
    """-9, and wait for its end; its pid."""
    pid = system.pids()[backplane]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    return pid


def test_no_call_of_an_idempotent_operation_fails_while_its_callee_is_killed(system: System) -> None:
    """By threads, from asyncio, and through another backplane: each ends in its result, though its processes die."""
    is_over = threading.Event()

    def load(client: Client, route: str) -> int:
        done = 0
        while not is_over.is_set():
            assert client.call(route, item=done, timeout=LIMIT_S) == done + 1
            done += 1
        return done

    async def load_async() -> int:
        client: AsyncClient
        async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
            done = 0
            while not is_over.is_set():
                calls = (client.call("cashier.price", item=n, timeout=LIMIT_S) for n in range(20))
                assert await asyncio.gather(*calls) == list(range(1, 21))
                done += 20
            return done

    with system.connect() as client, ThreadPoolExecutor(THREADS_COUNT + 2) as pool:
        loads = [pool.submit(load, client, "cashier.price") for _ in range(THREADS_COUNT)]
        loads += [pool.submit(load, client, "buyer.buy"), pool.submit(asyncio.run, load_async())]
        try:
            # A kill that finds no call of this client under way is noticed by nobody.
            retries, limit, kills_count = client._calling.session.core.retries, Limit(), 0
            while kills_count < KILLS_COUNT or not retries.account.taken_count:
                limit.check("nobody has noticed anything")
                kills_count += 1
                dead = kill(system, "shop")
                ask_until(client, "cashier.pid", lambda pid, dead=dead: pid != dead)
                served = client.call("backplane.shop.statistics")["actions"]
                ask_until(client, "backplane.shop.statistics", lambda told, n=served: told["actions"] > n + 100)
        finally:
            is_over.set()
        assert all(each.result(LIMIT_S) > 0 for each in loads)


def test_what_may_have_been_done_is_not_done_again(system: System) -> None:
    """The caller alone knows what to do then."""
    with system.connect() as client:
        held = client.submit("cashier.pay_slowly", seconds=LIMIT_S, timeout=LIMIT_S)
        ask_until(client, "backplane.shop.statistics", lambda told: told["queues"]["waiting"] == 1)
        kill(system, "shop")
        error = held.exception(LIMIT_S)
        assert isinstance(error, PeerDown) and error.attempts == 1
        # But what finds nobody has not begun: it waits for the next generation, and finds it.
        assert client.call("cashier.pay", number=1, timeout=LIMIT_S) == [1, 1]


@pytest.mark.parametrize("ratio", [0.2, 0.0])
def test_an_outage_is_not_multiplied_by_those_who_try_again(system: System, ratio: float) -> None:
    """Counted by the callee: a fifth more than without retries, or what the client allows itself.

    The tries that time brings in are left out (`min_per_s`): tests/transport has them, under a clock of its own.
    """
    budget = RetryBudget(ratio, min_per_s=0.0)
    calls_count = 1_500
    with connect(system.run_dir, timeout=LIMIT_S, retry_budget=budget) as client:
        pending = []
        for _ in range(calls_count // 50):
            pending += [client.submit("cashier.ask_in_vain", timeout=LIMIT_S, retry=True) for _ in range(50)]
            pending[-50].exception(LIMIT_S)
        errors = [each.exception(LIMIT_S) for each in pending]
        asked = client.call("cashier.counts")[1]
    assert all(isinstance(error, Busy) for error in errors)
    assert sum(error.attempts for error in errors if error is not None) == asked, "each says how often it was tried"
    assert asked <= calls_count * (1 + ratio)
    assert asked > calls_count * 1.1 if ratio else asked == calls_count


def test_a_client_that_is_killed_and_comes_again_pays_once(system: System) -> None:
    """Its connection is cut with calls queued, running and answered; the next one asks for all of them again, twice."""
    count = 300
    payer = system.program("payer", str(count))
    wait_ready(payer)
    with system.connect() as client:
        ask_until(client, "cashier.counts", lambda counts: counts[0] > 0)
        payer.kill()
        payer.wait(LIMIT_S)
        for _ in range(2):
            answers = [client.submit("cashier.pay", number=n, idempotency_key=f"order-{n}") for n in range(count)]
            assert [answer.result(LIMIT_S)[0] for answer in answers] == list(range(count))
        assert client.call("cashier.counts")[0] == count


def test_one_piece_of_work_for_many_who_ask_at_once(system: System) -> None:
    """The first runs, the others wait for it: each gets its reply."""
    with system.connect() as one, system.connect() as other:
        calls = [
            client.submit("cashier.pay_slowly", seconds=0.3, idempotency_key="k") for client in (one, other, one, other)
        ]
        assert {call.result(LIMIT_S) for call in calls} == {1}
        assert one.call("cashier.counts")[0] == 1
        assert system.command("call", "cashier.pay_slowly", "seconds=0.3", "--idempotency-key", "k").stdout == "1\n"
        wrong = system.command("call", "cashier.pay_slowly", "seconds=0.4", "--idempotency-key", "k")
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert "was used with other arguments" in wrong.stderr and wrong.stderr.count("\n") == 1


def test_a_restart_forgets(system: System) -> None:
    """As the page says: the memory of the process, and no more."""
    with system.connect() as client:
        assert client.call("cashier.pay", number=1, idempotency_key="lost") == [1, 1]
        assert client.call("cashier.pay", number=2) == [2, 2]
        kill(system, "shop")
        assert client.call("cashier.pay", number=1, idempotency_key="lost", timeout=LIMIT_S) == [1, 1]
        assert client.call("cashier.counts")[0] == 1
