"""Permissions at admission: whoever calls, by whatever way, and before anything is said of whether the thing exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from appbackplane.runtime import Component, InternalError, PermissionDenied, every, operation
from appbackplane.runtime.permissions.access_control import access_control_of
from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import LOCAL_USER, Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, action, event, prop


class Door(Thing):
    """A door."""

    types = ("saref:Door",)

    def __init__(self) -> None:
        self.is_open = False

    @prop(observable=True)
    def open(self) -> bool:
        return self.is_open

    @open.write
    def set_open(self, value: bool) -> None:
        self.is_open = value

    @action
    def ring(self) -> str:
        return "ding"

    @action(priority=1)
    async def pass_on(self) -> str:
        try:
            return str(await self.call("house.ring", key="back"))
        except PermissionDenied as error:
            return error.message

    @action(priority=1)
    async def let_in(self) -> str:
        return str(await self.call("house.ring", key="back"))

    @operation()
    def oil(self) -> str:
        return "oiled"

    knocked = event(int)


class House(Component):
    """Two doors."""

    def setup(self) -> None:
        self.add(Door(), key="front")
        self.add(Door(), key="back")


class Desk(Component):
    """It calls for somebody else, as a gateway does, or for nobody."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @every(5.0)
    async def ring(self) -> None:
        self.heard.append(await self.call("house.ring", key="front"))

    @operation()
    def rung(self) -> list[str]:
        return self.heard

    @operation()
    async def ask(self, route: str, who: str | None, of: str | None, with_: dict[str, Any]) -> Any:
        try:
            return {"result": await self.request(route, with_, key=of, principal=who, priority=0)}
        except PermissionDenied as error:
            return {"denied": error.message}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of permissions."""
    return tmp_path / "permissions.json"


def house_with(path: Path, *permissions: Permission, operators: tuple[str, ...] = ()) -> VirtualBackplane:
    """A house in which these hold."""
    change(path, lambda _: (Permissions(permissions=permissions), None))
    policy = PermissionPolicy(file=str(path), audit=f"{path}.audit", operators=operators)
    return VirtualBackplane(House(), Desk(), permissions=policy)


def permission(
    who: str, *access: str, things: tuple[str, ...] = ("urn:appbackplane:house:front",), **more: Any
) -> Permission:
    """One, of the front door."""
    return Permission(id=f"{who}{access}{things}", who=who, access=access, things=things, **more)


def ask(house: VirtualBackplane, who: str | None, route: str, key: str | None = "front", **arguments: Any) -> Any:
    """The result of a call on somebody's behalf."""
    asked = {"route": f"house.{route}", "who": who, "of": key, "with_": arguments}
    answer = house.call("desk.ask", arguments=asked).result()
    if "denied" in answer:
        raise PermissionDenied(answer["denied"])
    return answer["result"]


def test_each_kind_of_access_is_its_own(path: Path) -> None:
    """Who may read may not write, and the other way round; `describe` is for all who may anything."""
    house = house_with(
        path, permission("ada", "read"), permission("ben", "write:open"), permission("cid", "invoke:ring")
    )
    allowed = {
        "ada": {"open", "describe"}, "ben": {"set_open", "describe"}, "cid": {"ring", "describe"}, "eve": set[str](),
    }  # fmt: skip
    calls: dict[str, dict[str, Any]] = {
        "open": {}, "set_open": {"value": True}, "ring": {}, "describe": {}, "oil": {}, "notify_all": {}, "pass_on": {},
    }  # fmt: skip
    for who, names in allowed.items():
        for name, arguments in calls.items():
            if name in names:
                ask(house, who, name, **arguments)
            else:
                with pytest.raises(PermissionDenied, match=f"{who} may not "):
                    ask(house, who, name, **arguments)


def test_forbidden_and_missing_read_the_same(path: Path) -> None:
    """Else whoever may nothing learns which doors there are."""
    house = house_with(path)
    told = []
    for key in ("front", "nowhere"):
        with pytest.raises(PermissionDenied) as refused:
            ask(house, "eve", "ring", key=key)
        told.append(str(refused.value).replace(key, "KEY"))
    assert told[0] == told[1]


def test_a_call_without_a_key_reaches_no_thing_that_is_not_permitted(path: Path) -> None:
    """The runtime chooses the thing then, so it is checked behind the choice."""
    everything = permission("ada", "invoke", things=("urn:appbackplane:house",))
    house = house_with(path, everything, permission("ben", "invoke", things=("*",)))
    with pytest.raises(PermissionDenied):
        ask(house, "ada", "ring", key=None)
    assert ask(house, "ben", "ring", key=None) == "ding"


def test_a_thing_acts_for_whoever_called_it(path: Path) -> None:
    """An action that calls another thing lends nobody its own rights."""
    house = house_with(path, permission("ada", "invoke"))
    assert ask(house, "ada", "pass_on").startswith("ada may not invoke ring of urn:appbackplane:house:back")
    back = house_with(path, permission("ada", "invoke"), permission("ada", "invoke", things=("*:back",)))
    assert ask(back, "ada", "pass_on") == "ding"


