"""architectures: each architecture of examples/architectures is offered up to three times the frames that one core can inspect.

`python show.py --curves` in that folder, for longer and several times. The medians of all sweeps are drawn as
`architectures.svg` among the plots, beside `architectures.json`; docs/concepts/architectures.md shows that picture. All sweeps
are one round, as each takes minutes. With --quick there is one, of the actor and of M-N, and no picture. A surprise would be an
architecture with priorities whose commands wait for more than the frames that run, or one without whose commands do not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.plots import PLOTS
from .harness.systems import SCRIPTS

EXAMPLE = SCRIPTS.parent / "examples" / "architectures"
#: Seconds of a step before what counts, and of what counts.
SETTLE_S, MEASURED_S, SWEEPS = 0.5, 2.5, 3
QUICK_SETTLE_S, QUICK_MEASURED_S, QUICK_LOADS = 0.25, 0.75, (0.5, 3.0)
QUICK_NAMES = ("one_to_one", "many_to_many")
#: The command of an operator waits for less than a person notices, at three times the capacity.
COMMAND_MS_MAX = 50


def measure(is_quick: bool) -> Figures:
    """All sweeps; the figures of M-N at the highest load, and of the actor beside it."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
    import curves
    from registry import ARCHITECTURES

    chosen = [each for each in ARCHITECTURES if not is_quick or each.name in QUICK_NAMES]
    loads, settle_s, measured_s = curves.LOADS, SETTLE_S, MEASURED_S
    if is_quick:
        loads, settle_s, measured_s = QUICK_LOADS, QUICK_SETTLE_S, QUICK_MEASURED_S
    steps: list[curves.Step] = []
    for seed in range(1 if is_quick else SWEEPS):
        steps += curves.sweep(chosen, loads, settle_s, measured_s, lambda _step: None, seed)
        if not is_quick:
            PLOTS.add_svg("architectures", curves.picture(steps))
            PLOTS.add_text("architectures.json", curves.as_json(steps, settle_s, measured_s))
    served, p99 = curves.served(steps), curves.command_p99(steps)
    most = max(loads)
    return {
        f"{kind}_{each.name}_{unit}": found[each.label][most]
        for each in chosen
        for kind, found, unit in (("served", served, "percent"), ("p99", p99, "ms"))
    }


def _served_ratio(ours: Figures, _reference: Figures) -> float:
    return ours["served_many_to_many_percent"] / ours["served_one_to_one_percent"]


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    yield Sides(lambda: measure(is_quick))


CASE = Case(
    name="architectures",
    what="a station in each architecture, up to three times what one core can inspect; draws architectures.svg",
    requirements=(
        Requirement("p99 of commands, M-N", ours("p99_many_to_many_ms"), at_most=COMMAND_MS_MAX, unit="ms"),
        Requirement("frames served, M-N to the actor", _served_ratio, at_least=1.5),
    ),
    open=both,
    rounds=1,
    quick_rounds=1,
    is_warmed_up=False,
)
