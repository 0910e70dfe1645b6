"""Generated permissions of a house, and what the rule says about each use of its things; for test_permissions.py."""

from __future__ import annotations

import random
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import GROUP, Permission
from tests.models.permission_model import may
from tests.waiting import wait_until

from .test_things import Web

THINGS = {"urn:dev:lamp-1": ("saref:LightSwitch",), "urn:appbackplane:house:hall%2F2": ("saref:LightSwitch",)}
GROUPS = {"family": ("ben",), "staff": ("cid",)}
_versions = count()


class Use(NamedTuple):
    """One way to use an affordance: its kind of access, the request, and its group in descriptions."""

    kind: str
    name: str
    group: str
    method: str
    path: str
    body: Any = None


USES = (
    Use("read", "brightness", "properties", "GET", "properties/brightness"),
    Use("write", "brightness", "properties", "PUT", "properties/brightness", 5),
    Use("observe", "brightness", "properties", "HEAD", "properties/brightness/stream?sub=x"),
    Use("read", "user", "properties", "GET", "properties/user"),
    Use("write", "picture", "properties", "PUT", "properties/picture", "AAA="),
    Use("read", "picture", "properties", "GET", "properties/picture"),
    Use("invoke", "double", "actions", "POST", "actions/double", {"number": 2}),
    Use("invoke", "burst", "actions", "POST", "actions/burst", {"count": 1}),
    Use("observe", "overheated", "events", "HEAD", "events/overheated/stream?sub=x"),
    Use("observe", "overheated", "events", "HEAD", "stream/events"),
)


def generated(random: random.Random) -> list[Permission]:
    """Some permissions over the names of the house, many of which nearly fit."""
    uses = [f"{use.kind}:{use.name}" for use in USES]
    return [
        Permission(
            id=str(number),
            who=random.choice(("ben", f"{GROUP}family", "cid", f"{GROUP}staff", "ada")),
            access=tuple(random.sample([*uses, "read", "write", "invoke", "observe", "share"], random.randint(1, 3))),
            things=tuple(random.sample([*THINGS, "*", "urn:dev:*", "*lamp*", "urn:dev:lamp"], random.randint(0, 2))),
            types=(random.choice(("saref:LightSwitch", "saref:Door")),),
            until=random.choice((None, None, 1.0, 4e9)),
        )
        for number in range(random.randint(0, 4))
    ]


def put(path: Path, ben: Web, all: list[Permission]) -> None:
    """Let these hold; returns when the gateway has them. Each version is told by one more permission, of its own link."""
    mark = Permission(id="mark", who="ben", access=("share",), things=(f"urn:mark:{next(_versions)}",), by="ben")
    change(path, lambda _: (Permissions(permissions=(*all, mark), groups=GROUPS), None))
    wait_until(
        lambda: [each["things"] for each in ben.ask("GET", "/permissions").body] == [list(mark.things)],
        "the gateway has not read the permissions",
    )


def expected(all: list[Permission], id: str, use: Use) -> int:
    """The status of a request: 404 unless the affordance can be used in some way; then 403 unless it may be in this one."""
    if may(all, GROUPS, "ben", id, THINGS[id], use.kind, use.name, 1e9)[0]:
        return 200
    kinds = {"properties": ("read", "write", "observe"), "actions": ("invoke",), "events": ("observe",)}[use.group]
    return 403 if any(may(all, GROUPS, "ben", id, THINGS[id], kind, use.name, 1e9)[0] for kind in kinds) else 404


def answers(ben: Web, use: Use, at: str, status: int) -> bool:
    """Whether a request has this status, 204 being as good as 200."""
    with closing(ben.open(use.method, f"{at}/{use.path}", use.body)) as response:
        return (200 if response.status == 204 else response.status) == status


def forms_of(description: Any, use: Use) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = description.get(use.group, {}).get(use.name, {}).get("forms", [])
    return found
