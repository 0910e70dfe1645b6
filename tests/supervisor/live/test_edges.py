"""Edges: how fast, how full, how old, and the stage that holds each edge up."""

from __future__ import annotations

from typing import Any

from appbackplane.supervisor.live.edge_table import edge_table
from appbackplane.supervisor.live.figures import SystemFigures, figures
from appbackplane.supervisor.live.line import text
from appbackplane.supervisor.live.navigation import Navigation
from appbackplane.supervisor.live.view import report, screen

from .looks import backplane, look, statistics


def part(stage: str, to: str | None, *, oldest_ms: float | None = None, ended: int = 0, **more: Any) -> dict[str, Any]:
    """What a backplane tells of one part of the flow `orders`."""
    edge = {
        "to": to, "credits": 64, "used": more.get("used", 0), "waiting": more.get("waiting", 0), "oldest_ms": oldest_ms,
        "ended": ended, "resent": 0, "lost": more.get("lost", 0),
    }  # fmt: skip
    return {
        f"orders_{stage}": {
            "flow": "orders", "stage": stage, "taken": 0, "made": 0, "dropped": 0,
            "dead_letters": more.get("dead_letters", 0), "edge": None if to is None else edge,
        }
    }  # fmt: skip


def seen(*rounds: dict[str, dict[str, Any]]) -> SystemFigures:
    """The figures of one or two samples, a second apart; each has the parts of some backplanes."""
    samples = [
        look(10.0 + number, *(backplane(name, statistics(100.0 + number, flows=parts)) for name, parts in each.items()))
        for number, each in enumerate(rounds)
    ]
    return figures(None if len(samples) == 1 else samples[-2], samples[-1])


def test_edges_stand_in_the_order_of_their_flow() -> None:
    """From the source to the sink, wherever their stages are."""
    parts = {**part("store", None), **part("greet", "store"), **part("lines", "parse")}
    found = seen({"back": parts, "front": part("parse", "greet")})
    assert [(each.producer, each.consumer) for each in found.edges] == [
        ("lines", "parse"),
        ("parse", "greet"),
        ("greet", "store"),
    ]


def test_an_edge_has_the_rate_and_the_losses_of_the_interval() -> None:
    """Of all replicas of its producer together; dead letters are those of the consumer."""
    before = {"a": part("lines", "store", ended=100, lost=1), "b": part("lines", "store", ended=50)}
    now = {
        "a": part("lines", "store", ended=400, lost=3, used=10, waiting=2),
        "b": {**part("lines", "store", ended=150, used=5), **part("store", None, dead_letters=4)},
    }
    (edge,) = seen(before, now).edges
    assert (edge.rate, edge.credits, edge.used, edge.waiting) == (400.0, 128, 15, 2)
    assert (edge.lost, edge.lost_new, edge.dead_letters, edge.dead_letters_new) == (3, 2, 4, 0)
    assert seen(now).edges[0].rate is None


def test_the_stage_with_the_oldest_item_holds_an_edge_up() -> None:
    """An item counts on each edge up to where it is: the last edge on which it is as old leads there."""
    at_sink = {
        "main": {
            **part("lines", "parse", oldest_ms=2_000.0),
            **part("parse", "store", oldest_ms=1_900.0),
            **part("store", None),
        }
    }
    assert [each.held_up_by for each in seen(at_sink).edges] == ["store", "store"]
    at_parse = {"main": {**part("lines", "parse", oldest_ms=2_000.0), **part("parse", "store", oldest_ms=3.0)}}
    assert [each.held_up_by for each in seen(at_parse).edges] == ["parse", None]
    idle = {"main": {**part("lines", "parse"), **part("parse", "store", oldest_ms=99.0)}}
    assert [each.held_up_by for each in seen(idle).edges] == [None, None]


def test_they_are_shown_below_the_backplanes() -> None:
    """On the screen if there is room, and in the printout."""
    found = seen({"main": {**part("lines", "store", oldest_ms=1_400.0, used=64), **part("store", None)}})
    printed = [text(line).rstrip() for line in report(found, Navigation(), 120)]
    assert printed[-1].split() == [
        "orders:",
        "lines",
        "→",
        "store",
        "-",
        "64",
        "/",
        "64",
        "1.4",
        "s",
        "store",
        "0",
        "0",
        "0",
    ]
    assert any("EDGE" in text(line) for line in screen(found, Navigation(), 100, 24))
    assert not any("EDGE" in text(line) for line in screen(found, Navigation(), 100, 8))
    assert edge_table((), 100) == []
    assert not any("EDGE" in text(line) for line in report(seen({"main": {}}), Navigation(), 100))


def test_what_does_not_fit_is_left_out_from_the_right() -> None:
    """The name, the rate and the credits are left for last; no line is wider than the terminal."""
    found = seen({"main": part("lines", "store", oldest_ms=1_400.0)})
    for width in range(30, 130):
        heading, row = edge_table(found.edges, width)
        assert len(text(heading)) <= width and len(text(row)) <= width
    assert "RATE" in text(edge_table(found.edges, 40)[0])
