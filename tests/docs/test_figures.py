"""The figures in the sentences of the pages are those of the code: limits, defaults, intervals.

Each sentence is written here with the constant in its place. Who changes the constant is told which page speaks of it.
"""

from __future__ import annotations

import pytest

from appbackplane.runtime.execution.loop.engine import DRAIN_INTERVAL_NS, SHORT_NS, STALLED_RETRY_NS
from appbackplane.runtime.execution.outgoing.publishing import PATTERNS_MAX
from appbackplane.runtime.execution.services.naming import LOOK_MAX as INSPECTION_LOOK_MAX
from appbackplane.runtime.execution.workers.poll_leader import QUANTUM_NS
from appbackplane.runtime.objects.component import POSTED_MAX_DEFAULT, REQUESTS_MAX_DEFAULT
from appbackplane.runtime.objects.operation import PRIORITY_DEFAULT
from appbackplane.runtime.observation.log_line import LINE_BYTES_MAX, TEXT_LENGTH_MAX
from appbackplane.runtime.observation.rate_limit import REPORT_INTERVAL_NS
from appbackplane.runtime.process import _SWITCH_FRACTION, _SWITCH_MAX_S, COLLECT_AFTER
from appbackplane.runtime.process_config import LATENCY_DEFAULT_NS, ProcessConfig
from appbackplane.runtime.requests.executing.wire import BATCH_BYTES_MAX, ITEM_BYTES_MAX
from appbackplane.runtime.requests.executing.worker_connection import BATCH_MAX, BATCH_NS, RECALL_NS
from appbackplane.runtime.requests.kernel import WATCH_NS
from appbackplane.runtime.requests.policy import POOL_MAX, WORKERS_MAX
from appbackplane.runtime.requests.resource import HELD_MAX_DEFAULT
from appbackplane.runtime.scheduling.balance import LOOK_MAX
from appbackplane.runtime.scheduling.deadline_order import LOOK_AHEAD_MAX, PATIENCE_NS
from appbackplane.supervisor.commands.logs import LINES
from appbackplane.supervisor.configuration.config import BACKPLANES_MAX, SOCKET_PATH_BYTES_MAX, SystemConfig
from appbackplane.supervisor.configuration.log_settings import LogSettings
from appbackplane.supervisor.control.inquiry import HOPS_MAX, LIMIT_NS
from appbackplane.supervisor.control.status import STATISTICS_LIMIT_NS
from appbackplane.supervisor.direction.health import SILENT_NS, STACKS_LIMIT_NS, STUCK_AFTER_NS
from appbackplane.transport.batching import PEER_BYTES_MAX
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS, TIMEOUT_DEFAULT_S
from appbackplane.transport.caller_core import OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX
from appbackplane.transport.calling import BURST_EAGER, GATHER_MAX
from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.connections import ANSWERS_AHEAD, ANSWERS_AHEAD_MAX
from appbackplane.transport.inbox import BYTES_MAX as INBOX_BYTES_MAX
from appbackplane.transport.inbox import MESSAGES_MAX
from appbackplane.transport.link import ANSWERS_READ_AHEAD, LARGE_BYTES_MAX, READ_AHEAD
from appbackplane.transport.peers.messages import PROTOCOL, PROTOCOL_OLDEST, ROUTES_MAX
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.route_table import LOAD_STEP
from tests.docs.pages import DOCS, prose

WORDS = {1: "one", 2: "two", 3: "three", 5: "five", 50: "fiftieth"}
DEFAULT = {
    field: default
    for field, default in zip(
        ProcessConfig.__struct_fields__[::-1], ProcessConfig.__struct_defaults__[::-1], strict=False
    )
}


def seconds(ns: float) -> str:
    """As the pages write them."""
    return f"{ns / 1e9:g} s" if ns >= 100_000_000 else f"{ns / 1e6:g} ms" if ns >= 500_000 else f"{ns / 1e3:g} µs"


