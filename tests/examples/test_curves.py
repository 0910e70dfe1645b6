"""The load that is offered to the stations, and the picture of what they make of it."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from curves import LOOKS, Step, as_json, command_p99, line, picture, served, sweep, undisturbed
from offered_load import CAPACITY_PER_S, COMMANDS_PER_S, READINGS_PER_FRAME, Answers, arrivals
from registry import ARCHITECTURES, COMMANDS, FRAMES, HERE, READINGS

EVENT = ARCHITECTURES[0]


def step(architecture: str, load: float, percent: float = 50.0, p99_ms: float = 10.0) -> Step:
    """One that was measured."""
    return Step(architecture, load, percent, 0.0, p99_ms, 0, 0.5)


def test_arrivals_are_drawn_ahead_and_are_the_same_for_all() -> None:
    """Each architecture gets the same requests at the same times: whatever differs is not the luck of the draw."""
    drawn = arrivals(2.0, 10.0, seed=7)
    assert drawn == arrivals(2.0, 10.0, seed=7)
    assert drawn != arrivals(2.0, 10.0, seed=8)
    assert [each.at_s for each in drawn] == sorted(each.at_s for each in drawn)
    assert drawn[0].at_s > 0 and drawn[-1].at_s < 10.0
    counts = Counter(each.kind for each in drawn)
    frames = 10 * 2.0 * CAPACITY_PER_S
    assert counts[FRAMES] == pytest.approx(frames, rel=0.1)
    assert counts[READINGS] == pytest.approx(READINGS_PER_FRAME * frames, rel=0.1)
    assert counts[COMMANDS] == pytest.approx(10 * COMMANDS_PER_S, rel=0.2)


def test_a_sensor_numbers_its_readings() -> None:
    """From 0, without a gap, in the order in which they are sent: a station counts as late what comes after a later one."""
    numbers: dict[str, list[int]] = {}
    for each in arrivals(1.0, 2.0, seed=1):
        if each.kind == READINGS:
            numbers.setdefault(each.device, []).append(each.number)
    assert numbers
    assert all(found == list(range(len(found))) for found in numbers.values())


def test_a_command_that_was_not_served_is_a_slow_one() -> None:
    """Left out, an architecture that refuses all commands would have the best p99."""
    answers = Answers(commands_s=[0.001] * 98)
    assert answers.command_p99_ms() == pytest.approx(1.0)
    answers.commands_failed = 2
    assert answers.command_p99_ms() == pytest.approx(2_000.0)


def test_the_picture_has_a_curve_with_its_name_for_each_architecture_in_both_panels() -> None:
    """Told apart without colors: no two have the same dash and mark. Figures are medians over the sweeps."""
    steps = [
        step(each.name, load, percent)
        for each in ARCHITECTURES
        for load in (0.5, 3.0)
        for percent in (40.0, 60.0, 90.0)
    ]
    assert served(steps)[EVENT.label] == {0.5: 60.0, 3.0: 60.0}
    assert command_p99(steps)[EVENT.label] == {0.5: 10.0, 3.0: 10.0}
    root = ElementTree.fromstring(picture(steps))
    names = Counter(each.text for each in root.iter() if each.tag.endswith("text"))
    assert all(names[each.label] == 2 for each in ARCHITECTURES)
    assert len({(look.dash, look.mark) for look in LOOKS.values()}) == len(ARCHITECTURES)


@pytest.mark.parametrize(("lags_ms", "kept_ms"), [([5.0], 5.0), ([90.0, 10.0], 10.0), ([90.0, 30.0, 60.0], 30.0)])
def test_a_step_in_which_the_driver_was_held_up_is_measured_again(lags_ms: list[float], kept_ms: float) -> None:
    """It offered another load than it should have. Three times at most: a busy machine gets a picture, too."""
    left = list(lags_ms)

    async def measure() -> Step:
        return Step("event", 1.0, 50.0, 0.0, 10.0, 0, left.pop(0))

    found = undisturbed(measure)
    assert (found.driver_lag_ms, left) == (kept_ms, [])


def test_what_was_not_measured_has_no_curve() -> None:
    assert set(served([step(EVENT.name, 1.0)])) == {EVENT.label}
    picture([step(EVENT.name, 1.0)])
    assert '"load": 1.0' in as_json([step(EVENT.name, 1.0)], 0.5, 1.5)
    assert line(step(EVENT.name, 1.0)).startswith("event")


def test_a_station_is_measured() -> None:
    """A real one, for a moment: it serves frames and commands, and is taken down."""
    said: list[Step] = []
    steps = sweep([EVENT], (0.2,), 0.1, 0.4, said.append)
    assert steps == said
    (found,) = steps
    assert (found.architecture, found.load, found.refused_percent) == ("event", 0.2, 0.0)
    assert found.served_percent > 0
    assert found.command_p99_ms > 0


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    """Before anything is measured, and not after."""
    words = [sys.executable, str(HERE / "show.py"), "--curves", str(tmp_path / "nowhere")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == f"--curves {tmp_path / 'nowhere'}: there is no such folder"
