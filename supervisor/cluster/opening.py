"""Opening: makes the store that [cluster] names. A store's own dependencies are imported for that kind alone."""

from __future__ import annotations

from ..configuration.cluster_settings import POSTGRES, ClusterSettings
from .stores import Store


def open_store(settings: ClusterSettings) -> Store:
    """The store of a cluster. Raises `FailedPrecondition` if it cannot be used."""
    kind, where = settings.store
    if kind == POSTGRES:
        from .postgres_store import PostgresStore

        return PostgresStore(where, settings.name, settings.ttl_ns / 1e9)
    from .file_store import FileStore

    return FileStore(where, settings.name)
