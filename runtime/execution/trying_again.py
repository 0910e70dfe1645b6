"""Trying again: what becomes of a call of an object's when it fails (transport/retrying.py decides).

The object stays in the wait queue meanwhile: nothing of its own runs between two attempts, as none would while it waits for
the reply. All objects of a backplane share one budget. A call that its operation has cancelled is not tried again.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from appbackplane.transport.errors import BackplaneError
from appbackplane.transport.retrying import Again, RetryAccount, RetryBudget, after_attempts, decide

from .coroutines import CallRequest


class TryingAgain:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self) -> None:
        self.account = RetryAccount(RetryBudget(), 0)
        #: From 0 up to 1; a test has its own.
        self.random: Callable[[], float] = random.random
        #: Ids that were given out to what is no call of its own: pauses, waits, further attempts.
        self.others_count = 0

    def decide(
        self,
        request: CallRequest,
        error: BackplaneError,
        now_ns: int,
        ids_count: int,
        *,
        is_sent: bool,
        is_idempotent: bool,
    ) -> Again | BackplaneError:
        """When to make it again, or the error in which it has ended. `ids_count`: ids given out so far."""
        spec = request.spec
        if not spec.is_retried or not request.attempts_count:  # it was no call: a route that is none, a wrong key
            return error
        verdict = decide(
            error,
            is_repeatable=is_idempotent or spec.idempotency_key is not None,
            is_sent=is_sent,
            attempt=request.attempts_count,
            remaining_ns=spec.ends_ns - now_ns,
            account=self.account,
            now_ns=now_ns,
            calls_count=ids_count - self.others_count,
            random=self.random(),
        )
        if isinstance(verdict, Again):
            return verdict
        return after_attempts(error, request.attempts_count, verdict.because)
