"""A thing as a Node-RED flow: stock nodes, one row for each interaction, and wires that lead somewhere."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from appbackplane.runtime import Component, InvalidArgument, NotFound
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, action, event, prop
from appbackplane.runtime.things.mashups import Rules


class Oven(Thing):
    """It bakes."""

    @prop(observable=True)
    def degrees(self) -> Annotated[int, msgspec.Meta(ge=20)]:
        return 20

    @degrees.write
    def set_degrees(self, value: int) -> None: ...

    @prop
    def door(self) -> Literal["open", "shut"]:
        return "shut"

    @action
    def bake(self, minutes: int, how: str = "slowly") -> None: ...

    done = event(str)


class Kitchen(Component):
    def setup(self) -> None:
        self.add(Oven(), key="oven 1")


@pytest.fixture
def kitchen() -> VirtualBackplane:
    return VirtualBackplane(Kitchen(), Rules())


def flow_from(kitchen: VirtualBackplane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kitchen.call("rules.node_red", thing="kitchen/oven 1", base="http://things/").result()
    return found


def test_a_flow_has_a_row_for_each_interaction(kitchen: VirtualBackplane) -> None:
    """With an input to begin with, and nothing that has to be installed."""
    flow = flow_from(kitchen)
    assert {node["type"] for node in flow} == {"tab", "inject", "function", "http request", "debug"}
    assert flow[0]["label"] == "Oven" and flow[0]["info"] == "It bakes."
    given = {node["name"]: json.loads(node["payload"]) for node in flow if node["type"] == "inject"}
    assert given == {
        "read degrees": None, "write degrees": 20, "changes of degrees": None, "read door": None,
        "bake": {"minutes": 0, "how": "slowly"}, "done": None,
    }  # fmt: skip
    assert [node["name"] for node in flow if node.get("once")] == ["changes of degrees", "done"]
    functions = {node["name"]: node["func"] for node in flow if node["type"] == "function"}
    assert '"http://things/things/urn%3Aappbackplane%3Akitchen%3Aoven%25201/actions/bake"' in functions["bake"]
    assert "/events/done/stream" in functions["done"] and 'msg.method = "PUT"' in functions["write degrees"]
    assert "TOKEN" in functions["bake"], "the token is named, and never part of it"


def test_wires_lead_to_nodes_of_the_flow(kitchen: VirtualBackplane) -> None:
    """And a second export replaces the first, since its ids are the same."""
    flow = flow_from(kitchen)
    ids = [node["id"] for node in flow]
    assert len(ids) == len(set(ids))
    for node in flow[1:]:
        assert node["z"] == flow[0]["id"]
        assert {to for wires in node["wires"] for to in wires} <= set(ids)
        assert len(node["wires"]) == node.get("outputs", len(node["wires"]))
    assert flow_from(kitchen) == flow
    places = [(node["x"], node["y"]) for node in flow[1:]]
    assert len(places) == len(set(places)), "no node hides another"


def test_what_cannot_be_exported_is_told(kitchen: VirtualBackplane) -> None:
    assert isinstance(kitchen.call("rules.node_red", thing="kitchen/stove").exception(), NotFound)
    wrong = kitchen.call("rules.node_red", thing="kitchen/oven 1", base="things").exception()
    assert isinstance(wrong, InvalidArgument) and "expected the address of the gateway" in wrong.message
