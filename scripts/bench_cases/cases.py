"""The cases, in the order in which they are run and shown."""

from __future__ import annotations

from importlib import import_module

from .harness.case import Case

_NAMES = (
    "call_rtt", "call_pipelined", "urgent_short", "urgent_long", "urgent_same_client", "blocking", "inversion",
    "inversion_limited", "inversion_chain", "cpu_limit", "inproc", "node_to_node", "dispatcher_overhead", "dispatcher_scaling",
    "dispatcher_accessor", "requests", "requests_indexing", "requests_optimiser", "pubsub", "streams", "uneven", "fairness",
    "overload", "overload_curve", "architectures", "batching", "flows", "lanes", "contexts", "dataflow", "traces", "large",
    "log_call", "many_objects", "spawn", "startup", "restart", "idle", "executor", "operator_view", "replay", "spark_read",
    "spark_stats", "spark_latency", "things", "things_subscribers",
)  # fmt: skip
CASES: list[Case] = [import_module(f".{name}", __package__).CASE for name in _NAMES]
