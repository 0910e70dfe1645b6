"""Merge patch, as RFC 7396 writes it down in section 2, line by line; a null is None."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """MergePatch(Target, Patch). Changes copies, as the pseudo code changes its target."""
    target = deepcopy(target)
    if isinstance(patch, dict):
        if not isinstance(target, dict):
            target = {}
        for name, value in patch.items():
            if value is None:
                if name in target:
                    del target[name]
            else:
                target[name] = merge_patch(target.get(name), value)
        return target
    return patch
