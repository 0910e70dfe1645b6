"""Worker loop: a thread takes the lead, chooses an action, gives the lead up to run it, and takes the lead again.

The same worker receives, schedules and runs (leader/follower): short work is never handed from thread to thread. A relief
worker runs the same loop while it is let in.
"""

from __future__ import annotations

import logging
import os
import threading
from functools import partial

from ...objects.action import Action
from ..logs.async_log import last_words
from ..workers.current import current
from ..workers.poll_leader import PollLeader
from ..workers.worker import ReliefWorker, Worker
from .engine import Engine

#: EX_SOFTWARE of sysexits.h.
EXIT_BUG = 70

log = logging.getLogger("appbackplane.runtime")


def start(engine: Engine, worker: Worker) -> None:
    """Start the thread of a worker. It takes the lead first."""
    worker.start(partial(_run, engine, worker))


def _run(engine: Engine, worker: Worker) -> None:
    current.worker = worker
    worker.tid = threading.get_native_id()
    try:
        with worker.lead:
            if isinstance(worker, ReliefWorker):
                _serve_relief(engine, engine.poll_leader, worker)
            else:
                _serve(engine, worker)
            engine.leaves(worker)
    except BaseException:
        # An invariant of the runtime is broken and its state may be inconsistent: end, and let the supervisor restart us.
        log.critical("worker %d failed: this is a bug of the runtime", worker.number, exc_info=True)
        last_words()
        os._exit(EXIT_BUG)


def _serve(engine: Engine, worker: Worker) -> None:  # hot: scripts/bench call_rtt
    while not worker.is_stopping:
        action = engine.choose(worker)
        if action is None:
            engine.wait(worker)
        else:
            _run_without_lead(engine, worker, action)


def _serve_relief(engine: Engine, poll_leader: PollLeader, relief: ReliefWorker) -> None:
    while not relief.is_stopping:
        relief.action = None
        if not relief.is_active or poll_leader.is_looked_after_besides(relief):
            relief.is_active = False
            relief.is_parked = True
            engine.step_back(relief)
            relief.lead.release()
            relief.gate.acquire()
            relief.lead.acquire()
            continue
        relief.below = poll_leader.relief_limit()
        if relief.below is None:
            relief.is_active = False
            continue
        action = engine.choose(relief)
        if action is None:
            engine.wait(relief)
        else:
            _run_without_lead(engine, relief, action)


def _run_without_lead(engine: Engine, worker: Worker, action: Action) -> None:  # hot: scripts/bench call_rtt
    lead = worker.lead
    lead.release()
    try:
        outcome, now_ns, run_ns, cpu_ns = engine.execute(worker, action)
    finally:
        lead.acquire()
    engine.complete(action, outcome, now_ns, run_ns, cpu_ns)
