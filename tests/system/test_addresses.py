"""Addresses over processes: calls reach one object and no other, and monitors tell of the end of what they watch.

How soon is judged by `scripts/long`; the order of events and the reasons in every run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Address, Client, connect_async
from appbackplane.transport.errors import NotFound, UnknownRoute
from tests.figures import judge

from .conftest import HERE, LIMIT_S, System, ask_until, standing, wait_dead
from .peers.conftest import Meet, Nodes, meet, wait_reached  # noqa: F401

SYSTEM = """
[backplane.bank]
components = ["addressed:Accounts"]
[backplane.office]
components = ["addressed:Watcher"]
"""
#: From the end to the monitor's action: 1 to 3 ms on two cores that do little else.
TOLD_S_MAX = 0.010


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all: whatever a test has killed or restarted is there again after it."""
    with standing(SYSTEM, "addressed.py") as system:
        yield system


@pytest.fixture
def system(house: System) -> System:
    """Nothing is watched in it, and nobody was told anything."""
    with house.connect() as client:
        ask_until(client, "watcher.forget", lambda _: True)
        ask_until(client, "backplane.bank.statistics", lambda known: known["addresses"]["watchers"] == 0)
    return house


def opened(client: Client, owner: str = "ada") -> Address:
    """A new account."""
    return Address(client.call("accounts.open", owner=owner))


async def deposited(system: System, account: Address, cents: int) -> int:
    """By a client that awaits."""
    async with await connect_async(system.run_dir, timeout=LIMIT_S) as client:
        return int(await client.call(account.to("deposit"), cents=cents))


def told(client: Client, count: int = 1) -> list[Any]:
    """What the watcher was told, once it is so much."""
    found: list[Any] = ask_until(client, "watcher.all_told", lambda all_told: len(all_told) >= count)
    return found


def watched(client: Client, target: str, holder: str = "bank") -> None:
    """Monitor an account, and wait until the process that has it knows."""
    wait_known(client, target)
    client.call("watcher.watch", target=target)
    ask_until(client, f"backplane.{holder}.statistics", lambda known: known["addresses"]["watchers"] >= 1)


def wait_known(client: Client, account: str) -> None:
    """Until the watcher's process knows that of an account. One that learns of it too late takes it for dead."""
    client.call("watcher.deposit_at", account=account, cents=0, timeout=LIMIT_S)


def wait_restarted(system: System, name: str, dead: int) -> None:
    """Until the backplane is up again, in another process."""
    with system.connect() as client:
        ask_until(
            client,
            "supervisor.status",
            lambda status: any(
                entry["name"] == name and entry["pid"] not in (0, None, dead) and entry["state"] == "up"
                for entry in status["backplanes"]
            ),
        )


def test_an_address_is_called_from_clients_and_objects_and_the_end_is_told_with_its_reason(system: System) -> None:
    """Text that travels in arguments and results; the same call for a client, an object and the command line."""
    with system.connect() as client:
        account = opened(client)
        assert client.call(account.to("deposit"), cents=5) == 5
        assert client.call("watcher.deposit_at", account=account, cents=5) == 10
        assert asyncio.run(deposited(system, account, 5)) == 15
        client.cast(account.to("deposit"), cents=-5)
        said = system.command("call", "--address", account, "deposit", "cents=1")
        assert said.stdout.strip() == "11", said
        watched(client, account)
        ended_s = client.call(account.to("close"), reason="moved away")
        ((of, reason, because, told_s),) = told(client)
        assert (of, reason, because) == (account, "ended", "moved away")
        judge("from the end of an object to a monitor's action in another process", told_s - ended_s, TOLD_S_MAX)
        with pytest.raises(NotFound, match=f"accounts:{account.number} has ended"):
            client.call(account.to("deposit"), cents=1)
        assert opened(client) != account


def test_another_component_spawns_where_it_is_offered(system: System) -> None:
    """The object is where the component is, not where its spawner is."""
    with system.connect() as client:
        account = Address(client.call("watcher.open_there", component="accounts", owner="bob", backplane="bank"))
        assert (account.backplane, account.component) == ("bank", "accounts")
        assert client.call(account.to("deposit"), cents=7) == 7
        with pytest.raises(NotFound, match="lets others spawn no 'Ledger': one of Account"):
            client.call("accounts.spawn", kind="Ledger")


def test_kill_minus_nine_is_told_and_an_old_address_never_reaches_a_new_object(system: System) -> None:
    """The next process gives the same numbers again; an address carries the incarnation, so it is told that it has ended."""
    with system.connect() as client:
        account = opened(client)
        watched(client, account)
        client.call("watcher.watch", target="bank")
        dead = system.pids()["bank"]
        struck_s = time.monotonic()
        os.kill(dead, signal.SIGKILL)
        ends = told(client, 2)
        assert {(of, reason) for of, reason, *_ in ends} == {(account, "killed"), ("bank", "killed")}
        judge("from kill -9 to the last monitor's action", max(end[3] for end in ends) - struck_s, TOLD_S_MAX)
        wait_dead(dead)
        wait_restarted(system, "bank", dead)
        again = Address(ask_until(client, "accounts.open", lambda _address: True, owner="eve"))
        while again.number < account.number:  # it counts anew
            again = opened(client, "eve")
        assert (again.component, again.number) == (account.component, account.number)
        assert again != account
        assert client.call(again.to("deposit"), cents=100) == 100
        with pytest.raises(NotFound, match="has ended: the process of backplane bank that had it was another"):
            client.call(account.to("deposit"), cents=1)
        wait_known(client, again)
        client.call("watcher.watch", target=account)
        assert told(client, 3)[2][:2] == [account, "ended"]
        assert client.call(again.to("deposit"), cents=1) == 101


