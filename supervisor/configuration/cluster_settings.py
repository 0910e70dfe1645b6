"""Cluster settings: `[cluster]` of the TOML, and a check that `only_on` is used only with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from .reader import Duration, Reader, duration_in_words, shown

FILE, POSTGRES = "file", "postgresql"
#: Becomes a file's name and a part of a key.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
#: A supervisor on an overloaded machine is a tenth of a second late; that must not cost the lease. Above an hour, nobody
#: waits for the secondary.
_TTL_MIN_NS, _TTL_MAX_NS = 1_000_000_000, 3_600_000_000_000
_KINDS = '"file:FOLDER" or "postgresql://USER@HOST/DATABASE"'


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[cluster]: name, store and length of the lease."""

    #: Shared by all nodes of the cluster.
    name: str
    #: The store; its kind comes before the colon.
    lease: str
    #: How long a dead primary keeps other nodes from the lease. Five seconds: one renewal a second, and a store's restart
    #: within two goes unnoticed.
    ttl_ns: Duration = msgspec.field(default=Duration(5_000_000_000), name="ttl")

    @property
    def store(self) -> tuple[str, str]:
        """(kind, folder or URL) of the store."""
        kind, _, where = self.lease.partition(":")
        return kind, where if kind == FILE else self.lease

    @property
    def shown(self) -> str:
        """The store's location, without a password."""
        return without_password(self.lease)


def without_password(lease: str) -> str:
    """For people and logs: libpq accepts a password before the host, and as a parameter; both are masked."""
    before_host = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", lease)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", before_host, flags=re.IGNORECASE)


def read(reader: Reader, table: Mapping[str, Any], folder: Path) -> ClusterSettings | None:
    """[cluster] of the whole TOML, which lies in `folder`. Problems are noted in `reader`."""
    if "cluster" not in table:
        backplanes = table.get("backplane")
        for name, section in backplanes.items() if isinstance(backplanes, dict) else ():
            if isinstance(section, dict) and "only_on" in section:
                what = "there is no primary node without a table [cluster]: add one, or leave this out"
                reader.say(("backplane", name, "only_on"), what)
        return None
    problems_before = len(reader.problems)
    values = reader.table(ClusterSettings, table["cluster"], ("cluster",))
    if "node" not in table:
        reader.say(
            ("cluster",), 'expected a table [node] with name = "..." beside it: the primary node is known by its name'
        )
    if not NAME.fullmatch(values.get("name", "any")):
        what = "expected a letter or digit and at most 62 more letters, digits, - and _"
        reader.say(("cluster", "name"), f"{what}, got {shown(values['name'])}")
    if "lease" in values:
        values["lease"] = _lease(reader, values["lease"], folder)
    ttl_ns = values.get("ttl_ns", _TTL_MIN_NS)
    if not _TTL_MIN_NS <= ttl_ns <= _TTL_MAX_NS:
        least, most = duration_in_words(_TTL_MIN_NS), duration_in_words(_TTL_MAX_NS)
        why = "with less, one late renewal would cost the node its lease"
        reader.say(("cluster", "ttl"), f"expected {least} to {most}, got {duration_in_words(ttl_ns)}: {why}")
    return None if len(reader.problems) > problems_before else ClusterSettings(**values)


def _lease(reader: Reader, lease: str, folder: Path) -> str:
    kind, colon, where = lease.partition(":")
    if not colon or kind not in (FILE, POSTGRES):
        reader.say(("cluster", "lease"), f"expected {_KINDS}, got {shown(lease)}")
    elif "\0" in lease or not where.strip("/"):
        reader.say(("cluster", "lease"), f"expected a location, too: {_KINDS}, got {shown(lease)}")
    elif kind == FILE:
        try:
            return f"{FILE}:{folder / Path(where).expanduser()}"
        except RuntimeError:  # raised by pathlib
            reader.say(("cluster", "lease"), f"no home folder of {where.partition('/')[0]!r}")
    return lease
