"""The cases, in the order in which they are run and shown."""

from __future__ import annotations

from . import call_pipelined, call_rtt, large

CASES = [module.CASE for module in (call_rtt, call_pipelined, large)]
