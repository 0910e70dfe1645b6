"""Pressing: callers that ask for more than a service can do, until they refuse by themselves, and then leave it alone."""

from __future__ import annotations

from appbackplane.transport import Client
from appbackplane.transport.errors import Busy
from tests.waiting import EVERY_S, Limit

#: Calls at a time: at 2 ms each many more than are served within 20 ms.
TOGETHER = 100
CALL_LIMIT_S = 60.0


def press(client: Client, route: str) -> list[Busy]:
    """Call until this client refuses a call itself. Returns the refusals of the last calls."""
    limit, before = Limit(), client.refused_here_count
    while True:
        calls = [client.submit(route, retry=False, timeout=CALL_LIMIT_S) for _ in range(TOGETHER)]
        errors = [call.exception(CALL_LIMIT_S) for call in calls]
        assert all(error is None or isinstance(error, Busy) for error in errors), errors
        if client.refused_here_count > before:
            return [error for error in errors if isinstance(error, Busy)]
        limit.check(f"{route}: nothing is refused here, but there: {[str(error) for error in errors if error][:3]}")


def wait_until_all_are_sent(client: Client, route: str) -> None:
    """Call one at a time, as far below its capacity, until nothing is refused here any more."""
    limit = Limit()
    while client._calling.session.core.throttle.is_used:
        error = client.submit(route, retry=False, timeout=CALL_LIMIT_S).exception(CALL_LIMIT_S)
        assert error is None or isinstance(error, Busy)
        limit.check(f"{route}: still refused here: {error}", pause_s=EVERY_S)
