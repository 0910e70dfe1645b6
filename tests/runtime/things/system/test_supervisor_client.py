"""The client of the supervisor, as far as it needs none: what an action gets that asks too early or too late."""

from __future__ import annotations

from typing import cast

import pytest

from appbackplane.runtime import Unavailable
from appbackplane.runtime.objects.platform import Platform
from appbackplane.runtime.things.system.memory import resident_bytes
from appbackplane.runtime.things.system.supervisor_client import SupervisorAnswer, SupervisorClient

#: The largest number of a process that Linux gives, and one more: no process has it.
NO_PID = (1 << 22) + 1


def test_who_asks_too_early_is_told_when_to_ask_again() -> None:
    """Else the action would wait for an answer that nobody has been asked for."""
    client = SupervisorClient(cast(Platform, None), "test")
    with pytest.raises(Unavailable, match="not connected to the supervisor yet") as refused:
        client.ask(SupervisorAnswer("supervisor.status", 1.0), {})
    assert refused.value.retry_after == 1.0


def test_a_process_that_has_ended_holds_no_memory() -> None:
    """It may end between the supervisor's answer and the look at it."""
    assert resident_bytes(None) == resident_bytes(NO_PID) == 0
