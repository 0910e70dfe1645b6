"""Priorities of messages: declared, or by their rates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.dispatcher import Dispatcher, Message, RegistrationError, message
from appbackplane.runtime.dispatcher.message import MessageSpec
from appbackplane.runtime.dispatcher.priorities import declared, rate_monotonic
from appbackplane.runtime.testing import VirtualBackplane

rates = st.none() | st.floats(0.001, 1e6)


def specs(rates: list[float | None]) -> list[MessageSpec]:
    return [MessageSpec(type=Message, name=f"m{n}", category=1, id=n, rate=rate) for n, rate in enumerate(rates)]


@given(st.lists(rates, min_size=1, max_size=30), st.integers(1, 12))
def test_what_comes_more_often_is_never_less_urgent(rates: list[float | None], priorities: int) -> None:
    """Liu and Layland: the order is all that counts. Without a rate it gives way to all that have one, where there is room."""
    found = rate_monotonic(specs(rates), priorities)
    assert all(0 <= each < priorities for each in found.values())
    with_rates = sorted((-rate, found[f"m{n}"]) for n, rate in enumerate(rates) if rate is not None)
    assert [priority for _, priority in with_rates] == sorted(priority for _, priority in with_rates)
    distinct = len({rate for rate in rates if rate is not None})
    if distinct < priorities:
        assert len({priority for _, priority in with_rates}) == distinct, "each rate a priority of its own"
    if priorities > 1 and with_rates and None in rates:
        others = {found[f"m{n}"] for n, rate in enumerate(rates) if rate is None}
        assert min(others) > max(priority for _, priority in with_rates)


def test_a_declared_priority_stands() -> None:
    """Roles go before rates."""
    alarm = MessageSpec(type=Message, name="alarm", category=1, id=99, rate=0.001, priority=0)
    assert rate_monotonic([alarm, *specs([10.0, 1.0])], 8) == {"alarm": 0, "m0": 0, "m1": 1}
    assert declared([alarm, *specs([None])], 3) == {"alarm": 0, "m0": 2}


@message(category=940, id=1, rate=1.0)
class Slow(Message):
    pass


@message(category=940, id=2, rate=50.0)
class Fast(Message):
    pass


def on_slow(_: Slow) -> None: ...
def on_fast(_: Fast) -> None: ...


class Clock(Dispatcher):
    priorities = "rate_monotonic"

    def setup(self) -> None:
        self.register(on_slow)
        self.register(on_fast)


def test_a_dispatcher_assigns_them_once_all_is_registered() -> None:
    """And routes say so."""
    clock = Clock()
    backplane = VirtualBackplane(clock)
    entry = next(entry for entry in backplane.backplane.entries() if entry.name == "clock")
    urgency = {each.route: each.priority for each in entry.operations}
    assert {route: urgency[route] for route in ("clock.slow", "clock.fast")} == {"clock.slow": 1, "clock.fast": 0}
    clock.dispatch(Slow())
    clock.dispatch(Fast())
    assert backplane.run_until_idle() == ["fast", "slow"]


def test_an_unknown_rule_is_refused() -> None:
    """With those there are."""

    class Odd(Clock):
        priorities = "random"

    with pytest.raises(
        RegistrationError, match=r"Odd.priorities = 'random': expected one of \['declared', 'rate_monotonic'\]"
    ):
        _ = VirtualBackplane(Odd()).backplane
