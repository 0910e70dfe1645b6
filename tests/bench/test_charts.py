"""A chart is an SVG and a PNG that others can read, and says what it shows."""

import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_cases import __main__ as command
from bench_cases import architectures
from bench_cases.dispatcher_scaling import Curves, chart
from bench_cases.harness.case import Case, Requirement, Sides, ours
from bench_cases.harness.chart import DOTS_PER_INCH, SIZE_INCHES, Chart, Curve
from bench_cases.harness.computing import parts
from bench_cases.harness.panels import LINE, Look, Panel, spread, svg
from bench_cases.harness.plots import Plots
from bench_cases.overload_curve import LOOKS, NAMES
from bench_cases.overload_curve import Curves as OverloadCurves
from click.testing import CliRunner

from appbackplane.transport.resolver import home

GREEN, RED = "#1b7f5c", "#ff0000"
CHART = Chart(
    "Title",
    "below",
    "across",
    "up",
    [Curve("falls", {1: 8.0, 32: 0.25}, GREEN), Curve("flat", {1: 8.0, 32: 8.0}, RED, is_hollow=True)],
)


def test_both_files_show_every_curve(tmp_path: Path) -> None:
    """What is in one and not in the other would be believed by half of the readers."""
    image = pytest.importorskip("matplotlib.image", reason="the extra is not installed: pip install '.[bench]'")
    svg, png = CHART.write(tmp_path / "figure")
    assert (svg.name, png.name) == ("figure.svg", "figure.png")
    texts = {each.text: each for each in ElementTree.parse(svg).iter() if each.tag.endswith("text")}
    assert {"Title", "below", "across", "up", "falls", "flat", "32", "0.5"} <= set(texts)
    assert GREEN in texts["falls"].attrib["style"], "the name of a curve has its color"
    assert RED in texts["flat"].attrib["style"], "and that of a curve with hollow dots is not white"
    pixels = image.imread(png)
    assert pixels.shape[:2] == tuple(round(side * DOTS_PER_INCH) for side in reversed(SIZE_INCHES))
    seen = {bytes(each) for each in (pixels[..., :3].reshape(-1, 3) * 255).round().astype("uint8")}
    assert {bytes.fromhex("1b7f5c"), bytes.fromhex("ff0000"), b"\xff\xff\xff"} <= seen