SENTENCES = [
    ("membership", f"at most {ROUTES_MAX:,} operations and as many topics a node"),
    ("membership", f"within {LOAD_STEP:g} they are equal"),
    ("membership", f"{10**9 // MembershipPolicy().heartbeat_ns} small frames a second to each"),
    ("membership", f"one question to {WORDS[MembershipPolicy().helpers]} others at most"),
    ("membership", f"a protocol more than {WORDS[PROTOCOL - PROTOCOL_OLDEST]} version away"),
    ("actions_and_objects", f"At most {LOOK_MAX} are looked at"),
    (
        "clients",
        f"From the {BURST_EAGER + 1}th of an unbroken burst on, or with more than {BURST_EAGER} outstanding, submitted calls"
        f" gather and leave {GATHER_MAX} at a time",
    ),
    ("backpressure", f"{OUTSTANDING_MAX} outstanding, or {OUTSTANDING_BYTES_MAX >> 20} MiB of them"),
    ("backpressure", f"what waits for a peer that does not read | {PEER_BYTES_MAX >> 20} MiB"),
    ("backpressure", f"large frames on their way to one peer | {LARGE_BYTES_MAX >> 20} MiB"),
    (
        "backpressure",
        f"reads ahead from one peer | {READ_AHEAD}; {ANSWERS_READ_AHEAD:,} from a backplane that it calls",
    ),
    (
        "backpressure",
        f"reads ahead from one peer | {READ_AHEAD}; after more than {ANSWERS_AHEAD} calls outstanding, four times as many as "
        f"these calls were, at most {2 * ANSWERS_AHEAD_MAX:,}",
    ),
    ("draining", f"reads up to {ANSWERS_READ_AHEAD:,} answers ahead"),
    ("backpressure", f"`max_requests`, {REQUESTS_MAX_DEFAULT:,} by default"),
    ("backpressure", f"own operations | {REQUESTS_MAX_DEFAULT:,}"),
    ("backpressure", f"topics that a client hears from one backplane | {PATTERNS_MAX:,}"),
    ("backpressure", f"has not read | {MESSAGES_MAX:,}, or {INBOX_BYTES_MAX >> 20} MiB of them"),
    ("backpressure", f"offered its frames every {seconds(STALLED_RETRY_NS)}"),
    ("priorities_and_quotas", f"among its first {LOOK_AHEAD_MAX} actions"),
    ("priorities_and_quotas", f"as if its deadline were {seconds(PATIENCE_NS)} after it was queued"),
    ("why", f"stops after {INSPECTION_LOOK_MAX:,} entries"),
    ("why", f"longer than {HOPS_MAX} backplanes, or took longer than {seconds(LIMIT_NS)}"),
    ("clients", f"With {OUTSTANDING_MAX} calls of a client outstanding, or {OUTSTANDING_BYTES_MAX >> 20} MiB of them"),
    ("clients", f"`timeout` (seconds, {TIMEOUT_DEFAULT_S:g} by default)"),
    ("clients", f"{MESSAGES_MAX:,} messages wait for a slow reader"),
    ("lanes", f"Every {seconds(WATCH_NS)} the kernel checks"),
    ("request_workers", f"a request, and a result | {ITEM_BYTES_MAX >> 20} MiB"),
    (
        "request_workers",
        f"requests in one message | {BATCH_MAX}, or {BATCH_BYTES_MAX >> 20} MiB, "
        f"or as many as take {seconds(BATCH_NS)} together",
    ),
    ("request_workers", f"called back after {seconds(RECALL_NS)}"),
    ("request_workers", f"over all keys, {HELD_MAX_DEFAULT} by default"),
    ("configuration", f"Requests executing at a time, 1 to {WORKERS_MAX}."),
    ("configuration", f"Entries of the ready pool, 1 to {POOL_MAX:,}."),
    ("logs", f"cut at {TEXT_LENGTH_MAX:,} characters, a line at {LINE_BYTES_MAX:,} bytes"),
    ("logs", f"(`ring`, {LogSettings().ring >> 20} MiB) fills up"),
    ("logs", f"the last {LINES} lines"),
    ("configuration", f"may not exceed {SOCKET_PATH_BYTES_MAX} bytes"),
    ("configuration", f"There may be 1 to {BACKPLANES_MAX} processes"),
    ("configuration", f"every {WORDS[_SWITCH_FRACTION]} of it, {seconds(_SWITCH_MAX_S * 1e9)} at most"),
    ("errors", f"one that names none has {seconds(TIMEOUT_DEFAULT_NS)}"),
    ("priorities_and_quotas", f"The key `priorities` in the TOML sets N, {DEFAULT['priorities']} by default"),
    ("priorities_and_quotas", f"(`tick`, {seconds(DEFAULT['tick_ns'])} by default)"),
    ("statistics", f"does not answer within {seconds(STATISTICS_LIMIT_NS)}"),
    ("statistics", f"said nothing for {WORDS[SILENT_NS // 10**9]} seconds"),
    ("health", f"`unknown` | not for {WORDS[SILENT_NS // 10**9]} seconds"),
    ("health", f'With `"never"` it is shown as wedged after {seconds(STUCK_AFTER_NS)} all the same'),
    ("health", f"for `stuck_after` ({seconds(SystemConfig('x').stuck_after_ns)};"),
    ("health", f"or after {seconds(STACKS_LIMIT_NS)}, its process group is killed"),
    ("backpressure", f"`max_posted`, {POSTED_MAX_DEFAULT:,} by default"),
    ("throttling", f"`max_requests`, {REQUESTS_MAX_DEFAULT:,} by default"),
    ("throttling", f"({PEER_BYTES_MAX >> 20} MiB, then the sender gets `Busy`)"),
    ("throttling", f"({FRAME_BYTES_MAX >> 20} MiB, then `InvalidArgument`)"),
    ("timers", f"`@every` takes `priority=`, {PRIORITY_DEFAULT} by default"),
    ("waiting_and_replies", f"{seconds(TIMEOUT_DEFAULT_NS)} from now unless `timeout` says otherwise"),
    ("workers_and_the_sentinel", f"has `threads` **workers** ({DEFAULT['threads']} by default)"),
    ("workers_and_the_sentinel", f"looked at every {seconds(DRAIN_INTERVAL_NS)}"),
    ("workers_and_the_sentinel", f"known to take its time ({SHORT_NS // 1000} µs or more"),
    ("workers_and_the_sentinel", f"longer than its quantum, {seconds(QUANTUM_NS)}"),
    (
        "workers_and_the_sentinel",
        f"every {WORDS[_SWITCH_FRACTION]} of it, every {LATENCY_DEFAULT_NS / _SWITCH_FRACTION / 1e6:g} ms at the "
        f"default of {seconds(LATENCY_DEFAULT_NS)}",
    ),
    ("workers_and_the_sentinel", f"looks for it after {COLLECT_AFTER[0]:,} new objects"),
    (
        "workers_and_the_sentinel",
        f"at every {COLLECT_AFTER[1]}th such look, among all at every {COLLECT_AFTER[2]}th of these",
    ),
    ("workers_and_the_sentinel", f"one an operation in {WORDS[REPORT_INTERVAL_NS // 10**9]} seconds"),
]


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_the_sentence_is_on_the_page(page: str, sentence: str) -> None:
    """Word for word, however its lines are broken."""
    text = " ".join(prose((DOCS / "concepts" / f"{page}.md").read_text()).split())
    assert sentence in text
