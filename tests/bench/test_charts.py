"""A chart is an SVG and a PNG that others can read, and says what it shows."""

import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench_cases.dispatcher_scaling import Curves, chart
from bench_cases.harness.chart import HEIGHT, WIDTH, Chart, Curve
from bench_cases.harness.computing import parts
from bench_cases.harness.drawing import SCALE, Line, as_png
from bench_cases.harness.glyphs import strokes

from appbackplane.transport.resolver import home

RED = "#ff0000"


def pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height and rows, by the format (RFC 2083) and not by who wrote it."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, size = 8, b"", (0, 0)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        name, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", png, at + 8 + length)
        assert checksum == zlib.crc32(name + body), f"{name!r} is damaged"
        if name == b"IHDR":
            size = struct.unpack_from(">II", body)
        data += body if name == b"IDAT" else b""
        at += 12 + length
    width, height = size
    raw, step = zlib.decompress(data), 1 + 3 * width
    assert len(raw) == height * step
    assert all(raw[row * step] == 0 for row in range(height)), "every row is stored as it is"
    return width, height, [raw[row * step + 1 : (row + 1) * step] for row in range(height)]


def test_both_files_show_every_curve(tmp_path: Path) -> None:
    """What is in one and not in the other would be believed by half of the readers."""
    found = Chart(
        "Title",
        "below",
        "across",
        "up",
        [Curve("falls", {1: 8.0, 32: 0.25}, "#1b7f5c"), Curve("flat", {1: 8.0, 32: 8.0}, RED)],
    )
    svg, png = found.write(tmp_path / "figure")
    assert (svg.name, png.name) == ("figure.svg", "figure.png")
    texts = [each.text for each in ElementTree.parse(svg).iter() if each.tag.endswith("text")]
    assert {"Title", "below", "across", "up", "falls", "flat", "32"} <= set(texts)
    width, height, rows = pixels(png.read_bytes())
    assert (width, height) == (WIDTH * SCALE, HEIGHT * SCALE)
    seen = {row[at : at + 3] for row in rows for at in range(0, len(row), 3)}
    assert {bytes.fromhex("1b7f5c"), bytes.fromhex("ff0000"), b"\xff\xff\xff"} <= seen


def test_a_line_is_painted_where_it_is() -> None:
    """And nowhere else."""
    width, _, rows = pixels(as_png([Line([(2, 5), (8, 5)], RED, 2.0)], 10, 10))
    ink = {(at, row) for row in range(20) for at in range(width) if rows[row][3 * at : 3 * at + 3] == b"\xff\0\0"}
    assert {row for _, row in ink} == {8, 9, 10, 11}
    assert min(at for at, _ in ink) in (2, 3)
    assert max(at for at, _ in ink) in (16, 17)


def test_a_figure_of_the_paper_has_glyphs_for_all_that_it_says(tmp_path: Path) -> None:
    """A word that cannot be drawn would be found after the measurement."""
    curves = Curves()
    for curve in ("idle", "locked", "reactor", "computing"):
        for threads in (1, 2, 32):
            curves.measure(curve, threads, 1, lambda: 0.01)
    for shards in (1, 2):
        curves.measure("sharded", shards, 1, lambda: 0.01)
    assert len(chart(curves).write(tmp_path / "figure")) == 2


def test_what_has_no_glyph_is_an_error() -> None:
    """Left out, it would be missing from the PNG alone."""
    with pytest.raises(KeyError):
        strokes("ß")


def test_a_curve_is_its_best_slices() -> None:
    """What else the machine does only adds."""
    curves = Curves()
    for spent in (0.3, 0.1, 0.2):
        curves.measure("idle", 4, 10, lambda spent=spent: spent)  # type: ignore[misc]
    assert curves.best == {"idle": {4: pytest.approx(10.0)}}


def test_each_shard_has_as_many_parts() -> None:
    """Or the speed-up of two would be that of the fuller one."""
    keys = parts(2, 16)
    at_home = [home(("spread-1", "spread-2"), key) for key in keys]
    assert (at_home.count("spread-1"), at_home.count("spread-2"), len(set(keys))) == (8, 8, 16)
