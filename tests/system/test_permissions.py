"""Permissions over HTTP: nobody reads, does, sees or learns of what he was not granted; a revocation ends open streams."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from appbackplane.runtime.permissions.permission_file import GuestLink, Permissions, change
from appbackplane.runtime.permissions.table import Permission
from tests.models.permission_model import may
from tests.waiting import wait_until

from .conftest import System
from .generated_permissions import GROUPS, THINGS, USES, answers, expected, forms_of, generated, put
from .test_directory import lamp
from .test_things import BRIGHTNESS, LAMP, OVERHEATED, TOML, Web, house_up

#: Each round of generated permissions asks some sixty requests.
ROUNDS = 12
SEED = 23
BEN, GUEST = "ben-token", "guest-token"
HALL = "/things/urn:appbackplane:house:hall%252F2"
PERMITTING = (
    TOML.replace("tokens = {", f'tokens = {{ ben = "{hashlib.sha256(BEN.encode()).hexdigest()}",')
    + '\n[permissions]\noperators = ["local", "ada"]\n'
)


def house_permitting() -> AbstractContextManager[System]:
    """The house of test_things.py, in which Ada is an operator, and Ben and guests need permissions."""
    return house_up(PERMITTING)


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all."""
    with house_permitting() as system:
        yield system


@pytest.fixture
def path(house: System) -> Path:
    """The file of permissions, which is empty, as the gateway knows: else what a test sees might be from the one before."""
    path = Path(house.folder) / "permissions.json"
    permit(path)
    ben = Web(house, BEN)
    wait_until(lambda: ben.ask("GET", "/things").body == [], "Ben still sees things")
    return path


def permit(path: Path, *permissions: Permission, links: tuple[GuestLink, ...] = ()) -> None:
    """Let these be all permissions there are."""
    change(path, lambda _: (Permissions(permissions=permissions, links=links), None))


def bens(*access: str, things: tuple[str, ...] = ("urn:dev:lamp-1",), **more: Any) -> Permission:
    """A permission of Ben's."""
    return Permission(id="1", who="ben", access=access, things=things, **more)


def test_without_a_permission_there_is_nothing(house: System, path: Path) -> None:
    """Every path of an existing thing answers as that of a missing one, but for its name."""
    ben = Web(house, BEN)
    for method, rest in (
        ("GET", ""), ("GET", "/properties"), ("GET", "/properties/brightness"), ("PUT", "/properties/brightness"),
        ("POST", "/actions/double"), ("GET", "/events/overheated/stream"), ("GET", "/properties/brightness/stream?sub=1"),
    ):  # fmt: skip
        body = 5 if method in ("PUT", "POST") else None
        there, missing = (ben.ask(method, f"/things/{id}{rest}", body) for id in ("urn:dev:lamp-1", "urn:dev:lamp-9"))
        assert there.status == missing.status == 404
        assert json.dumps(there.body).replace("lamp-1", "lamp-9") == json.dumps(missing.body)


def test_a_condition_tells_no_value_and_a_write_of_several_needs_leave_for_each(house: System, path: Path) -> None:
    """Whoever may write without reading would find a value by guessing its tag; and of several none is written."""
    ben, ada = Web(house, BEN), Web(house)
    ada.ask("PUT", BRIGHTNESS, 12)
    tag = ada.ask("GET", BRIGHTNESS).headers["ETag"]
    permit(path, bens("write:brightness"))
    wait_until(lambda: ben.ask("PUT", BRIGHTNESS, 13).status == 204, "Ben may not write")
    assert [ben.ask("PUT", BRIGHTNESS, 14, If_Match=each).status for each in (tag, '"guess"', "*")] == [403] * 3
    assert ben.ask("PUT", f"{LAMP}/properties", {"brightness": 15, "picture": "AAE="}).status == 404
    assert ada.ask("GET", BRIGHTNESS).body == 13
    assert ben.ask("PUT", f"{LAMP}/properties", {"brightness": 16}).status == 204