def test_a_figure_of_the_paper_has_letters_for_all_its_words(tmp_path: Path) -> None:
    """A letter that the font lacks is drawn as a box, and only warned of."""
    pytest.importorskip("matplotlib", reason="the extra is not installed: pip install '.[bench]'")
    curves = Curves()
    for curve in ("idle", "locked", "reactor", "computing"):
        for threads in (1, 2, 32):
            curves.measure(curve, threads, 1, lambda: 0.01)
    for shards in (1, 2):
        curves.measure("sharded", shards, 1, lambda: 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(chart(curves).write(tmp_path / "figure")) == 2


def test_without_matplotlib_a_run_has_its_figures_and_says_what_brings_the_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chart comes last: an error there would throw away what has been measured for minutes."""
    plots = Plots()

    @contextmanager
    def measured(is_quick: bool) -> Iterator[Sides]:
        yield Sides(lambda: {"spent_ms": 1.0})
        plots.add("figure", CHART)

    case = Case("drawn", "nothing", (Requirement("spent", ours("spent_ms"), at_most=2),), measured, 1, 1)
    monkeypatch.setattr(command, "CASES", [case])
    monkeypatch.setattr(command, "PLOTS", plots)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = CliRunner().invoke(command.main, ["drawn", "--plots", str(tmp_path), "--json", str(tmp_path / "found.json")])
    assert run.exit_code == 0, run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("no plot of figure: ")]
    assert "pip install '.[bench]'" in line
    assert [file.name for file in tmp_path.iterdir()] == ["found.json"]


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


def test_the_case_of_the_architectures_writes_a_picture_and_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each sweep, so that an interrupted run has both; the figures are those of the highest load."""
    monkeypatch.syspath_prepend(str(architectures.EXAMPLE))
    curves = importlib.import_module("curves")

    def sweep(chosen: Any, loads: Any, settle_s: float, measured_s: float, say: Any, seed: int) -> list[Any]:
        return [
            curves.Step(each.name, load, 10 * load + seed, 0.0, 5.0, 0, 0.1)
            for each in chosen
            for load in (0.5, max(loads))
        ]

    plots = Plots()
    plots.folder = tmp_path
    monkeypatch.setattr(curves, "sweep", sweep)
    monkeypatch.setattr(architectures, "PLOTS", plots)
    figures = architectures.measure(is_quick=False)
    assert (figures["served_many_to_many_percent"], figures["p99_one_to_one_ms"]) == (31.0, 5.0)
    assert [path.name for path in plots.written] == ["architectures.svg", "architectures.json"]
    assert len(json.loads((tmp_path / "architectures.json").read_text())["steps"]) == 3 * 2 * len(curves.ARCHITECTURES)


LOOKS_OF_TWO = {"adaptive": Look("#1b7f5c", "", "circle"), "plain": Look("#1f2933", "2 4", "triangle")}


def test_panels_are_a_picture_that_needs_no_color() -> None:
    """A page of the docs may be printed: each curve has a mark and a dash of its own, and its name."""
    panel = Panel(
        "p99, ms", {"adaptive": {0.5: 2.0, 3.0: 24.0}, "plain": {0.5: 2.0, 3.0: 1_000.0}}, [1, 10, 100, 1_000], True
    )
    root = ElementTree.fromstring(svg("load", [0.5, 3.0], LOOKS_OF_TWO, [panel, panel]))
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert {"p99, ms", "load", "0.5", "3", "1,000", "adaptive", "plain"} <= set(texts)
    names = [each.text for each in root.iter() if each.tag.endswith("title")]
    assert names == ["adaptive", "plain"] * 2
    assert len({(look.dash, look.mark) for look in LOOKS.values()}) == len(NAMES)


def test_names_stand_beside_the_curves_where_there_are_many() -> None:
    """In each panel, and then in no legend: the eye need not travel."""
    panel = Panel("ms", {"adaptive": {0.5: 2.0, 3.0: 24.0}, "plain": {0.5: 2.0, 3.0: 24.0}}, [1, 10, 100], True)
    root = ElementTree.fromstring(svg("load", [0.5, 3.0], LOOKS_OF_TWO, [panel, panel], is_labelled=True))
    names = [each for each in root.iter() if each.tag.endswith("text") and each.text in LOOKS_OF_TWO]
    assert [each.text for each in names] == ["adaptive", "plain"] * 2
    assert float(names[1].attrib["y"]) - float(names[0].attrib["y"]) == LINE, (
        "curves that end at one point have two names"
    )
    assert [each.attrib["fill"] for each in names] == [look.color for look in LOOKS_OF_TWO.values()] * 2


@pytest.mark.parametrize(
    ("heights", "placed"),
    [
        ([10, 50], [10, 50]),
        ([50, 10], [50, 10]),
        ([10, 10, 10], [10, 24, 38]),
        ([95, 95, 98], [72, 86, 100]),
        ([120.0], [100.0]),
    ],
)
def test_names_do_not_cover_each_other(heights: list[float], placed: list[float]) -> None:
    assert spread(heights, 14, 100) == placed


def test_a_value_beyond_the_axis_is_drawn_at_its_end() -> None:
    panel = Panel("ms", {}, [1, 10, 100], is_logarithmic=True)
    assert [panel.height_of(value) for value in (0.1, 1, 10, 5_000)] == [0, 0, 0.5, 1]
    assert Panel("%", {}, [0, 50, 100]).height_of(25) == 0.25


def test_the_picture_of_overload_has_all_three_services_with_their_medians(tmp_path: Path) -> None:
    """It is renewed after each round, so an interrupted run has one, too."""
    curves = OverloadCurves((0.5, 3.0))
    for name in NAMES:
        for load in curves.loads:
            curves.goodput[name, load] += [50.0, 90.0, 100.0]
            curves.p99[name, load] += [3.0, 20.0, 30.0]
    plots = Plots()
    plots.folder = tmp_path / "plots"
    for _ in range(2):
        plots.add_svg("overload", curves.picture())
    assert plots.written == [tmp_path / "plots" / "overload.svg"]
    root = ElementTree.parse(plots.written[0]).getroot()
    assert set(NAMES) <= {each.text for each in root.iter()}
