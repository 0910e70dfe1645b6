"""Node settings: [node] and [peers] of the TOML, and the backplane that they add. Pure.

A system that is named among nodes has one more process, the backplane `node`. It alone speaks TCP and carries messages to
other nodes; it is started, restarted and shown like any other. Nodes dial each other, so each listens. Each has keys, even
on loopback; commands/node_keys.py checks that they exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.security.addresses import check_address, is_for_all
from appbackplane.transport.security.ring import NAME as KEY_NAME

from .reader import Reader, shown

#: The added backplane, its component, and the key of that component's settings.
BACKPLANE, COMPONENT = "node", "appbackplane.runtime.peers:Node"
_CLASS = COMPONENT.rpartition(":")[2]
#: Comes before the slash in routes, so it has none. Lower case only: names that differ in case look alike in a log.
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
#: At most as many seeds as a cluster may have nodes.
SEEDS_MAX = MembershipPolicy().members_max


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[node]: name, addresses and key folder of this node."""

    #: Name of this node among the others.
    name: str
    #: "tcp://HOST:PORT"; other nodes dial it, too, unless `advertise` is given.
    listen: str
    #: Address that other nodes dial, where it differs from `listen`; None: `listen`.
    advertise: str | None = None
    #: Folder of its keys; None: the user's key folder.
    keys: str | None = None


def read(reader: Reader, table: Mapping[str, Any], folder: Path) -> tuple[NodeSettings | None, dict[str, str]]:
    """[node], and [peers] as each seed's address to the name of its key. Problems are noted in `reader`.

    `table`: the whole TOML, which lies in `folder`.
    """
    if "node" not in table:
        if "peers" in table:
            reader.say(
                ("peers",), 'expected a table [node] with name = "..." beside it: a node that connects gives its name'
            )
        return None, {}
    problems_before = len(reader.problems)
    backplanes = table.get("backplane")
    if isinstance(backplanes, dict) and BACKPLANE in backplanes:
        reader.say(("backplane", BACKPLANE), "the name is that of the process that [node] adds: choose another")
    values = reader.table(NodeSettings, table["node"], ("node",))
    if not NAME.fullmatch(values.get("name", "any")):
        what = "expected a lower-case letter and at most 62 more letters, digits, - and _"
        reader.say(("node", "name"), f"{what}, got {shown(values['name'])}")
    is_told = values.get("advertise") is None
    values["advertise"] = _address(reader, "advertise", values.get("advertise"), is_bound=False, is_numeric=True)
    values["listen"] = _listen(reader, values.get("listen"), is_told=is_told)
    values["keys"] = _keys(reader, values.get("keys"), folder)
    peers = _peers(reader, table.get("peers", {}))
    if len(reader.problems) > problems_before:
        return None, {}
    for address, key in peers.items():
        if not key:
            what = 'expected the name of its key, as in `appbackplane keys trust NAME KEY`, got ""'
            reader.say(("peers", address), what)
    return NodeSettings(**values), peers


def backplanes(node: NodeSettings | None, peers: Mapping[str, str]) -> dict[str, Any]:
    """The table [backplane.node], in the form that the file could have; none without [node]."""
    if node is None:
        return {}
    settings = {
        "name": node.name, "listen": node.listen, "advertise": node.advertise or "", "peers": dict(peers),
        "keys": node.keys or "",
    }  # fmt: skip
    return {BACKPLANE: {"components": [COMPONENT], "settings": {_CLASS: settings}}}


def _address(reader: Reader, key: str, address: str | None, **how: bool) -> str | None:
    try:
        return None if address is None else check_address(address, is_secured=True, **how)
    except InvalidArgument as error:
        reader.say(("node", key), error.message)
        return None


def _listen(reader: Reader, address: str | None, *, is_told: bool) -> str | None:
    """`is_told`: other nodes are given this very address, so it must not be a wildcard."""
    checked = _address(reader, "listen", address)
    if checked is not None and is_told and is_for_all(checked):
        what = "expected a specific address, not a wildcard: peers are given this address (or set advertise)"
        reader.say(("node", "listen"), f"{what}, got {shown(address)}")
    return checked


def _keys(reader: Reader, given: str | None, folder: Path) -> str | None:
    if given is None:
        return None
    if not given or "\0" in given:
        reader.say(("node", "keys"), f"expected a path, got {shown(given)}")
        return None
    try:
        return str(folder / Path(given).expanduser())
    except RuntimeError:  # raised by pathlib
        reader.say(("node", "keys"), f"no home folder of {given.partition('/')[0]!r}")
        return None


def _peers(reader: Reader, table: Any) -> dict[str, str]:
    """Seeds by normalised address, to the name of each key."""
    if not isinstance(table, dict):
        reader.say(("peers",), f'expected a table of addresses, "tcp://10.0.0.1:7400" = "a", got {shown(table)}')
        return {}
    if len(table) > SEEDS_MAX:
        reader.say(
            ("peers",), f"{len(table)} addresses, expected at most {SEEDS_MAX}: a few are enough to find the others"
        )
    peers: dict[str, str] = {}
    for address, key in table.items():
        if not isinstance(key, str) or (key and not KEY_NAME.fullmatch(key)):
            what = "expected the name of its key, of letters, digits, - and _"
            reader.say(("peers", address), f"{what}, got {shown(key)}")
        try:
            checked = check_address(address, is_secured=True, is_bound=False)
        except InvalidArgument as error:
            reader.say(("peers",), error.message)
            continue
        if checked in peers:
            reader.say(("peers", address), "it is listed twice")
        peers[checked] = key
    return peers
