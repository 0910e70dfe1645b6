"""Things of another node over HTTP: `a` has a gateway and no things, `b` has things and no gateway. `b` decides who may."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import Permission
from appbackplane.transport import call_checks
from appbackplane.transport.async_client import connect_async
from appbackplane.transport.errors import PermissionDenied
from tests.waiting import LIMIT_S, wait_until

from .conftest import System, Up, short_folder, systems_in, wait_dead
from .peers.conftest import address, free_port, introduce
from .test_things import BRIGHTNESS, LAMP, OVERHEATED, TOKEN, Web

BEN = "ben-token"
HALL_ID = "urn:appbackplane:b/house:hall%2F2"
HALL = "/things/urn:appbackplane:b%2Fhouse:hall%252F2"
NODE = """
[node]
name = "{name}"
listen = "{listen}"
keys = "keys-{name}"
[peers]
"{there}" = "{other}"
[permissions]
file = "{name}.json"
operators = ["local", "ada"]
"""
A = f"""
[backplane.web]
components = ["appbackplane.runtime.things.web:Gateway"]
restart = {{{{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}}}
[backplane.web.settings.Gateway]
listen = "127.0.0.1:0"
nodes = ["b"]
[backplane.web.settings.Gateway.tokens]
ada = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
ben = "{hashlib.sha256(BEN.encode()).hexdigest()}"
"""
B = """
nodes = ["a"]
[backplane.things]
components = ["housed:House"]
restart = {{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}
[backplane.gates]
components = ["housed:Gates"]
[backplane.exposed]
components = ["appbackplane.runtime.things.nodes:ExposedThings"]
restart = {{ max = 1000, backoff = "5ms", backoff_max = "10ms" }}
"""


class Pair:
    """Both nodes, in one folder."""

    def __init__(self, folder: Path, begin: Up) -> None:
        self._begin = begin
        self._listen = {name: address(("127.0.0.1", free_port())) for name in "ab"}
        self.permissions = folder / "b.json"
        self.own_permissions = folder / "a.json"
        (folder / "housed.py").write_text(Path(__file__).with_name("housed.py").read_text())
        introduce(folder, "ab")
        self.systems = {name: self.start(name) for name in "ba"}
        for system in self.systems.values():
            system.wait_up()

    def start(self, name: str) -> System:
        """A node; does not wait for anything."""
        other = "b" if name == "a" else "a"
        toml = NODE + (A if name == "a" else B)
        return self._begin(
            toml.format(name=name, listen=self._listen[name], there=self._listen[other], other=other), name
        )

    def permit(self, *permissions: Permission) -> None:
        """Let these be all permissions of `b`."""
        change(self.permissions, lambda _: (Permissions(permissions=permissions), None))


@pytest.fixture(scope="module")
def pair(_no_ignored_interrupt: None) -> Iterator[Pair]:
    """Two systems for all."""
    with short_folder() as folder, systems_in(folder) as begin:
        pair = Pair(folder, begin)
        ada = Web(pair.systems["a"])
        wait_until(lambda: ada.ask("GET", LAMP).status == 200, "the things of b are not listed")
        yield pair


@pytest.fixture
def ada(pair: Pair) -> Web:
    """An operator of both nodes."""
    return Web(pair.systems["a"])


@pytest.fixture
def ben(pair: Pair) -> Web:
    """A user without permissions."""
    pair.permit()
    ben = Web(pair.systems["a"], BEN)
    wait_until(lambda: ben.ask("GET", "/things").body == [], "Ben still sees things")
    return ben


def bens(*access: str, things: tuple[str, ...] = ("urn:dev:lamp-1",)) -> Permission:
    """A permission of Ben's."""
    return Permission(id="1", who="ben", access=access, things=things)


def test_they_are_listed_and_used_as_those_of_this_node(ada: Web) -> None:
    """An id that is no URI of its own names the node, as each node may have such a thing. The user travels along."""
    listed = [each["id"] for each in ada.ask("GET", "/things").body]
    assert listed == ["urn:appbackplane:b/house:hall%2F2", "urn:dev:lamp-1"]
    assert ada.ask("PUT", BRIGHTNESS, 44).status == 204 and ada.ask("GET", BRIGHTNESS).body == 44
    assert ada.ask("GET", f"{HALL}/properties/brightness").body == 7
    assert ada.ask("GET", f"{LAMP}/properties").body["user"].startswith("ada by exposed/")
    assert ada.ask("POST", f"{LAMP}/actions/double", {"number": 4}).body == 8
    assert ada.ask("GET", "/search?type=saref:LightSwitch").body[0]["id"] == listed[0]


def test_errors_are_those_of_the_thing(ada: Web) -> None:
    """Whatever a gateway of the node itself would say."""
    refused = ada.ask("PUT", BRIGHTNESS, 101)
    assert refused.status == 400 and "<= 100" in refused.body["detail"]
    assert ada.ask("GET", f"{LAMP}/properties/colour").status == 404
    assert ada.ask("PUT", f"{LAMP}/properties/user", "eve").status == 405


def test_events_and_changes_come_in_order(ada: Web) -> None:
    """By both ways."""
    stream, changes = ada.events(OVERHEATED, 200), ada.events(f"{BRIGHTNESS}/stream", 2)
    next(stream), next(changes)
    path = f"{OVERHEATED}?sub=1"
    assert ada.ask("HEAD", path).status == 200
    assert ada.ask("POST", f"{LAMP}/actions/burst", {"count": 200}).status == 204
    assert [data for _, _, data in stream] == [float(number) for number in range(200)]
    assert [ada.ask("GET", path).body for _ in range(200)] == [float(number) for number in range(200)]
    for value in (51, 52):
        ada.ask("PUT", BRIGHTNESS, value)
    assert [data for _, _, data in changes] == [51, 52]


def test_the_node_of_a_thing_decides(pair: Pair, ben: Web) -> None:
    """What it permits can be seen and done, and nothing else; what this node permits is nothing to it."""
    everything = Permission(id="9", who="ben", access=("read", "write", "invoke", "observe"), things=("*",))
    change(pair.own_permissions, lambda _: (Permissions(permissions=(everything,)), None))
    for path in (LAMP, BRIGHTNESS, f"{LAMP}/properties/user"):
        assert ben.ask("GET", path).status == 404
    pair.permit(bens("read:brightness", "invoke:double"))
    wait_until(lambda: ben.ask("GET", BRIGHTNESS).status == 200, "Ben may not read")
    td = ben.ask("GET", LAMP).body
    assert (set(td["properties"]), set(td["actions"]), "events" in td) == ({"brightness"}, {"double"}, False)
    assert ben.ask("PUT", BRIGHTNESS, 5).status == 403
    change(pair.own_permissions, lambda _: (Permissions(), None))
    wait_until(lambda: ben.ask("GET", LAMP).status == 200, "this node hides what the other one permits")
    assert [each["id"] for each in ben.ask("GET", "/things").body] == ["urn:dev:lamp-1"]


def test_a_revocation_ends_open_streams(pair: Pair, ben: Web, ada: Web) -> None:
    """Those of its user alone."""
    pair.permit(bens("observe"))
    wait_until(lambda: ben.ask("GET", LAMP).status == 200, "Ben does not see the lamp")
    with closing(ben.open("GET", OVERHEATED)) as stream, closing(ada.open("GET", OVERHEATED)) as adas:
        assert stream.readline() == b": open\n"
        pair.permit()
        while stream.readline():
            pass
        assert ada.ask("POST", f"{LAMP}/actions/burst", {"count": 1}).status == 204
        assert adas.readline() == b": open\n" and adas.readline() == b"\n" and adas.readline() == b"event: overheated\n"
    assert ben.ask("GET", LAMP).status == 404


def test_a_permission_that_is_given_here_holds_there_until_it_is_revoked(pair: Pair, ben: Web, ada: Web) -> None:
    """Written by the node of the thing; a guest link's token is known here, too."""
    hall = "urn:appbackplane:b/house:hall%2F2"
    given = ada.ask("POST", "/permissions", {"who": "ben", "things": [hall], "access": ["read", "share"]})
    assert given.status == 201
    wait_until(lambda: ben.ask("GET", f"{HALL}/properties/brightness").body == 7, "Ben may not read")
    (told,) = [each for each in ada.ask("GET", "/permissions").body if each["id"] == given.body["id"]]
    assert (told["things"], told["node"], told["by"]) == ([hall], "b", "ada")
    assert json.loads(pair.permissions.read_text())["permissions"][0]["things"] == ["urn:appbackplane:house:hall%2F2"]
    link = ben.ask("POST", "/permissions", {"who": "link", "things": [hall], "access": ["read"]})
    assert link.status == 201
    guest = Web(pair.systems["a"], link.body["token"])
    wait_until(lambda: guest.ask("GET", f"{HALL}/properties/brightness").body == 7, "the guest may not read")
    assert guest.ask("GET", LAMP).status == 404
    mixed = ben.ask("POST", "/permissions", {"who": "cid", "things": [hall, "urn:none"], "access": ["read"]})
    assert mixed.status == 400 and "several nodes" in mixed.body["detail"]
    assert ben.ask("POST", "/permissions", {"who": "cid", "things": [hall], "access": ["write"]}).status == 403
    assert ada.ask("DELETE", f"/permissions/{given.body['id']}").status == 204
    wait_until(lambda: ben.ask("GET", HALL).status == 404, "Ben still reads")
    wait_until(lambda: guest.ask("GET", HALL).status == 401, "the guest still reads")


def test_sharing_tells_nobody_what_there_is(ben: Web) -> None:
    """A thing of which Ben may not know reads as one that does not exist."""
    for other in ([], ["urn:none"]):
        hidden, missing = (
            ben.ask("POST", "/permissions", {"who": "cid", "things": [id, *other], "access": ["read"]})
            for id in ("urn:dev:lamp-1", "urn:dev:lamp-9")
        )
        assert hidden.status == missing.status == 403
        assert json.dumps(hidden.body).replace("lamp-1", "lamp-9") == json.dumps(missing.body)


def test_a_permission_of_this_node_is_revoked_whatever_another_says(pair: Pair, ada: Web) -> None:
    """It may have one of the same id."""
    given = ada.ask("POST", "/permissions", {"who": "ben", "things": ["urn:own"], "access": ["read"]})
    id = given.body["id"]
    pair.permit(msgspec.structs.replace(bens("read"), id=id))

    def nodes() -> list[str]:
        return [each.get("node", "") for each in ada.ask("GET", "/permissions").body if each["id"] == id]

    wait_until(lambda: nodes() == ["", "b"], "the permission of b is not known")
    assert ada.ask("DELETE", f"/permissions/{id}").status == 204 and nodes() == ["b"]


def test_nobody_else_speaks_for_users(pair: Pair) -> None:
    """A client of this node cannot name a principal; one of the other node is no node."""

    async def read_as_ada() -> None:
        read = {"thing": "urn:dev:lamp-1", "kind": "read", "name": "brightness", "arguments": {}}
        async with await connect_async(pair.systems["a"].run_dir) as client:
            spec = call_checks.asked("b/exposed.use", None, None, LIMIT_S, read, {}, None, False)
            spec.principal = "ada"
            await client.request(spec)

    pair.permit()
    with pytest.raises(PermissionDenied, match=r"^node:a/\S+ may not read"):
        asyncio.run(read_as_ada())
    with (
        pair.systems["b"].connect() as client,
        pytest.raises(PermissionDenied, match="for the gateways of other nodes"),
    ):
        client.call("exposed.news", known={})


def test_no_value_outlives_its_process(pair: Pair, ada: Web) -> None:
    """A lamp that has started again is as bright as it begins."""
    assert ada.ask("PUT", BRIGHTNESS, 66).status == 204
    pid = pair.systems["b"].pids()["things"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    wait_until(lambda: ada.ask("GET", BRIGHTNESS, Prefer="wait=1").body == 7, "the lamp is not back")


def found(web: Web, where: str) -> list[str]:
    """The things for which a condition holds."""
    answer = web.ask("GET", f"/search?where={where}")
    return [each["id"] for each in answer.body] if answer.status == 200 else [str(answer.status)]


def test_a_search_finds_them_by_their_values(pair: Pair, ada: Web) -> None:
    """Those that were published before this gateway started as well; and for those who may read them."""
    assert ada.ask("PUT", BRIGHTNESS, 61).status == 204
    wait_until(lambda: found(ada, "brightness%3D61") == ["urn:dev:lamp-1"], "the new value is not found")
    wait_until(lambda: found(ada, "brightness%3D7") == [HALL_ID], "the first value of the other lamp is not found")
    pid = pair.systems["a"].pids()["web"]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    again = Web(pair.systems["a"])
    wait_until(lambda: found(again, "brightness%3D61") == ["urn:dev:lamp-1"], "the old value is not found")
    pair.permit(bens("write:brightness"))
    other = Web(pair.systems["a"], BEN)
    wait_until(lambda: other.ask("GET", LAMP).status == 200, "Ben does not see the lamp")
    assert found(other, "brightness%3D61") == []


def test_a_node_that_is_gone_is_named_and_comes_back(pair: Pair, ada: Web) -> None:
    """Its things are unavailable meanwhile, and subscribers learn that they may have missed something."""
    stream = ada.events(OVERHEATED, 2)
    next(stream)
    for pid in pair.systems["b"].processes():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: ada.ask("GET", BRIGHTNESS).status == 503, "the things of b are still served")
    gone = ada.ask("GET", BRIGHTNESS)
    assert "node 'b'" in gone.body["detail"] and gone.headers["Retry-After"] == "1"
    assert found(ada, "brightness%3E0") == []
    pair.systems["b"] = pair.start("b")
    wait_until(lambda: ada.ask("GET", BRIGHTNESS).status == 200, "the things of b are not served again")
    assert ada.ask("POST", f"{LAMP}/actions/burst", {"count": 1}).status == 204
    assert [(event, data) for event, _, data in stream] == [("lost", None), ("overheated", 0.0)]
