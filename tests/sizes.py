"""Sizes: the memory that an object keeps, whatever other threads of the process allocate meanwhile."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, ModuleType


def reachable_bytes(root: object) -> int:
    """Sum of `sys.getsizeof` over `root` and all that it refers to, without classes, functions and modules."""
    seen: set[int] = set()
    pending, size = [root], 0
    while pending:
        each = pending.pop()
        if id(each) in seen or isinstance(each, (type, FunctionType, ModuleType)):
            continue
        seen.add(id(each))
        size += sys.getsizeof(each)
        pending.extend(gc.get_referents(each))
    return size