def test_a_description_has_what_its_reader_may_use(house: System, path: Path) -> None:
    """And nothing else; an operator has all."""
    ben, ada = Web(house, BEN), Web(house)
    permit(path, bens("read:brightness", "observe:overheated", "invoke:double"))
    wait_until(lambda: ben.ask("GET", LAMP).status == 200, "Ben does not see the lamp")
    td = ben.ask("GET", LAMP).body
    assert (set(td["properties"]), set(td["actions"]), set(td["events"])) == (
        {"brightness"},
        {"double"},
        {"overheated"},
    )
    brightness = td["properties"]["brightness"]
    assert brightness["readOnly"] is True and "observable" not in brightness
    assert [form["op"] for form in brightness["forms"]] == [["readproperty"]]
    assert [each["id"] for each in ben.ask("GET", "/things").body] == ["urn:dev:lamp-1"]
    assert len(ada.ask("GET", "/things").body) == 2 and len(ada.ask("GET", LAMP).body["actions"]) > 1


def test_each_operation_needs_its_own_access(house: System, path: Path) -> None:
    """What can be used in another way is forbidden; what cannot be used at all does not exist."""
    ben = Web(house, BEN)
    permit(path, bens("read:brightness", "invoke:double"))
    # The gateway and the process of the thing read the file each by itself.
    wait_until(lambda: ben.ask("POST", f"{LAMP}/actions/double", {"number": 4}).body == 8, "Ben may not double")
    assert ben.ask("GET", BRIGHTNESS).status == 200
    assert set(ben.ask("GET", f"{LAMP}/properties").body) == {"brightness"}
    refused = ben.ask("PUT", BRIGHTNESS, 5)
    assert refused.status == 403 and refused.body["detail"].startswith("ben may not write brightness of urn:dev:lamp-1")
    assert ben.ask("GET", f"{BRIGHTNESS}/stream").status == 403
    for path_ in (f"{LAMP}/properties/user", OVERHEATED):
        assert ben.ask("GET", path_).status == 404
    assert ben.ask("POST", f"{LAMP}/actions/burst", {"count": 1}).status == 404


def test_a_revoked_link_stops_open_streams_and_its_token(house: System, path: Path) -> None:
    """The stream of a guest ends; that of another user goes on."""
    link = GuestLink(id="7", digest=hashlib.sha256(GUEST.encode()).hexdigest())
    guests = Permission(id="2", who="link:7", access=("observe", "read"), things=("urn:dev:lamp-1",))
    permit(path, guests, links=(link,))
    guest, ada = Web(house, GUEST), Web(house)
    wait_until(lambda: guest.ask("GET", BRIGHTNESS).status == 200, "the guest's token is not known")
    with closing(guest.open("GET", OVERHEATED)) as stream, closing(ada.open("GET", OVERHEATED)) as adas:
        assert stream.readline() == b": open\n"
        permit(path)
        while stream.readline():
            pass
        assert ada.ask("POST", f"{LAMP}/actions/burst", {"count": 1}).status == 204
        assert adas.readline() == b": open\n" and adas.readline() == b"\n" and adas.readline().startswith(b"event: ")
    wait_until(lambda: guest.ask("GET", BRIGHTNESS).status == 401, "the guest's token is still known")


