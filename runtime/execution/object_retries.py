"""Trying again: retries of failed calls that objects make (transport/retrying.py decides).

The object stays in the wait queue meanwhile: it runs nothing between two attempts, as while it waits for the reply. All
objects of a backplane share one budget. A call that its operation has cancelled is not retried.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from appbackplane.transport.errors import BackplaneError
from appbackplane.transport.retrying import Again, RetryAccount, RetryBudget, after_attempts, decide

from .coroutines import CallRequest


class ObjectRetries:
    """Retries of this backplane's objects. Part of the engine, owned by the thread that has the lead."""

    def __init__(self) -> None:
        self.account = RetryAccount(RetryBudget(), 0)
        #: Returns 0 up to 1; tests replace it.
        self.random: Callable[[], float] = random.random
        #: Ids used by pauses, waits and retries; subtracted so that the budget counts calls only.
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
        """When to retry, or the error in which the call has ended. `ids_count`: ids given out so far."""
        spec = request.spec
        if not spec.is_retried or not request.attempts_count:  # no attempt was made: an invalid route or key
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
