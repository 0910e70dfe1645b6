"""Topics between processes: who hears what, before and after somebody has died, and what is told of what went missing."""

from __future__ import annotations

import os
import signal

from appbackplane.transport import Client, Message

from .conftest import Up, answer_of, ask_until, wait_dead, wait_ready

RADIO = """
[backplane.tower]
components = ["components:Sender"]
[backplane.kitchen]
components = ["components:Hearer"]
[backplane.yard]
components = ["components:Bystander"]
"""


def lost_at(client: Client) -> int:
    """Messages that the sender knows to have found no reader."""
    return int(client.call("backplane.tower.statistics")["links"]["topics_lost_here"])


def test_a_message_reaches_other_backplanes_and_clients_in_order(up: Up) -> None:
    """Subscribers by declaration and subscribers of the moment, exact topics and all below; numbered, so that nothing is missed."""
    system = up(RADIO)
    with system.connect() as client, client.subscribe("numbers.next") as exact, client.subscribe("numbers.*") as below:
        assert exact.unconfirmed == below.unconfirmed == ()
        assert client.call("sender.send", count=500) == 500
        wanted = list(range(1, 501))
        assert [exact.get(timeout=30).body["number"] for _ in wanted] == wanted
        assert [below.get(timeout=30).body["number"] for _ in wanted] == wanted
        assert (exact.lost_count, below.lost_count) == (0, 0)
        assert ask_until(client, "hearer.heard", lambda heard: len(heard) == 500) == wanted
        assert client.publish("numbers.own", number=501, filling=b"") == 1, "clients publish too: to the one that hears"
        assert ask_until(client, "hearer.heard", lambda heard: len(heard) == 501)[-1] == 501


def test_a_subscriber_that_is_restarted_hears_again_and_what_it_missed_is_counted(up: Up) -> None:
    """Its successor is told nothing of what was before it; who publishes goes on, and knows how much found nobody."""
    system = up(RADIO)
    with system.connect() as client:
        client.call("sender.send", count=100)
        ask_until(client, "hearer.heard", lambda heard: len(heard) == 100)
        kitchen = system.pids()["kitchen"]
        os.kill(kitchen, signal.SIGKILL)
        wait_dead(kitchen)
        while not lost_at(client):  # until the sender has heard of it, what it sends goes to the dead, as letters do
            client.call("sender.send", count=1)
        before = lost_at(client)
        client.call("sender.send", count=100)
        assert lost_at(client) == before + 100
        ask_until(client, "hearer.heard", lambda heard: heard == [])
        first = client.call("sender.send", count=1)
        ask_until(client, "hearer.heard", lambda heard: heard == [first])
        assert client.call("sender.send", count=100) == first + 100
        heard = ask_until(client, "hearer.heard", lambda heard: len(heard) == 101)
        assert heard == list(range(first, first + 101))


def test_a_publisher_that_is_restarted_is_heard_again(up: Up) -> None:
    """A client subscribes to whoever publishes, at any time: also to those that come back."""
    system = up(RADIO)
    with system.connect() as client, client.subscribe("numbers.next") as numbers:
        client.call("sender.send", count=3)
        assert [numbers.get(timeout=30).body["number"] for _ in range(3)] == [1, 2, 3]
        tower = system.pids()["tower"]
        os.kill(tower, signal.SIGKILL)
        wait_dead(tower)
        ask_until(client, "sender.send", lambda last: last == 0, count=0)
        message: Message | None = None
        while message is None:  # what it says before it has been asked to tell us, nobody hears
            client.call("sender.send", count=1)
            client.call("backplane.tower.statistics")
            message = numbers.try_get()
        assert message.lost == 0, "its numbers begin anew, which is no gap"
        assert numbers.lost_count == 0


def test_a_client_that_does_not_read_loses_messages_and_can_count_them(up: Up) -> None:
    """The publisher is not slowed down by it, what is lost is counted at both ends, and the two counts agree."""
    system = up(RADIO)
    hearer = system.program("hearer", "numbers.next", "-1")
    wait_ready(hearer)
    os.kill(hearer.pid, signal.SIGSTOP)
    with system.connect() as client:
        ask_until(client, "sender.send", lambda _: lost_at(client) > 0, count=2_000, size=10_000)
        lost = lost_at(client)
        last = client.call("sender.send", count=0)
        os.kill(hearer.pid, signal.SIGCONT)
        # Once it reads again there is room again; one that gets through tells of all that did not.
        client.publish("numbers.next", number=-1, filling=b"")
    seen = answer_of(hearer)
    assert seen["lost"] == seen["lost_count"] == lost
    assert len(seen["numbers"]) + lost == last + 1
