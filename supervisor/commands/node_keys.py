"""Node keys: whether those that [node] and [peers] of a TOML speak of are there, before anything is started.

A node that found no keys would be restarted until it was given up, and who looks at it would find the reason in the log. A
key that was revoked is no reason: the others of a system are not to stay down with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appbackplane.transport.errors import BackplaneError, NotFound

from ..config import Config, ConfigError

if TYPE_CHECKING:
    from appbackplane.transport.security.keyring import Keyring


def check(config: Config) -> None:
    """Raises `ConfigError` with what is to be done."""
    node = config.node
    if node is None:
        return
    from appbackplane.transport.security.keyring import Keyring  # ZeroMQ, for who has a node alone

    keyring = Keyring(None if node.keys is None else Path(node.keys))
    try:
        keyring.own()
        problems = _unknown(keyring, config.peers)
    except BackplaneError as error:
        where, elsewhere = ("node", "") if node.keys is None else ("node.keys", f", with --folder {node.keys}")
        problems = [f"{where}: {error.message}{elsewhere}"]
    if problems:
        raise ConfigError(config.file, problems)


def _unknown(keyring: Keyring, peers: dict[str, str]) -> list[str]:
    """Names that the ring has never heard of. Raises `BackplaneError`."""
    keyring.refresh()
    if keyring.problem is not None:
        return [f"peers: {keyring.problem}"]
    problems = []
    for address, name in peers.items():
        try:
            keyring.ring.find(name)
        except NotFound as error:
            problems.append(f'peers."{address}": {error.message}: trust it (appbackplane keys trust {name} KEY)')
    return problems