def test_a_revoked_poll_ends_without_an_event(house: System, path: Path) -> None:
    """As for a thing that is unknown, and the next request of a guest is that of a stranger; the audit log has the refusal."""
    link = GuestLink(id="8", digest=hashlib.sha256(GUEST.encode()).hexdigest())
    guests = Permission(id="3", who="link:8", access=("observe",), things=("urn:dev:lamp-1",))
    permit(path, guests, links=(link,))
    guest, ada = Web(house, GUEST), Web(house)
    wait_until(lambda: guest.ask("GET", LAMP).status == 200, "the guest's token is not known")
    assert guest.ask("HEAD", f"{OVERHEATED}?sub=8").status == 200
    with ThreadPoolExecutor() as pool:
        polling = pool.submit(guest.ask, "GET", f"{OVERHEATED}?sub=8")
        permit(path)
        wait_until(lambda: guest.ask("GET", LAMP).status == 401, "the guest's token is still known")
        assert ada.ask("POST", f"{LAMP}/actions/burst", {"count": 1}).status == 204
        assert polling.result().status in (401, 404)  # 401 if it has come after the revocation
    assert guest.ask("GET", f"{OVERHEATED}?sub=8").status == 401
    ben = Web(house, BEN)
    refusal = '"who":"ben","did":"observe overheated","thing":"urn:dev:lamp-1","permitted":false'

    def is_refused_and_written() -> bool:
        assert ben.ask("GET", f"{OVERHEATED}?sub=8").status == 404
        return refusal in Path(f"{path}.audit").read_text()

    # Ten refusals a second are written, and those before this one may have been as many.
    wait_until(is_refused_and_written, "the refusal is not in the audit log")


def test_the_command_line_and_clients_obey_where_they_are_no_operators(house: System, path: Path) -> None:
    """`local` is an operator here, and so may list; Ben may not act as one by any header."""
    with house.connect() as client:
        assert client.call("house.double", key="urn:dev:lamp-1", number=2) == 4
    ben = Web(house, BEN)
    for headers in ({"X_Forwarded_User": "ada"}, {"X_Principal": "ada"}, {"Forwarded": "for=ada"}):
        assert ben.ask("GET", BRIGHTNESS, **headers).status == 404


def test_what_was_done_is_in_the_audit_log(house: System, path: Path) -> None:
    """By whom."""
    permit(path, bens("invoke:double"))
    ben = Web(house, BEN)
    wait_until(lambda: ben.ask("POST", f"{LAMP}/actions/double", {"number": 4}).status == 200, "Ben may not double yet")
    lines = [msgspec.json.decode(line) for line in Path(f"{path}.audit").read_bytes().splitlines()]
    assert ("ben", "invoke double", "urn:dev:lamp-1") in [
        (each["who"], each["did"], each["thing"]) for each in lines if each.get("permitted")
    ], "beside the changes of permissions, which have no such member"


def test_users_hand_on_what_they_have_and_take_it_back(house: System, path: Path) -> None:
    """Over HTTP; nothing that they lack, and no token but once."""
    ben, ada = Web(house, BEN), Web(house)
    permit(path, bens("read:brightness", "share"))
    wait_until(lambda: ben.ask("GET", LAMP).status == 200, "Ben does not see the lamp")
    asked = {"who": "link", "things": ["urn:dev:lamp-1"], "access": ["read:brightness"], "seconds": 600}
    for wrong in ({"access": ["invoke"]}, {"things": ["*"]}, {"things": ["urn:appbackplane:house:hall%2F2"]}):
        refused = ben.ask("POST", "/permissions", asked | wrong)
        assert (refused.status, refused.body["type"]) == (403, "urn:appbackplane:permission_denied")
    for wrong in (
        {"seconds": -1}, {"access": []}, {"colour": 1}, {"who": 7}, {"who": ""}, {"who": "x" * 201}, {"who": "link:7"},
        {"things": ["urn:dev:lamp-1"] * 65}, {"access": ["read:brightness"] * 33}, {"access": ["read:" + "a" * 250]},
    ):  # fmt: skip
        assert ben.ask("POST", "/permissions", asked | wrong).status == 400
    given = ben.ask("POST", "/permissions", asked)
    assert given.status == 201 and given.headers["Cache-Control"] == "no-store"
    guest = Web(house, given.body["token"])
    wait_until(lambda: guest.ask("GET", BRIGHTNESS).status == 200, "the guest's token is not known")
    assert guest.ask("GET", "/permissions").body == []
    assert guest.ask("POST", "/permissions", asked).status == 403
    assert [each["id"] for each in ben.ask("GET", "/permissions").body] == [given.body["id"]]
    assert [each["who"] for each in ada.ask("GET", "/permissions").body] == ["ben", given.body["who"]]
    assert given.body["token"] not in path.read_text() and given.body["token"] not in Path(f"{path}.audit").read_text()
    assert guest.ask("DELETE", f"/permissions/{given.body['id']}").status == 404
    assert ben.ask("DELETE", f"/permissions/{given.body['id']}").status == 204
    wait_until(lambda: guest.ask("GET", BRIGHTNESS).status == 401, "the guest's token is still known")