def test_who_watched_and_was_killed_is_forgotten(system: System) -> None:
    """Or each death would leave something behind where the object is."""
    with system.connect() as client:
        account = opened(client)
        watched(client, account)
        os.kill(system.pids()["office"], signal.SIGKILL)
        ask_until(client, "backplane.bank.statistics", lambda known: known["addresses"]["watchers"] == 0)
        assert client.call(account.to("close")) > 0.0


def test_an_orderly_restart_is_an_end_and_waits_for_no_monitor(system: System) -> None:
    """A drain is not held up by those who wait for an end: neither where the object is, nor where its monitor is."""
    with system.connect() as client:
        account = opened(client)
        watched(client, account)
        client.call("watcher.watch", target="bank")
        assert system.command("restart", "bank").returncode == 0
        assert {(of, reason) for of, reason, *_ in told(client, 2)} == {(account, "ended"), ("bank", "ended")}
        another = opened(client)
        watched(client, another)
        done = system.command("restart", "office")
        assert done.returncode == 0, done
        assert client.call(another.to("deposit"), cents=2) == 2
        ask_until(client, "backplane.bank.statistics", lambda known: known["addresses"]["watchers"] == 0)


def test_what_never_existed_and_what_is_of_another_system(system: System) -> None:
    """Each is told at once, and in words that say which it is."""
    with system.connect() as client:
        account = opened(client)
        never = Address(f"{account.rpartition(':')[0]}:4711")
        client.call("watcher.watch", target=never)
        assert told(client)[0][:2] == [never, "never existed"]
        client.call("watcher.watch", target="vault")
        assert told(client, 2)[1][:2] == ["vault", "never existed"]
        with pytest.raises(NotFound, match="accounts:4711 never existed"):
            client.call(never.to("deposit"), cents=1)
        foreign = Address(f"elsewhere/{account.partition('/')[2]}")
        with pytest.raises(UnknownRoute, match="this system knows none"):
            client.call(foreign.to("deposit"), cents=1)
        client.call("watcher.watch", target=foreign)
        assert told(client, 3)[2][:2] == [foreign, "unreachable"]


@pytest.fixture
def two(meet: Meet, folder: Path) -> Nodes:  # noqa: F811
    """A node that watches, and one that has what is watched."""
    shutil.copy(HERE / "addressed.py", folder)
    return meet(
        "ab", components={"a": ["served:Home", "addressed:Watcher"], "b": ["served:Calc", "addressed:Accounts"]}
    )


def test_over_two_nodes_an_address_is_called_and_its_end_is_told(two: Nodes) -> None:
    """An object, a backplane and a node: ended, killed, unreachable."""
    with two.client("a") as client, two.client("b") as there:
        account = Address(client.call("watcher.open_there", component="b/accounts", owner="ada"))
        assert (account.home, account.backplane) == ("b", "main")
        assert client.call("watcher.deposit_at", account=account, cents=3) == 3
        assert there.call(account.to("deposit"), cents=3) == 6
        other = Address(client.call("b/accounts.spawn", kind="Account", settings={"owner": "bob"}))
        third = Address(there.call("accounts.open", owner="eve"))
        for target in (account, other, "b/main", "b/"):
            client.call("watcher.watch", target=target)
        ask_until(there, "backplane.main.statistics", lambda known: known["addresses"]["watchers"] == 2)
        ask_until(there, "backplane.node.statistics", lambda known: known["addresses"]["watchers"] == 4)
        ended_s = client.call(account.to("close"), reason="moved away")
        ((of, reason, because, told_s),) = told(client)
        assert (of, reason, because) == (account, "ended", "moved away")
        judge("from the end of an object to a monitor's action at another node", told_s - ended_s, TOLD_S_MAX)
        struck_s = time.monotonic()
        there.cast("accounts.kill")
        ends = told(client, 3)[1:]
        assert {(of, reason) for of, reason, *_ in ends} == {(other, "killed"), ("b/main", "killed")}
        judge("from kill -9 to the last action at another node", max(end[3] for end in ends) - struck_s, TOLD_S_MAX)
        wait_restarted(two.systems["b"], "main", 0)
        wait_reached(client)  # so the node over there knows it, too: else it would take it for dead
        client.call("watcher.watch", target=third)
        assert told(client, 4)[3][:2] == [third, "ended"]
        os.kill(two.systems["b"].pids()["node"], signal.SIGKILL)
        assert told(client, 5)[4][:2] == ["b/", "unreachable"]
