"""Nesting: values so deep that a codec or a checker gives up on them."""

from typing import Any

#: The packer takes it in any body, and the unpacker does not.
UNREADABLE_DEPTH = 1_022


def nested(depth: int) -> list[Any]:
    """A list in a list in a list …"""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found
