"""Topics between processes: who hears what, before and after somebody has died, and what is told of what went missing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from appbackplane.transport import Client, Message
from tests.waiting import Limit

from .conftest import LIMIT_S, System, Up, answer_of, ask_until, standing, wait_dead, wait_ready

#: Nobody else hears the sender, so that what is lost is lost to one.
TOWER = """
[backplane.tower]
components = ["components:Sender"]
"""
HEARD = f"""{TOWER}
[backplane.kitchen]
components = ["components:Hearer"]
restart = {{ max = 1000 }}
"""
RADIO = f"""{HEARD}
[backplane.yard]
components = ["components:Bystander"]
"""


def lost_at(client: Client) -> int:
    """Messages that the sender knows to have found no reader."""
    return int(client.call("backplane.tower.statistics")["links"]["topics_lost_here"])


def send_until_lost(client: Client, **what: int) -> None:
    """Have the sender send, until it knows that something has found no reader."""
    limit = Limit()
    while not lost_at(client):
        limit.check("nothing is lost")
        client.call("sender.send", arguments=what)


@pytest.fixture(scope="module")
def radio(_no_ignored_interrupt: None) -> Iterator[System]:
    """A system in which nobody dies."""
    with standing(RADIO) as system:
        yield system


def test_a_message_reaches_other_backplanes_and_clients_in_order(radio: System) -> None:
    """Subscribers by declaration and subscribers of the moment, exact topics and all below; numbered, so that gaps are seen."""
    with (
        radio.connect() as client,
        client.subscribe("numbers.next", timeout=LIMIT_S) as exact,
        client.subscribe("numbers.*", timeout=LIMIT_S) as below,
    ):
        assert exact.unconfirmed == below.unconfirmed == ()
        before = client.call("sender.send", count=0)
        had = len(ask_until(client, "hearer.heard", lambda heard: before in (0, *heard)))
        assert client.call("sender.send", count=500) == before + 500
        wanted = list(range(before + 1, before + 501))
        assert [exact.get(timeout=LIMIT_S).body["number"] for _ in wanted] == wanted
        assert [below.get(timeout=LIMIT_S).body["number"] for _ in wanted] == wanted
        assert (exact.lost_count, below.lost_count) == (0, 0)
        assert ask_until(client, "hearer.heard", lambda heard: len(heard) == had + 500)[had:] == wanted
        assert client.publish("numbers.own", number=-1, filling=b"") == 1, "clients publish too: to the one that hears"
        assert ask_until(client, "hearer.heard", lambda heard: len(heard) == had + 501)[-1] == -1


def test_a_subscriber_that_is_restarted_hears_again_and_what_it_missed_is_counted(up: Up) -> None:
    """Its successor is told nothing of what was before it; who publishes goes on, and knows how much found nobody."""
    system = up(HEARD)
    with system.connect() as client:
        client.call("sender.send", count=100)
        ask_until(client, "hearer.heard", lambda heard: len(heard) == 100)
        limit, killed = Limit(), set[int]()
        # Until the sender learns of the death, its messages go to the dead, uncounted; and a successor may be up before that.
        while not lost_at(client):
            limit.check("nothing is lost")
            if (pid := system.pids()["kitchen"]) and pid not in killed:
                os.kill(pid, signal.SIGKILL)
                wait_dead(pid)
                killed.add(pid)
            client.call("sender.send", count=1)
        before, last = lost_at(client), client.call("sender.send", count=0)
        limit = Limit()
        # The client learns of the successor before or after the sender does: each message is lost and counted, or heard.
        while not (heard := ask_until(client, "hearer.heard", lambda _: True)):
            limit.check("the successor hears nothing")
            client.call("sender.send", count=1)
        end = client.call("sender.send", count=100)
        heard = ask_until(client, "hearer.heard", lambda heard: heard[-1:] == [end])
        assert heard == list(range(heard[0], end + 1))
        assert lost_at(client) - before == heard[0] - 1 - last


def test_a_publisher_that_is_restarted_is_heard_again(up: Up) -> None:
    """A client subscribes to whoever publishes, at any time: also to those that come back."""
    system = up(TOWER)
    with system.connect() as client, client.subscribe("numbers.next", timeout=LIMIT_S) as numbers:
        client.call("sender.send", count=3)
        assert [numbers.get(timeout=LIMIT_S).body["number"] for _ in range(3)] == [1, 2, 3]
        tower = system.pids()["tower"]
        os.kill(tower, signal.SIGKILL)
        wait_dead(tower)
        ask_until(client, "sender.send", lambda last: last == 0, count=0)
        message: Message | None = None
        limit = Limit()
        while message is None:  # what it says before it has been asked to tell us, nobody hears
            limit.check("nothing is heard of its successor")
            client.call("sender.send", count=1)
            client.call("backplane.tower.statistics")
            message = numbers.try_get()
        assert message.lost == 0, "its numbers begin anew, which is no gap"
        assert numbers.lost_count == 0


def test_a_client_that_does_not_read_loses_messages_and_can_count_them(up: Up) -> None:
    """The publisher is not slowed down by it, what is lost is counted at both ends."""
    system = up(TOWER)
    hearer = system.program("hearer", "numbers.next")
    wait_ready(hearer)
    os.kill(hearer.pid, signal.SIGSTOP)
    with system.connect() as client:
        send_until_lost(client, count=2_000, size=10_000)
        lost_while_stopped = lost_at(client)
        os.kill(hearer.pid, signal.SIGCONT)
        limit = Limit()
        # The first of these that finds room again ends it, and tells of those that did not.
        while hearer.poll() is None:
            limit.check("no message finds room")
            client.call("sender.send", count=1)
    seen = answer_of(hearer)
    assert seen["is_in_order"]
    assert seen["lost"] == seen["last"] - seen["count"], seen
    assert seen["lost_count"] >= seen["lost"]  # it also knows of gaps behind messages that were not taken any more
    assert seen["lost"] >= lost_while_stopped  # and it knows of those that its own inbox had no room for


def test_who_stops_listening_is_sent_nothing_more(radio: System) -> None:
    """A closed subscription that the publisher does not hear of costs both sides for as long as the client lives."""
    with radio.connect() as client:
        with client.subscribe("numbers.next", timeout=LIMIT_S) as numbers:
            sent = client.call("sender.send", count=1)
            assert numbers.get(timeout=LIMIT_S).body["number"] == sent
        with client.subscribe("numbers.*", timeout=LIMIT_S) as other:  # from here on one that still came would be seen
            client.call("sender.send", count=1)
            assert other.get(timeout=LIMIT_S).body["number"] == sent + 1
        for name in ("tower", "kitchen", "yard"):
            links = client.call(f"backplane.{name}.statistics")["links"]
            assert links["refused_casts"] == 0
            errors = client.call(f"backplane.{name}.statistics")["operations"]
            assert errors[f"backplane.{name}.unsubscribe"]["errors"] == 0
    assert not any("Traceback" in line for line in radio.said), radio.said
