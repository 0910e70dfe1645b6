"""Of a system that is put to chaos, an error that a death explains is expected; any other is a finding."""

from typing import Any

import pytest
from chaos_run.log_check import unexplained


def line(backplane: str, message: str, level: str = "ERROR", error: str = "") -> dict[str, Any]:
    """As it is in the log."""
    return {"backplane": backplane, "level": level, "message": message, "error": error}


@pytest.mark.parametrize(
    "said",
    [
        line("supervisor", "backplane 'north': killed by signal 9; starting it again now"),
        line(
            "supervisor",
            "backplane 'north': component 'north' did not become primary: control.move: its process has died",
        ),
        line(
            "north",
            "north.relay failed",
            error="Traceback ...\nappbackplane.transport.errors.PeerDown: east.relay: died",
        ),
        line(
            "supervisor", "backplane 'north': component 'north' did not become initializing: chaos: a hook fails; again"
        ),
        line("north", "a hook failed", error="Traceback ...\nRuntimeError: chaos: a hook fails"),
        line("supervisor", "backplane 'north': exited with 0; starting it again now"),
        line(
            "supervisor",
            "backplane 'north': draining stopped: 'south' died and restarts only after this one has exited",
        ),
        line("north", "a slow action", "WARNING"),
    ],
)
def test_what_a_death_explains_is_no_finding(said: dict[str, Any]) -> None:
    """There are hundreds of them in a run."""
    assert unexplained([said]) == []


@pytest.mark.parametrize(
    "said",
    [
        line("supervisor", "backplane 'north': did not register within 60 s; starting it again now"),
        line("supervisor", "backplane 'north': exited with 1; starting it again now"),
        line("supervisor", "backplane 'north': killed by signal 6: terminate called; starting it again now"),
        line("supervisor", "backplane 'north': drained, but 47 not begun within 600 s, and refused"),
        line("supervisor", "it went wrong", error="Traceback ...\nKeyError: 'north'"),
        line("north", "BROKEN north: somebody noted 3 after 4"),
        line("north", "north.relay failed", error="Traceback ...\nKeyError: 7"),
        line("north", "Traceback (most recent call last):", "INFO"),
    ],
)
def test_anything_else_is(said: dict[str, Any]) -> None:
    """A traceback that nobody reads is found by a user."""
    assert len(unexplained([said])) == 1
