"""keys: this host's key pair for TCP, and the key ring of peers that it trusts.

Nothing here calls a running system: the key ring is a file, which processes read again by themselves (transport/security). A
secret is never shown, not even to its owner: each host makes its own pair, and only its public key is carried elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.decorators import FC

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument

from . import show
from .cli import items, output_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from appbackplane.transport.security.keyring import Keyring
    from appbackplane.transport.security.keys import PublicKey
    from appbackplane.transport.security.ring import Holder, Ring

_FOLDER = "Folder of the keys. Default: $XDG_CONFIG_HOME/appbackplane/keys, else ~/.config/appbackplane/keys."
folder_option = click.option("--folder", metavar="DIR", help=_FOLDER)


def names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of trusted keys, for shell completion."""
    keyring = _keyring(ctx.params.get("folder") or None)
    keyring.refresh()
    return items({one.name: one.key.fingerprint for one in keyring.ring.holders if not one.is_revoked}, incomplete)


@click.group("keys", no_args_is_help=False)
def command() -> None:
    """Manage the keys of TCP connections: this host's own, and those that it trusts."""


@command.command("new")
@click.option(
    "--replace", is_flag=True, help="Replace an existing pair; hosts that trust the old key must trust the new one."
)
@folder_option
@output_options
def new(replace: bool, folder: str | None, as_json: bool) -> None:
    """Make the key pair of this host, and show its public key."""
    keyring = _keyring(folder)
    key = keyring.make_own(is_replacing=replace)
    if as_json:
        show.as_json(_own(keyring, key))
        return
    _show_own(key)


@command.command("show")
@folder_option
@output_options
def show_keys(folder: str | None, as_json: bool) -> None:
    """Show the public key of this host, to be given to other hosts, and the keys that it trusts."""
    keyring = _keyring(folder)
    key = keyring.own().public
    holders = _ring(keyring).holders
    if as_json:
        show.as_json({**_own(keyring, key), "ring": [_told(one) for one in holders]})
        return
    _show_own(key)
    if holders:
        show.table(
            ("NAME", "STATE", "FINGERPRINT", "ROUTES", "TOPICS", "OFFERS"),
            [
                (one.name, _state(one), one.key.fingerprint, *(("", "", "") if one.is_revoked else _grants(one)))
                for one in holders
            ],
        )


def _patterns_option(noun: str, help: str) -> Callable[[FC], FC]:
    return click.option(f"--{noun}", f"{noun}s", metavar="PATTERN", multiple=True, help=help)


@command.command("trust")
@click.argument("name")
@click.argument("key")
@_patterns_option("route", "Routes that it may call: index.stats, index.*, *. Default: exported.")
@_patterns_option("topic", "Topics that it may hear and publish. Default: exported.")
@_patterns_option(
    "offer",
    "Routes that it may offer here: index.stats, index.*, *, none. Default: all if [peers] names it, else nothing.",
)
@folder_option
@output_options
def trust(
    name: str,
    key: str,
    routes: tuple[str, ...],
    topics: tuple[str, ...],
    offers: tuple[str, ...],
    folder: str | None,
    as_json: bool,
) -> None:
    """Trust KEY under the name NAME, or change its permissions. KEY is printed by "keys show" on the other host."""
    from appbackplane.transport.security.grants import Grant
    from appbackplane.transport.security.keys import PublicKey
    from appbackplane.transport.security.ring import Holder

    holder = _typed(
        lambda: Holder(
            name,
            PublicKey.parse(key),
            Grant.of(routes),
            Grant.of(topics),
            offers=Grant.of_offers(offers) if offers else None,
        )
    )
    _typed(lambda: _keyring(folder).change(lambda ring: ring.trusting(holder)))
    if as_json:
        show.as_json(_told(holder))
        return
    click.echo(f"{name} is trusted: {key}")
    click.echo(f"compare this fingerprint with the one that its own host shows: {holder.key.fingerprint}")


@command.command("revoke")
@click.argument("which", metavar="NAME|KEY|FINGERPRINT", shell_complete=names)
@folder_option
@output_options
def revoke(which: str, folder: str | None, as_json: bool) -> None:
    """Revoke a key for good. Running systems close its connections at once."""
    keyring = _keyring(folder)
    found: list[Holder] = []

    def change(ring: Ring) -> Ring:
        found.append(ring.find(which))
        return ring.revoking(which)

    ring = _typed(lambda: keyring.change(change))
    holder = ring.find(str(found[0].key))
    if as_json:
        show.as_json(_told(holder))
        return
    click.echo(f"{holder.name} is revoked: {holder.key.fingerprint}")


def _keyring(folder: str | None) -> Keyring:
    from appbackplane.transport.security.keyring import Keyring  # 30 ms of ZeroMQ, only for verbs that need it

    if folder == "":  # as a path, '' is the current folder
        raise click.UsageError("--folder: expected the name of a folder, got ''")
    return Keyring(None if folder is None else Path(folder))


def _ring(keyring: Keyring) -> Ring:
    """The key ring, read anew. Raises `FailedPrecondition` where it cannot be read."""
    keyring.refresh()
    if keyring.problem is not None:
        raise FailedPrecondition(keyring.problem)
    return keyring.ring


def _typed(act: Callable[[], Any]) -> Any:
    """Run `act`; an invalid argument becomes wrong usage, other errors stay failures."""
    try:
        return act()
    except InvalidArgument as error:
        raise click.UsageError(error.message) from error


def _own(keyring: Keyring, key: PublicKey) -> dict[str, Any]:
    return {"key": str(key), "fingerprint": key.fingerprint, "folder": str(keyring.folder.path)}


def _show_own(key: PublicKey) -> None:
    click.echo(f"this host's key: {key}")
    click.echo(f"its fingerprint: {key.fingerprint}")
    click.echo(f"on the other host: appbackplane keys trust NAME {key}")


def _told(one: Holder) -> dict[str, Any]:
    return {
        "name": one.name,
        "state": _state(one),
        "key": str(one.key),
        "fingerprint": one.key.fingerprint,
        "routes": list(one.routes.patterns),
        "topics": list(one.topics.patterns),
        "offers": None if one.offers is None else list(one.offers.patterns),
    }


def _state(one: Holder) -> str:
    return "revoked" if one.is_revoked else "trusted"


def _grants(one: Holder) -> tuple[str, str, str]:
    return str(one.routes), str(one.topics), "[peers]" if one.offers is None else str(one.offers)
