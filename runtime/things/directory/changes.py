"""Changes: the event that a user gets when a Thing Description comes, changes or goes.

It depends on what the user sees: a change of what is hidden is no event, and one that hides all is a `thing_deleted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..description import Description
from .merge_patch import patch_between

CREATED: Final = "thing_created"
UPDATED: Final = "thing_updated"
DELETED: Final = "thing_deleted"
KINDS: Final = (CREATED, UPDATED, DELETED)


def event_of(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, is_diff: bool
) -> tuple[str, Description] | None:
    """The type and data of the event; None: this user sees no change. `before`, `after`: what the user saw and sees.

    `is_diff`: the data are the whole description, or the merge patch that changes it, and not its id alone.
    """
    if after is None:
        return None if before is None else (DELETED, {"id": before["id"]})
    if before is None:
        return CREATED, dict(after) if is_diff else {"id": after["id"]}
    patch = patch_between(before, after)
    if not patch:
        return None
    return UPDATED, (patch if is_diff else {}) | {"id": after["id"]}
