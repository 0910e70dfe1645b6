"""The cases, in the order in which they are run and shown."""

from __future__ import annotations

from . import (
    blocking,
    call_pipelined,
    call_rtt,
    inproc,
    large,
    many_objects,
    urgent_long,
    urgent_same_client,
    urgent_short,
)

_MODULES = (
    call_rtt, call_pipelined, urgent_short, urgent_long, urgent_same_client, blocking, inproc, large, many_objects,
)  # fmt: skip
CASES = [module.CASE for module in _MODULES]
