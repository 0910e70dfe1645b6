"""Opening: the store that [cluster] names. What only one kind of store needs is imported for that kind alone."""

from __future__ import annotations

from .settings import POSTGRES, ClusterSettings
from .stores import Store


def open_store(settings: ClusterSettings) -> Store:
    """The store of a cluster. Raises `FailedPrecondition` where it cannot be one."""
    kind, where = settings.store
    if kind == POSTGRES:
        from .postgres_store import PostgresStore

        return PostgresStore(where, settings.name, settings.ttl_ns / 1e9)
    from .file_store import FileStore

    return FileStore(where, settings.name)
