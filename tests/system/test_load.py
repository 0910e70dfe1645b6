"""Many calls at once: none is lost, none is answered twice."""

from __future__ import annotations

from tests.figures import IS_LONG

from .conftest import Up, answer_of

LEFT_AND_RIGHT = """
[backplane.left]
components = ["components:Left"]
[backplane.right]
components = ["components:Right"]
"""
CLIENTS_COUNT, CALLS_COUNT = 4, 50_000 if IS_LONG else 1_500


def test_each_of_many_calls_is_executed_once_and_answered_once(up: Up) -> None:
    """The promise of a call: exactly one end, and at most one execution. Priorities reorder, they never drop."""
    system = up(LEFT_AND_RIGHT)
    programs = [system.program("flood", str(n * CALLS_COUNT), str(CALLS_COUNT)) for n in range(CLIENTS_COUNT)]
    answers = [answer_of(program) for program in programs]
    assert answers == [{"answered": CALLS_COUNT, "wrong": [], "late": 0}] * CLIENTS_COUNT
    with system.connect() as client:
        half = CLIENTS_COUNT * CALLS_COUNT // 2
        assert client.call("left.total") == [half, 0]
        assert client.call("right.total") == [half, 0]
        for name in ("left", "right"):
            links = client.call(f"backplane.{name}.statistics")["links"]
            assert (links["malformed"], links["undelivered"], links["late"]) == (0, 0, 0)
