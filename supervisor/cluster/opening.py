"""Opening: the store that [cluster] names. What only one kind of store needs is imported for that kind alone."""

from __future__ import annotations

from .settings import ClusterSettings
from .stores import Store


def open_store(settings: ClusterSettings) -> Store:
    """The store of a cluster. Raises `FailedPrecondition` where it cannot be one."""
    from .file_store import FileStore

    _, where = settings.store
    return FileStore(where, settings.name)
