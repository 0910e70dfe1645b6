"""Moves are drawn from a seed, so that a run that failed can be had again."""

from itertools import pairwise

from chaos_run.moves import PAUSE_S_MIN, WEIGHTS, draw

BACKPLANES, CLIENTS = ("north", "east"), ("threads", "tasks")


def test_the_same_seed_gives_the_same_moves() -> None:
    """A failure prints its seed: without this, it would print a number."""
    assert draw(7, 60, BACKPLANES, CLIENTS) == draw(7, 60, BACKPLANES, CLIENTS)
    assert draw(7, 60, BACKPLANES, CLIENTS) != draw(8, 60, BACKPLANES, CLIENTS)


def test_every_kind_is_drawn_and_aims_at_what_it_is_for() -> None:
    """A kind that is never drawn proves nothing of what it would do."""
    moves = draw(1, 1_000, BACKPLANES, CLIENTS)
    assert {move.kind for move in moves} == set(WEIGHTS)
    for move in moves:
        if move.kind in ("kill client", "stop client"):
            assert move.target in CLIENTS
        elif move.kind in ("kill", "kill young", "terminate", "limit", "stop", "stop long", "restart"):
            assert move.target in BACKPLANES
        else:
            assert move.target == ""


def test_moves_are_in_order_and_end_in_time() -> None:
    """The agent does one after the other."""
    times = [move.at_s for move in draw(3, 100, BACKPLANES, CLIENTS)]
    assert times == sorted(times)
    assert times[-1] < 100
    assert min(after - before for before, after in pairwise(times)) >= PAUSE_S_MIN


def test_what_is_left_out_is_not_drawn() -> None:
    """Who looks for one cause leaves out another."""
    assert {move.kind for move in draw(1, 500, BACKPLANES, CLIENTS, without=("kill", "stop"))} == {*WEIGHTS} - {
        "kill",
        "stop",
    }