def test_the_directory_tells_what_its_reader_may_know(house: System, path: Path) -> None:
    """In lists, searches and events; and operators alone register."""
    ada, ben = Web(house), Web(house, BEN)
    for name in ("urn:dev:lamp-7", "urn:dev:lamp-8"):
        assert ada.ask("PUT", f"/things/{name}", lamp(id=name)).status in (201, 204)
    permit(path, bens("read:brightness", things=("urn:dev:lamp-1", "urn:dev:lamp-7")))
    wait_until(lambda: ben.ask("GET", LAMP).status == 200, "Ben does not see the lamp")
    for question in ("/things", "/search", "/search?text=lamp", "/search/jsonpath?query=$[*]"):
        assert [each["id"] for each in ben.ask("GET", question).body] == ["urn:dev:lamp-1", "urn:dev:lamp-7"]
    assert ben.ask("GET", "/things?limit=1&format=collection").body["total"] == 2
    assert ben.ask("GET", "/search/jsonpath?query=$..user").body == []
    hidden, missing = (ben.ask("GET", f"/things/urn:dev:lamp-{number}") for number in (8, 9))
    assert (hidden.status, hidden.body["detail"].replace("lamp-8", "lamp-9")) == (404, missing.body["detail"])
    for method, name in (("PUT", "urn:dev:lamp-7"), ("PUT", "urn:dev:lamp-8"), ("DELETE", "urn:dev:lamp-9")):
        refused = ben.ask(method, f"/things/{name}", lamp(id=name))
        assert (refused.status, "only operators may register" in refused.body["detail"]) == (403, True)
    stream = ben.events("/events", 1)
    next(stream)
    assert ada.ask("DELETE", "/things/urn:dev:lamp-8").status == 204
    assert ada.ask("DELETE", "/things/urn:dev:lamp-7").status == 204
    assert [(event, data) for event, _, data in stream] == [("thing_deleted", {"id": "urn:dev:lamp-7"})]


@pytest.mark.parametrize("round", range(ROUNDS))
def test_nobody_can_do_or_see_more_than_the_rule_says(house: System, round: int) -> None:
    """Each use of each thing, the descriptions, and the list."""
    source = random.Random(SEED * 1_000 + round)
    all, ben = generated(source), Web(house, BEN)
    put(house.folder / "permissions.json", ben, all)
    visible = {id for id in THINGS if may(all, GROUPS, "ben", id, THINGS[id], "", "", 1e9)[0]}
    assert {each["id"] for each in ben.ask("GET", "/things").body} == visible, all
    for id in THINGS:
        at = f"/things/{id.replace('%', '%25')}"
        described = ben.ask("GET", at)
        assert described.status == (200 if id in visible else 404), all
        for use in USES:
            status = expected(all, id, use)
            # The process of the thing reads the file by itself, within a tenth of a second.
            wait_until(partial(answers, ben, use, at, status), lambda id=id, use=use: f"{all} {id} {use}")
            offered = {op for form in forms_of(described.body, use) for op in form["op"]} if id in visible else set()
            names = {"read": "readproperty", "write": "writeproperty", "invoke": "invokeaction"}
            names["observe"] = "observeproperty" if use.group == "properties" else "subscribeevent"
            assert (names[use.kind] in offered) == (status == 200), (all, id, use)
