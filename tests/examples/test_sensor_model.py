"""The model of the sensor field: duty cycles, losses and batteries, whatever the seed and however time is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sensornet.model import (
    ASLEEP_MA,
    AWAKE_MA,
    AWAKE_NS,
    PERIODS_NS,
    FieldModel,
    FieldPlan,
    NodeDeath,
    NodeModel,
    S,
    Transmission,
)

from tests.profiles import examples

SEEDS = st.integers(0, 2**32)
HOUR_NS = 3_600 * S
#: Ten to sixty cycles of the hungriest node: every node of such a field dies within the hours that the tests take.
SMALL_MAH = 1.0


def lives(plan: FieldPlan, until_ns: int) -> dict[int, list[Transmission | NodeDeath]]:
    """What happened to each node of a field."""
    found: dict[int, list[Transmission | NodeDeath]] = {number: [] for number in range(plan.nodes)}
    for each in FieldModel(plan).advance(until_ns):
        found[each.node].append(each)
    return found


@given(SEEDS, st.lists(st.integers(0, 600 * S), max_size=8))
@settings(max_examples=examples(30))
def test_history_does_not_depend_on_the_steps_of_time(seed: int, steps: list[int]) -> None:
    """A busy machine takes longer steps; its field must not have another life."""
    plan = FieldPlan(seed, nodes=20, battery_mah=SMALL_MAH)
    stepwise, now_ns = FieldModel(plan), 0
    found = []
    for step in steps:
        now_ns += step
        found += stepwise.advance(now_ns)
    assert found == FieldModel(plan).advance(now_ns)
    assert stepwise.now_ns == now_ns
    assert all(a.time_ns <= b.time_ns for a, b in pairwise(found))


@given(SEEDS, st.integers(1, 30))
@settings(max_examples=examples(20))
def test_a_node_has_its_own_history(seed: int, nodes: int) -> None:
    """A larger field would otherwise be another one, and no two runs could be compared."""
    small, large = lives(FieldPlan(seed, nodes), HOUR_NS), lives(FieldPlan(seed, 30), HOUR_NS)
    assert all(small[number] == large[number] for number in small)


@given(SEEDS, st.lists(st.integers(0, HOUR_NS), min_size=1, max_size=20).map(sorted))
@settings(max_examples=examples(30))
def test_a_node_is_awake_once_a_period(seed: int, moments: list[int]) -> None:
    """Its duty cycle is what its battery is reckoned by."""
    field = FieldModel(FieldPlan(seed, nodes=3))
    woke: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for now_ns in moments:
        for each in field.advance(now_ns):
            woke[each.node].append(each.time_ns)
        for node in field.nodes:
            assert node.is_awake(now_ns) is any(0 <= now_ns - at < AWAKE_NS for at in woke[node.number])
    for node in field.nodes:
        assert node.period_ns in PERIODS_NS
        assert all(later - at == node.period_ns for at, later in pairwise(woke[node.number]))
        assert len(woke[node.number]) - moments[-1] / node.period_ns == pytest.approx(0, abs=1)


@given(SEEDS)
@settings(max_examples=examples(30))
def test_messages_are_numbered_without_gaps(seed: int) -> None:
    """Whoever receives them finds the lost ones by the numbers that are missing."""
    for life in lives(FieldPlan(seed, nodes=20), HOUR_NS).values():
        assert [each.sequence for each in life if isinstance(each, Transmission)] == list(range(1, len(life) + 1))


@given(SEEDS, st.sampled_from((0.0, 0.1, 0.5, 1.0)))
@settings(max_examples=examples(20))
def test_losses_are_those_of_the_plan(seed: int, loss_max: float) -> None:
    """Each node loses the share that is its own: within six standard deviations of all messages together."""
    plan = FieldPlan(seed, nodes=50, loss_max=loss_max)
    found = [each for life in lives(plan, 6 * HOUR_NS).values() for each in life if isinstance(each, Transmission)]
    loss_of = [node.loss for node in FieldModel(plan).nodes]
    assert all(0.0 <= loss <= loss_max for loss in loss_of)
    expected = sum(loss_of[each.node] for each in found)
    deviation = sum(loss_of[each.node] * (1 - loss_of[each.node]) for each in found) ** 0.5
    assert abs(sum(each.is_lost for each in found) - expected) <= 6 * deviation


@given(SEEDS)
@settings(max_examples=examples(30))
def test_batteries_run_down_and_do_not_recover(seed: int) -> None:
    """By the same charge in each cycle, until it does not suffice for another one; then there is one death, and silence."""
    plan = FieldPlan(seed, nodes=30, battery_mah=SMALL_MAH)
    for number, life in lives(plan, 10_000 * HOUR_NS).items():
        node = NodeModel(plan, number)
        asleep_ns = node.period_ns - AWAKE_NS
        cycle_mah = (AWAKE_MA * AWAKE_NS + ASLEEP_MA * asleep_ns) / HOUR_NS
        *sent, death = life
        assert isinstance(death, NodeDeath) and len(sent) == int(node.battery / 100.0 * SMALL_MAH / cycle_mah)
        levels = [node.battery, *(each.battery for each in sent if isinstance(each, Transmission))]
        assert all(before > after for before, after in pairwise(levels)) and levels[-1] >= 0.0
        used = [before - after for before, after in pairwise(levels)]
        assert used == pytest.approx([100.0 * cycle_mah / SMALL_MAH] * len(sent))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": 0}, "nodes = 0: expected 1 to"),
        ({"nodes": 10_001}, "expected 1 to 10000"),
        ({"battery_mah": 0.0}, "expected a capacity above 0"),
        ({"battery_mah": float("nan")}, "expected a capacity above 0"),
        ({"loss_max": 1.1}, "expected a share from 0.0 to 1.0"),
    ],
)
def test_an_impossible_field_is_refused(wrong: dict[str, float], words: str) -> None:
    """By the name of what is wrong, as it is written in the TOML."""
    with pytest.raises(ValueError, match=words) as raised:
        FieldPlan(**wrong)  # type: ignore[arg-type]
    assert next(iter(wrong)) in str(raised.value)


def test_rooms_differ_by_zone_and_time_of_day() -> None:
    """At noon it is bright and warm; at midnight only lamps are on."""
    node = NodeModel(FieldPlan(), 42)
    morning, noon, midnight = (node.measure(hours * HOUR_NS) for hours in (0, 6, 18))
    assert midnight.temperature < morning.temperature < noon.temperature
    assert midnight.humidity > morning.humidity > noon.humidity
    assert midnight.light == morning.light < noon.light
    assert (node.zone, node.room) == (4, 42)


def test_the_figures_of_the_page() -> None:
    """README.md: messages of a thousand nodes, and when the first battery is empty."""
    nodes = FieldModel(FieldPlan()).nodes
    assert sum(S / node.period_ns for node in nodes) == pytest.approx(19, abs=0.5)
    first_ns = min(node.wakes_ns + node.charge_mas // node.cycle_mas * node.period_ns for node in nodes)
    assert first_ns / HOUR_NS == pytest.approx(5, abs=0.1)
