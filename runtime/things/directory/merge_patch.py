"""Merge patch: changes of a JSON document as a JSON document (RFC 7396)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """The target with the patch applied (RFC 7396, section 2). Neither is changed; the result may share parts of both."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that turns `before` into `after`. A null in `after` cannot be expressed, so that member is left out."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if value is None or (name in before and _is_same(old, value)):
            continue
        is_nested = isinstance(value, Mapping) and isinstance(old, Mapping)
        patch[name] = patch_between(old, value) if is_nested else value  # type: ignore[arg-type]
    return patch


def _is_same(old: Any, new: Any) -> bool:
    """Equality of JSON: `true` is not 1, at any depth."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_is_same(value, new[name]) for name, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return isinstance(old, bool) == isinstance(new, bool) and bool(old == new)
