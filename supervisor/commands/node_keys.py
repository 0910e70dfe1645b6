"""Node keys: checks before a start that the keys named by [node] and [peers] exist.

A node without keys would be restarted until it was given up, with the reason in the log alone. A revoked key is no error: the
rest of the system should not stay down with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appbackplane.transport.errors import BackplaneError, NotFound

from ..configuration.config import Config, ConfigError

if TYPE_CHECKING:
    from appbackplane.transport.security.keyring import Keyring


def check(config: Config) -> None:
    """Raises `ConfigError` with a remedy for each missing key."""
    node = config.node
    if node is None:
        return
    from appbackplane.transport.security.keyring import Keyring  # ZeroMQ, only for a system with a node

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
    """A problem for each name that was never in the key ring. Raises `BackplaneError`."""
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
