"""Topics between nodes: who asked for one hears it once, in order, wherever it is published; and sees what it missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from appbackplane.transport import Client
from appbackplane.transport.inbox import Message
from tests.waiting import Limit

from ..conftest import LIMIT_S, ask_until
from .conftest import Meet, Nodes

#: Messages of each node; and how many are published before all have been heard: more may be lost, and counted, where a reader
#: does not get the processor for long enough.
COUNT, AT_ONCE = 2_000, 200


@contextmanager
def clients(nodes: Nodes) -> Iterator[dict[str, Client]]:
    """One of each node."""
    with nodes.systems["a"].connect() as of_a, nodes.systems["b"].connect() as of_b:
        yield {"a": of_a, "b": of_b}


def tell(client: Client, who: str, numbers: list[int], topic: str = "prices.eu") -> None:
    """Have this client's own system publish."""
    client.call("prices.tell", topic=topic, who=who, numbers=numbers, timeout=LIMIT_S)


def wait_crossing(of: dict[str, Client], way: str) -> None:
    """Until what the first publishes is heard by the objects of the second; what is published before may be missed."""
    first, second = way
    limit, number = Limit(), 0
    while not any(who == f"hello {first}" for who, _ in of[second].call("prices.told")["open"]):
        limit.check(f"nothing of {first} comes to {second}")
        tell(of[first], f"hello {first}", [number := number - 1])


def of(who: str, heard: list[list[object]]) -> list[object]:
    """The numbers of one publisher."""
    return [number for each, number in heard if each == who]


def all_heard(heard: list[list[object]], number: int) -> bool:
    """Whether this number of both nodes has come."""
    return all(number in of(publisher, heard) for publisher in "ab")


def take_until(stream: Iterator[Message], number: int) -> list[Message]:
    """To the one with this number."""
    taken = []
    for message in stream:
        taken.append(message)
        if message.body["number"] == number:
            return taken
    pytest.fail(f"ended before {number} came")


def test_objects_hear_what_other_nodes_publish_each_message_once_and_in_order(both: Nodes) -> None:
    """Both publish on the same topic and both hear it: what came from a node must not go back there, nor to a third."""
    with clients(both) as by:
        wait_crossing(by, "ab")
        wait_crossing(by, "ba")
        numbers = list(range(COUNT))
        for begin in range(0, COUNT, AT_ONCE):
            for who, client in by.items():
                tell(client, who, numbers[begin : begin + AT_ONCE])
            for client in by.values():
                ask_until(client, "prices.told", lambda told, last=begin + AT_ONCE - 1: all_heard(told["open"], last))
        for who, client in by.items():
            tell(client, who, [COUNT], topic="prices.us")
        for who, client in by.items():
            other = "ab".replace(who, "")
            # Its own as well: what asks is more urgent than what hears.
            heard = ask_until(
                client,
                "prices.told",
                lambda told, who=who: all_heard(told["open"], COUNT) and COUNT in of(who, told["deaf"]),
            )
            for publisher in "ab":
                assert of(publisher, heard["open"]) == [*numbers, COUNT], f"{publisher} at {who}"
            assert of(who, heard["deaf"]) == [*numbers, COUNT], "its own system's are heard by all"
            assert of(other, heard["deaf"]) == [], "who did not ask for other nodes' hears none"


def test_clients_hear_and_publish_across_nodes(both: Nodes) -> None:
    """A client is asked nothing more than on one host: it subscribes, and from a heartbeat later hears all nodes."""
    with clients(both) as by, by["b"].subscribe("prices.eu", timeout=LIMIT_S) as stream:
        wait_crossing(by, "ab")
        heard = None
        limit = Limit()
        while heard is None:  # its subscription has to come to `a` first
            limit.check("nothing of another node is heard")
            by["a"].publish("prices.eu", who="a client", number=0)
            with suppress(TimeoutError):
                heard = stream.get(timeout=0.05)
        by["a"].publish("prices.eu", who="a client", number=1)
        tell(by["a"], "a component", [2])
        awaited = {("a client", 1), ("a component", 2)}
        while awaited:
            body = stream.get(timeout=LIMIT_S).body
            awaited.discard((body["who"], body["number"]))
        ask_until(by["b"], "prices.told", lambda told: 1 in of("a client", told["open"]))


def test_what_is_not_exported_stays(both: Nodes) -> None:
    """A topic that nobody has declared for others is nobody else's."""
    with clients(both) as by, by["b"].subscribe("private.eu", timeout=LIMIT_S) as stream:
        wait_crossing(by, "ab")
        tell(by["a"], "a", [1], topic="private.eu")
        tell(by["a"], "a", [-99], topic="prices.eu")
        ask_until(by["b"], "prices.told", lambda told: -99 in of("a", told["open"]))
        tell(by["b"], "b", [3], topic="private.eu")
        assert [message.body["who"] for message in take_until(stream, 3)] == ["b"]


def test_what_a_partition_swallowed_is_counted(meet: Meet) -> None:
    """Nothing is kept for a node that cannot be reached; when it can again, its subscribers know how many they have missed."""
    nodes = meet("ab", is_proxied=True)
    with clients(nodes) as by, by["b"].subscribe("prices.eu", timeout=LIMIT_S) as stream:
        wait_crossing(by, "ab")
        tell(by["a"], "a", [0])
        take_until(stream, 0)
        for proxy in nodes.proxies.values():
            proxy.cut()
        tell(by["a"], "a", list(range(1, 101)))
        ask_until(
            by["a"], "node.peers", lambda rows: any(row["name"] == "b" and row["state"] == "dead" for row in rows)
        )
        tell(by["a"], "a", list(range(101, 201)))
        for proxy in nodes.proxies.values():
            proxy.heal()
        number = 200
        limit = Limit()
        while (first := stream.try_get()) is None:
            limit.check("nothing is heard after the partition")
            tell(by["a"], "a", [number := number + 1])
        assert first.body["number"] - 1 == first.lost, "each of the others was missed"
