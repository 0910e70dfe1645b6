"""Mashups beside the things of a house, in processes of their own: what a kill -9 may cost, and that loops end across them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.things.mashups.deciding import HOPS_MAX
from appbackplane.transport import Client
from tests.waiting import wait_until

from .conftest import System, ask_until, short_folder, systems_in
from .test_things import TOKEN, Web, killed_and_back

TOML = f"""
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
tokens = {{ ada = "{hashlib.sha256(TOKEN.encode()).hexdigest()}" }}
"""
RULES = """
[backplane.things]
components = ["ruled:House"]
[backplane.answers]
components = ["ruled:Answers"]
[backplane.rules]
components = ["appbackplane.runtime.things.mashups:Rules"]
cpu_limit = 50
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
[backplane.rules.settings.Rules.rules.greet]
when = { thing = "house/door", event = "came" }
do = [
    { thing = "house/bell", action = "ring", input = { id = "$data.id" } },
    { pause = 0.005 },
    { thing = "house/bell", action = "note", input = { id = "$data.id" } },
]
mode = "queued"
run_as = "rule:greet"
[backplane.rules.settings.Rules.rules.count]
when = { thing = "house/door", event = "came" }
do = [
    { thing = "house/bell", action = "ring", input = { id = "$data.id" } },
    { thing = "house/bell", action = "note", input = { id = "$data.id" } },
]
mode = "parallel"
run_as = "rule:count"
[backplane.rules.settings.Rules.rules.follow]
when = { thing = "house/left", property = "level" }
do = { thing = "house/right", write = "level", value = "$data" }
mode = "queued"
[backplane.rules.settings.Rules.rules.lost]
when = { thing = "house/cellar", event = "came" }
do = { pause = 1 }
"""
VISITORS = 20
#: How often at least the process of the rules is killed.
KILLS = 5
ENDS = {"completed", "interrupted"}


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all, whose rules have found the things that they name."""
    with short_folder() as folder, systems_in(folder) as begin:
        shutil.copy(Path(__file__).with_name("ruled.py"), folder)
        system = begin(RULES + TOML)
        system.wait_up()
        yield system


@pytest.fixture
def client(house: System) -> Iterator[Client]:
    """A client, once all rules are ready, or refused."""
    with house.connect() as client:
        for mashup in ("rules", "answers"):
            ask_until(
                client, f"{mashup}.rules", lambda rules: all(rule["is_ready"] or rule["refused"] for rule in rules)
            )
        yield client


def runs(client: Client, rule: str) -> list[dict[str, Any]]:
    mashup = "answers" if rule == "answer" else "rules"
    found: list[dict[str, Any]] = client.call(f"{mashup}.runs", rule=rule, limit=1_000)
    return found


def test_no_event_runs_twice_and_none_is_forgotten(house: System, client: Client) -> None:
    """A device repeats its events, so that none is lost. The rules' process is killed again and again while it runs them."""
    visitors: list[str] = []

    def lines(rule: str) -> list[dict[str, Any]]:
        return [line for line in runs(client, rule) if line["cause"]["key"] in visitors]

    def kill_at_work() -> None:
        news = [f"visitor-{len(visitors) + number}" for number in range(VISITORS)]
        visitors.extend(news)

        def is_at_work() -> bool:
            client.call("house.open", key="door", ids=news)
            return len([name for name in client.call("house.counts", key="bell")[0] if name.split()[1] in news]) >= 5

        wait_until(is_at_work, "nobody rings")
        killed_and_back(house, "rules")

    def has_all() -> bool:
        client.call("house.open", key="door", ids=visitors)
        return all(
            {line["cause"]["key"] for line in lines(rule) if line["outcome"] in ENDS} == {*visitors}
            for rule in ("greet", "count")
        )

    def is_interrupted() -> bool:
        kill_at_work()
        wait_until(has_all, "some events have no line")
        return any(line["outcome"] == "interrupted" for rule in ("greet", "count") for line in lines(rule))

    for _ in range(KILLS - 1):
        kill_at_work()
    # A kill may come late, when all that was heard has been run.
    wait_until(is_interrupted, "no run was under way at a kill")
    rung, noted = client.call("house.counts", key="bell")
    assert max(rung.values()) == max(noted.values()) == 1, "no event runs a rule twice"
    for rule in ("greet", "count"):
        told = [line for line in lines(rule) if line["outcome"] != "skipped"]
        assert len(told) == len(visitors), "each event has one line"
        for line in told:
            name = f"rule:{rule} {line['cause']['key']}"
            if line["outcome"] == "completed":
                assert (rung.get(name), noted.get(name)) == (1, 1)
                continue
            assert "its process ended during the run" in line["error"]
            if name in noted:
                assert name in rung and line["steps"][-1] == "house.note bell"


def test_loops_end_across_processes(client: Client) -> None:
    """The hops travel with calls and notifications; no process knows both halves of the loop."""
    halves = ("follow", "answer")
    assert [runs(client, rule) for rule in halves] == [[], []]
    assert {line["outcome"] for line in runs(client, "lost")} == {"refused"}
    client.call("house.set_level", key="left", value=10)

    def limits() -> list[dict[str, Any]]:
        lines = [line for rule in halves for line in runs(client, rule)]
        return [line for line in lines if line["error"].startswith("hop limit")]

    wait_until(limits, "the loop goes on")

    def completed() -> list[int]:
        return [sum(line["outcome"] == "completed" for line in runs(client, rule)) for rule in halves]

    wait_until(lambda: completed() == [HOPS_MAX / 2, HOPS_MAX / 2], completed)
    assert client.call("house.level", key="left") == 10 + HOPS_MAX / 2


def test_a_mashup_is_served_as_a_thing(house: System, client: Client) -> None:
    """With its description, actions with input and output as JSON, and its event."""
    web, thing = Web(house), "urn:appbackplane:rules"
    path = f"/things/{thing}"
    web.wait_listed(thing)
    described = web.ask("GET", path).body
    assert set(described["actions"]) == {"runs", "dry_run", "run", "enable", "disable"}
    dry = web.ask("POST", f"{path}/actions/dry_run", {"rule": "greet", "event": {"data": {"id": "ada"}}}).body
    assert dry["would_run"] and [step.get("input") for step in dry["steps"]] == [{"id": "ada"}, None, {"id": "ada"}]
    ends = web.events(f"{path}/events/ran/stream", 1)
    next(ends)
    assert web.ask("POST", f"{path}/actions/run", {"rule": "count", "event": {"data": {"id": "ada"}}}).body == ""
    [(_, _, news)] = ends
    assert (news["rule"], news["outcome"], news["key"]) == ("count", "completed", "ada")
    told = web.ask("POST", f"{path}/actions/runs", {"rule": "count", "limit": 1_000}).body
    adas = [line["steps"] for line in told if line["cause"]["key"] == "ada"]
    assert adas == [["house.ring bell", "house.note bell"]]
    rules = {rule["name"]: rule for rule in web.ask("GET", f"{path}/properties/rules").body}
    assert "house/cellar" in rules["lost"]["refused"] and rules["greet"]["mode"] == "queued"