def test_a_refusal_behind_an_action_names_nothing_to_its_user(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else an action tells which things it uses. The log has them, for the operator."""
    house = house_with(path, permission("ada", "invoke"))
    with pytest.raises(InternalError) as told:
        ask(house, "ada", "let_in")
    assert str(told.value).startswith("house.let_in: a call that it makes on behalf of ada is refused")
    assert "house:back" not in str(told.value) and "ring" not in str(told.value)
    assert "ada may not invoke ring of urn:appbackplane:house:back" in caplog.text


def test_clients_of_this_host_are_subject_to_permissions_unless_they_are_operators(path: Path) -> None:
    """The command line obeys, too; what it may not call it may not list either."""
    for operators in ((), (LOCAL_USER,)):
        house = house_with(path, operators=operators)
        calls = [
            house.call("house.ring", key="front"),
            house.call("backplane.virtual.things"),
            house.call("backplane.virtual.objects", component="house"),
            house.call("backplane.virtual.remove_object", component="house", object_key="back"),
        ]
        for call in calls:
            if operators:
                call.result()
            else:
                with pytest.raises(PermissionDenied, match="local may not"):
                    call.result()
        assert house.call("backplane.virtual.threads").result() == 1


def test_the_system_itself_is_not_asked_for_permissions(path: Path) -> None:
    """Code of a backplane that acts for nobody, such as a timer; what it does for a client is done for that client."""
    house = house_with(path)
    house.advance(5.0)
    assert house.call("desk.rung").result() == ["ding"]
    with pytest.raises(PermissionDenied, match="local may not invoke ring"):
        ask(house, None, "ring")


def test_things_may_be_permitted_by_type(path: Path) -> None:
    """All doors, those to come included."""
    house = house_with(path, Permission(id="1", who="ada", access=("invoke:ring",), types=("saref:Door",)))
    assert ask(house, "ada", "ring", key="back") == "ding"
    with pytest.raises(PermissionDenied):
        ask(house, "ada", "ring", key="nowhere")


def test_a_permission_ends(path: Path) -> None:
    """At its time, though it was remembered."""
    house = house_with(path)
    now_s = (house.clock.now_ns() + house.clock.unix_offset_ns()) / 1e9
    change(path, lambda _: (Permissions(permissions=(permission("ada", "invoke", until=now_s + 60.0),)), None))
    house.advance(1.0)
    assert ask(house, "ada", "ring") == "ding"
    house.advance(58.0)
    assert ask(house, "ada", "ring") == "ding"
    house.advance(2.0)
    with pytest.raises(PermissionDenied):
        ask(house, "ada", "ring")


def test_a_permission_caps_the_priority(path: Path) -> None:
    """A guest does not overtake the house, whatever the call asks for."""
    house = house_with(path, permission("ada", "invoke"), permission("ben", "invoke", priority=5))
    seen: dict[str, int] = {}

    def noting(self: Door) -> str:
        from appbackplane.runtime import current

        action = current()
        seen[str(action.principal)] = action.priority
        return "ding"

    Door.__operations__["ring"].function = lambda door: noting(door)
    for who in ("ada", "ben"):
        ask(house, who, "ring")
    assert seen == {"ada": 0, "ben": 5}


def test_writes_actions_and_refusals_are_in_the_audit_log(path: Path) -> None:
    """Reads are not: there would be thousands a second."""
    house = house_with(path, permission("ada", "read", "invoke"))
    ask(house, "ada", "open")
    ask(house, "ada", "ring")
    with pytest.raises(PermissionDenied):
        ask(house, "eve", "open")
    lines = [msgspec.json.decode(line) for line in Path(f"{path}.audit").read_bytes().splitlines()]
    assert [(line["who"], line["did"], line["permitted"]) for line in lines] == [
        ("ada", "invoke ring", True),
        ("eve", "read open", False),
    ]


def test_another_node_needs_a_permission_of_its_own(path: Path) -> None:
    """It calls for nobody whom this node could know; its key names it."""
    node = "node:b/1f2e"
    change(path, lambda _: (Permissions(permissions=(permission(node, "invoke"),)), None))
    policy = PermissionPolicy(file=str(path), audit=f"{path}.audit", operators=(LOCAL_USER,))
    control = access_control_of(policy, lambda: 0.0)
    needed = (("invoke", "ring"),)
    control.check("house", "front", None, needed, node, None)
    for other in ("node:b/77ab", "node:c/1f2e"):
        with pytest.raises(PermissionDenied, match=f"{other} may not invoke ring"):
            control.check("house", "front", None, needed, other, None)
    with pytest.raises(PermissionDenied):
        control.check_topic("things.*", node, None)
    control.check_topic("prices", node, None)
    control.check_topic("things.*", "client:shell/7", None)


def test_notifications_of_things_are_not_forged(path: Path) -> None:
    """By batches of rows, which a client may hand in; other topics are as before."""
    house = house_with(path)
    batch = {"group": "g", "batch": 1, "first": 0, "rows": [{"thing": "urn:appbackplane:house:front"}]}
    with pytest.raises(PermissionDenied, match="local may not observe of all things"):
        house.call("backplane.virtual.apply", topic="things.notifications", **batch).result()
