"""The module state machine: one table; what is not in it is refused."""

from __future__ import annotations

import pytest

from appbackplane.runtime.objects.module_state import MOVES, ModuleState, check_move
from appbackplane.transport.errors import FailedPrecondition

S = ModuleState
#: Seed 002, "How Modules are Supported", and a way back up after down.
ALLOWED = {
    (S.START, S.INITIALIZING), (S.START, S.DOWN),
    (S.INITIALIZING, S.PRIMARY), (S.INITIALIZING, S.SECONDARY), (S.INITIALIZING, S.DOWN),
    (S.PRIMARY, S.SECONDARY), (S.PRIMARY, S.DOWN),
    (S.SECONDARY, S.PRIMARY), (S.SECONDARY, S.DOWN),
    (S.DOWN, S.INITIALIZING),
}  # fmt: skip


@pytest.mark.parametrize("now", S)
@pytest.mark.parametrize("to", S)
def test_every_move_is_in_the_table_or_refused(now: ModuleState, to: ModuleState) -> None:
    """Law 12. A component that serves before it was initialised answers out of nothing."""
    if (now, to) in ALLOWED:
        check_move("bp/query", now, to)
        return
    with pytest.raises(FailedPrecondition) as raised:
        check_move("bp/query", now, to)
    assert f"bp/query cannot move from {now.value} to {to.value}" in str(raised.value)
    for state in MOVES[now]:
        assert state.value in str(raised.value), "what would be allowed is said"


def test_every_state_can_go_down() -> None:
    """A component that cannot be stopped keeps its whole system up."""
    assert all(S.DOWN in MOVES[state] for state in S if state is not S.DOWN)


def test_the_words_are_those_that_users_write() -> None:
    """Section 4, law 12; they stand in TOML files, and in messages as they are."""
    assert [state.value for state in S] == ["start", "initializing", "primary", "secondary", "down"]
    assert f"{S.PRIMARY}" == "primary"
    assert S("down") is S.DOWN
