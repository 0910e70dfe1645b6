"""Page: one file that fetches nothing, runs nothing, and shows every name as it is written."""

from __future__ import annotations

import re
from datetime import UTC
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from appbackplane.spark.report.contents import Contents, Heat
from appbackplane.spark.report.page import ROWS_MAX, STRIPS_MAX, page
from appbackplane.spark.report.plots import LEVELS, heat_map, level

from . import made_contents

EVIL = "<script>alert(1)</script>\"'&\x1b[2J"
VOID = {"meta", "br"}
#: What would make a browser ask somebody else, or run something.
FETCHES = {
    "script",
    "link",
    "img",
    "iframe",
    "object",
    "embed",
    "video",
    "audio",
    "source",
    "base",
    "form",
    "use",
    "image",
}


class Reader(HTMLParser):
    """Knows which elements there are, whether they are closed, and what is said in which."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> where {self.open[-3:]} are open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module", params=["empty", "one", "million"])
def contents(request: pytest.FixtureRequest) -> Contents:
    made: Contents = (
        made_contents.million(EVIL) if request.param == "million" else getattr(made_contents, request.param)()
    )
    return made


def test_it_fetches_nothing_and_runs_nothing(contents: Contents) -> None:
    """It is sent by mail and opened where there is no network; and names in it come from anywhere."""
    text = page(contents, UTC)
    reader = read(text)
    assert FETCHES.isdisjoint(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("href", "src", "xlink:href")]
    assert not re.search(r"url\(|@import|https?:", text)
    assert ("http-equiv", "Content-Security-Policy") in reader.attributes
    assert "\x1b" not in text


def test_names_are_shown_as_they_are_written() -> None:
    """An operation may be called <script>; who looks for it must find it."""
    said = "".join(read(page(made_contents.million(EVIL), UTC)).said)
    assert "<script>alert(1)</script>\"'&\\x1b[2J" in said


def test_no_figure_is_not_a_number(contents: Contents) -> None:
    """A picture with NaN in it is an empty one."""
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", page(contents, UTC), flags=re.DOTALL))


def test_it_stays_small_and_says_what_it_leaves_out() -> None:
    """A million actions, and a thousand backplanes, are as quick to open as one."""
    text = page(made_contents.million(), UTC)
    assert len(text) < 400_000
    assert text.count("<tr>") < 10 * ROWS_MAX
    assert "and 10 more" in text
    made = made_contents.million()
    many = [msgspec.structs.replace(made.timeline[0], backplane=f"b{n}") for n in range(1_000)]
    backplanes = [msgspec.structs.replace(made.backplanes[0], name=f"b{n}") for n in range(1_000)]
    text = page(msgspec.structs.replace(made, timeline=many, backplanes=backplanes), UTC)
    assert len(text) < 900_000
    assert f"and {1_000 - STRIPS_MAX} backplanes that did less" in text
    assert f"and {1_000 - ROWS_MAX} more" in text


def test_what_was_left_out_is_said_first() -> None:
    """Who believes that a report is complete draws the wrong conclusion from what is missing."""
    made = msgspec.structs.replace(
        made_contents.one(), skipped=["a/1.actions: 3 records damaged, left out"], skipped_records=3
    )
    text = page(made, UTC)
    assert text.index("3 records left out") < text.index("Latency")
    assert "a/1.actions: 3 records damaged, left out" in text


def test_nothing_recorded_says_what_to_write() -> None:
    """An empty page would be taken for a fault."""
    assert "[record]" in page(made_contents.empty(), UTC)


def test_colours_tell_counts_apart() -> None:
    """One action in a map of thousands is seen: outliers are what it is for."""
    assert [level(n, 1_000) for n in (0, 1, 999, 1_000)] == [0, 1, LEVELS - 1, LEVELS]
    assert level(1, 1) == LEVELS
    assert [level(n, 1_000) for n in range(1_001)] == sorted(level(n, 1_000) for n in range(1_001))


def cells(drawn: str) -> list[tuple[float, float]]:
    """(width, height) of all rectangles of the map."""
    found = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H\1z", drawn)
    return [(float(right) - float(left), float(lower) - float(upper)) for left, upper, right, lower in found]


def test_every_count_has_its_cell() -> None:
    """Neighbours of one colour are one rectangle; together they cover what was counted, no more."""

    def drawn(counts: list[list[int]]) -> list[tuple[float, float]]:
        nothing: list[Any] = [None] * len(counts)
        edges = [1_000 * 2.0**n for n in range(len(counts[0]) + 1)]
        return cells(
            heat_map(
                Heat(begin_ns=0, width_ns=10**9, edges_ns=edges, counts=counts, p50_ns=nothing, p99_ns=nothing), UTC
            )
        )

    single = drawn([[0] * 12, [0, 0, 0, 5] + [0] * 8, [0] * 12])
    assert len(single) == 1
    ((width, height),) = single
    row = drawn([[0, 0, 0, 5] + [0] * 8] * 3)
    assert [(round(w / width), round(h / height)) for w, h in row] == [(3, 1)]
    assert len(drawn([[0, 1, 0, 5] + [0] * 8, [0] * 12, [0, 1, 0, 5] + [0] * 8])) == 4
    assert heat_map(Heat(begin_ns=0, width_ns=1, edges_ns=[1.0, 2.0], counts=[], p50_ns=[], p99_ns=[])) == ""
