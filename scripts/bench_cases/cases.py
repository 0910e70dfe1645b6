"""The cases, in the order in which they are run and shown."""

from __future__ import annotations

from . import (
    blocking,
    call_pipelined,
    call_rtt,
    cpu_limit,
    dispatcher_accessor,
    dispatcher_overhead,
    dispatcher_scaling,
    executor,
    idle,
    inproc,
    inversion,
    inversion_chain,
    inversion_limited,
    large,
    log_call,
    many_objects,
    node_to_node,
    operator_view,
    pubsub,
    replay,
    requests,
    requests_indexing,
    requests_optimiser,
    restart,
    spark_latency,
    spark_read,
    spark_stats,
    startup,
    streams,
    urgent_long,
    urgent_same_client,
    urgent_short,
)

_MODULES = (
    call_rtt, call_pipelined, urgent_short, urgent_long, urgent_same_client, blocking, inversion, inversion_limited,
    inversion_chain, cpu_limit, inproc, node_to_node, dispatcher_overhead, dispatcher_scaling, dispatcher_accessor, requests,
    requests_indexing, requests_optimiser, pubsub, streams, large, log_call, many_objects, startup, restart, idle, executor,
    operator_view, replay, spark_read, spark_stats, spark_latency,
)  # fmt: skip
CASES = [module.CASE for module in _MODULES]
