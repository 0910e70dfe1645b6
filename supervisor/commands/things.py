"""things: the things of a system: list, describe and use them, and share them with others (docs/concepts/permissions.md)."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appbackplane.transport.addressing import backplane_route
from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound

from ..configuration.reader import duration_ns
from . import show
from .cli import output_options
from .connecting import client_here
from .systems import system_option
from .words import arguments, value_of

if TYPE_CHECKING:
    from appbackplane.runtime.permissions.permission_file import Permissions
    from appbackplane.runtime.permissions.table import Permission
    from appbackplane.transport import Client

#: Bits of a guest link's token: nobody guesses one.
TOKEN_BYTES = 32
#: A listing takes milliseconds; a backplane that is stuck is left out after this.
LIST_S = 5.0


class Listing:
    """The things of a system, by id, and its permissions."""

    def __init__(self, client: Client) -> None:
        """Raises the error of the first backplane that does not answer."""
        self.things: dict[str, dict[str, Any]] = {}
        self._policy: Mapping[str, Any] | None = None
        directory = client.directory()
        for name, place in sorted(directory.backplanes.items()):
            if not place.is_up or name == directory.node:
                continue
            said = client.call(backplane_route(name, "things"), timeout=LIST_S)
            self._policy = self._policy or said["permissions"]
            for id, component, key, kind in said["things"]:
                model = said["models"][kind]
                types = tuple(each for each in model["@type"] if each != "tm:ThingModel")
                thing = {"id": id, "title": model["title"], "types": types, "backplane": name, "component": component}
                self.things.setdefault(id, thing | {"key": key, "model": model, "setters": said["setters"][kind]})

    def thing(self, id: str) -> dict[str, Any]:
        """One thing. Raises `NotFound`."""
        if id not in self.things:
            raise NotFound(f"no thing {id!r}: `appbackplane things list` lists them")
        return self.things[id]

    @property
    def types(self) -> dict[str, tuple[str, ...]]:
        """The semantic types of each thing."""
        return {id: thing["types"] for id, thing in self.things.items()}

    def policy(self) -> Mapping[str, Any]:
        """Where the permissions are. Raises `FailedPrecondition` if the system has none."""
        if self._policy is None:
            raise FailedPrecondition(
                "everybody may use all things of this system: a table [permissions] in its TOML limits that"
            )
        return self._policy


@click.group("things")
def command() -> None:
    """Use the things of a system, and share them."""


@command.command("list")
@click.option("--type", "kind", metavar="TYPE", help="Only things of this semantic type, such as saref:LightSwitch.")
@system_option
@output_options
def list_things(kind: str | None, system: str | None, as_json: bool) -> None:
    """List the things."""
    with closing(client_here(system)) as client:
        things = [each for each in Listing(client).things.values() if kind is None or kind in each["types"]]
    things.sort(key=lambda each: str(each["id"]))
    if as_json:
        show.as_json([{key: each[key] for key in ("id", "title", "types", "backplane")} for each in things])
        return
    show.table(
        ("ID", "TITLE", "TYPES", "BACKPLANE"),
        [(each["id"], each["title"], ", ".join(each["types"]), each["backplane"]) for each in things],
        less=("BACKPLANE",),
    )


@command.command("describe")
@click.argument("id")
@system_option
@output_options
def describe(id: str, system: str | None, as_json: bool) -> None:
    """Print the Thing Model of ID."""
    _answer(system, as_json, lambda client, thing: _call(client, thing, "describe", {}), id)


@command.command("read")
@click.argument("id")
@click.argument("name", required=False)
@system_option
@output_options
def read(id: str, name: str | None, system: str | None, as_json: bool) -> None:
    """Print the value of property NAME of ID, or of all its properties."""

    def values(client: Client, thing: Mapping[str, Any]) -> Any:
        if name is not None:
            return _call(client, thing, _known(thing, "properties", name), {})
        return {each: _call(client, thing, each, {}) for each in thing["model"].get("properties", {})}

    _answer(system, as_json, values, id)


@command.command("write")
@click.argument("id")
@click.argument("name")
@click.argument("value")
@system_option
@output_options
def write(id: str, name: str, value: str, system: str | None, as_json: bool) -> None:
    """Write property NAME of ID. A VALUE that is JSON is taken as JSON, all else as text."""

    def written(client: Client, thing: Mapping[str, Any]) -> Any:
        setter = thing["setters"].get(_known(thing, "properties", name))
        if setter is None:
            raise InvalidArgument(f"property {name!r} of {id} is read only")
        return _call(client, thing, setter, {"value": value_of(value)})

    _answer(system, as_json, written, id)


@command.command("invoke")
@click.argument("id")
@click.argument("name")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@system_option
@output_options
def invoke(id: str, name: str, words: tuple[str, ...], system: str | None, as_json: bool) -> None:
    """Invoke action NAME of ID, and print its result. A VALUE that is JSON is taken as JSON, all else as text."""
    body = arguments(words)
    _answer(system, as_json, lambda client, thing: _call(client, thing, _known(thing, "actions", name), body), id)


@command.command("watch")
@click.argument("id", required=False)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@system_option
@output_options
def watch(id: str | None, count: int | None, system: str | None, as_json: bool) -> None:
    """Print the events and the new values of observable properties of ID, or of all things, until Ctrl-C."""
    from appbackplane.runtime.permissions.thing_ids import NOTIFICATIONS

    with client_here(system) as client, suppress(KeyboardInterrupt):  # the usual end
        if id is not None:
            Listing(client).thing(id)
        printed = 0
        for message in client.subscribe(NOTIFICATIONS):
            if message.lost:
                click.echo(f"({show.counted(message.lost, 'message')} lost here)", err=True)
            body = message.body
            if id is not None and body.get("thing") != id:
                continue
            if as_json:
                show.as_json({key: body.get(key) for key in ("thing", "kind", "name", "data")})
            else:
                click.echo(f"{body.get('thing')} {body.get('name')} {show.in_one_line(body.get('data'))}")
            printed += 1
            if printed == count:
                return


@command.command("share")
@click.argument("who")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--access", required=True, metavar="LIST", help="read, write, invoke, observe, share; or as invoke:NAME.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="All things of this semantic type.")
@click.option("--for", "time_", metavar="TIME", help='How long: "2h", "7d". Default: until it is revoked.')
@click.option("--priority", type=click.IntRange(0, 255), help="The most urgent that calls by it may have.")
@system_option
@output_options
def share(
    who: str,
    ids: tuple[str, ...],
    access: str,
    types: tuple[str, ...],
    time_: str | None,
    priority: int | None,
    system: str | None,
    as_json: bool,
) -> None:
    """Permit WHO, a user or group:NAME, to use things; "link" makes a guest link, and prints its token once."""
    from appbackplane.runtime.permissions.permission_file import GuestLink
    from appbackplane.runtime.permissions.sharing import shared, without_expired
    from appbackplane.runtime.permissions.table import Permission

    now_s = time.time()
    id, token, link = secrets.token_hex(4), "", None
    if who == "link":
        token = secrets.token_urlsafe(TOKEN_BYTES)
        link = GuestLink(id=id, digest=hashlib.sha256(token.encode()).hexdigest(), by=OPERATOR)
    permission = Permission(
        id=id, who=who if link is None else link.principal, access=tuple(access.split(",")), things=ids, types=types,
        until=None if time_ is None else now_s + _seconds(time_), priority=priority, by=OPERATOR,
    )  # fmt: skip

    def add(contents: Permissions, listing: Listing, operators: tuple[str, ...]) -> tuple[Permissions, Permission]:
        return shared(without_expired(contents, now_s), permission, operators, listing.types, now_s, link)

    given = _change(system, "share", add)
    if as_json:
        show.as_json({"id": given.id, "who": given.who, "until": given.until} | ({"token": token} if token else {}))
        return
    click.echo(f"{given.id}: {given.who} may {', '.join(given.access)}" + _until(given.until))
    if token:
        click.echo(f"token, shown only now: {token}")


@command.command("shared")
@system_option
@output_options
def list_shared(system: str | None, as_json: bool) -> None:
    """List the permissions."""
    from appbackplane.runtime.permissions.permission_file import read as contents_of

    with closing(client_here(system)) as client:
        contents = contents_of(Path(Listing(client).policy()["file"]))
    if as_json:
        show.as_json([_told(each) for each in contents.permissions])
        return
    show.table(
        ("ID", "WHO", "ACCESS", "THINGS", "UNTIL", "BY"),
        [
            (
                each.id, each.who, ", ".join(each.access), ", ".join((*each.things, *each.types)),
                "" if each.until is None else _time(each.until), each.by,
            )
            for each in contents.permissions
        ],
        less=("BY",),
    )  # fmt: skip


@command.command("revoke")
@click.argument("id")
@system_option
@output_options
def revoke(id: str, system: str | None, as_json: bool) -> None:
    """End permission or guest link ID, and all that was handed on by it."""
    from appbackplane.runtime.permissions.sharing import revoked

    ended = _change(
        system,
        "revoke",
        lambda contents, listing, operators: revoked(contents, id, OPERATOR, operators, listing.types, time.time()),
    )
    if as_json:
        show.as_json([_told(each) for each in ended])
        return
    for each in ended:
        click.echo(f"{each.id}: {each.who} may no longer {', '.join(each.access)}")


@command.command("audit")
@click.option(
    "--lines", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many, the newest."
)
@system_option
@output_options
def audit(lines: int, system: str | None, as_json: bool) -> None:
    """Show the audit log: changes of permissions, writes and actions by users, and refusals."""
    import msgspec

    with closing(client_here(system)) as client:
        path = Path(Listing(client).policy()["audit"])
    found: list[bytes] = []
    for file in (path.with_name(f"{path.name}.1"), path):
        with suppress(FileNotFoundError):
            found += file.read_bytes().splitlines()
    told = [msgspec.json.decode(line) for line in found[-lines:]]
    if as_json:
        show.as_json(told)
        return
    show.table(
        ("TIME", "WHO", "DID", "THING", "PERMITTED"),
        [
            (_time(each["at"]), each["who"], each["did"], each.get("thing", ""), _in_words(each.get("permitted")))
            for each in told
        ],
    )


@command.command("try")
@click.argument("who")
@click.argument("access")
@click.argument("id")
@system_option
@output_options
def try_access(who: str, access: str, id: str, system: str | None, as_json: bool) -> None:
    """Tell whether WHO has ACCESS to ID, as read or invoke:NAME, and by which permission. Nothing is called."""
    from appbackplane.runtime.permissions.permission_file import read as contents_of

    kind, _, name = access.partition(":")
    with closing(client_here(system)) as client:
        listing = Listing(client)
        policy = listing.policy()
        types = listing.thing(id)["types"]
    contents, now_s = contents_of(Path(policy["file"])), time.time()
    table = contents.table(policy["operators"])
    is_permitted = table.decide(who, id, types, kind, name, now_s).until_s > now_s
    by = [each.id for each in table.of(who) if is_permitted and each.permits(kind, name) and each.means(id, types)]
    is_operator = who in policy["operators"]
    if as_json:
        show.as_json({"is_permitted": is_operator or bool(by), "is_operator": is_operator, "by": by})
    elif is_operator:
        click.echo(f"{who} is an operator, and may do everything")
    elif by:
        click.echo(f"{who} may {access} {id}: by {', '.join(by)}")
    else:
        click.echo(f"{who} may not {access} {id}: no permission allows it")


#: Commands act as clients of this host.
OPERATOR = "local"


def _answer(
    system: str | None, as_json: bool, function: Callable[[Client, Mapping[str, Any]], Any], id: str
) -> None:  # fmt: skip
    """Print the result of a function of one thing."""
    with closing(client_here(system)) as client:
        answer = function(client, Listing(client).thing(id))
    if as_json:
        show.as_json(answer)
    else:
        show.result(answer)


def _call(client: Client, thing: Mapping[str, Any], operation: str, body: Mapping[str, Any]) -> Any:
    return client.call(f"{thing['component']}.{operation}", key=thing["key"], arguments=body, retry=False)


def _known(thing: Mapping[str, Any], group: str, name: str) -> str:
    known = thing["model"].get(group, {})
    if name not in known:
        raise NotFound(f"{thing['id']} has no {name!r} in its {group}: {', '.join(known) or 'none'}")
    return name


def _change(system: str | None, did: str, function: Callable[[Any, Listing, tuple[str, ...]], tuple[Any, Any]]) -> Any:
    """Change the permissions, and write it into the audit log; the second result of `function`."""
    from appbackplane.runtime.permissions.audit import AuditLog
    from appbackplane.runtime.permissions.permission_file import change

    with closing(client_here(system)) as client:
        listing = Listing(client)
    policy = listing.policy()
    operators = tuple(policy["operators"])
    changed = change(Path(policy["file"]), lambda contents: function(contents, listing, operators))
    log = AuditLog(policy["audit"])
    for each in changed if isinstance(changed, list) else [changed]:
        log.changed(time.time(), OPERATOR, did, _told(each))
    log.close()
    return changed


def _told(permission: Permission) -> Any:
    import msgspec

    return msgspec.to_builtins(permission)


def _seconds(text: str) -> float:
    try:
        if text.endswith("d"):
            return duration_ns(f"{text[:-1]}s") * 86_400 / 1e9
        return duration_ns(text) / 1e9
    except ValueError as error:
        raise click.UsageError(f"--for {text!r}: {error}") from None


def _time(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))


def _until(unix_s: float | None) -> str:
    return ", until it is revoked" if unix_s is None else f", until {_time(unix_s)}"


def _in_words(is_permitted: bool | None) -> str:
    return "" if is_permitted is None else "yes" if is_permitted else "no"
