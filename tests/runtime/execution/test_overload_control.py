"""Overload control: requests that would queue for longer than their operation's aim, or have, end in `Busy` and never begin."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import Adaptive, AppObject, Busy, Component, DeclarationError, operation
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall

AIM_S = 0.02


class Press(AppObject):
    """Work of 5 ms, with an aim and without one."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    @operation(priority=4, admit=Adaptive(aim_ms=AIM_S * 1000))
    def print(self, page: int) -> int:
        self.shop.sleep(0.005)
        self.shop.printed.append(page)
        return page

    @operation(priority=4)
    def proof(self, page: int) -> int:
        self.shop.sleep(0.005)
        self.shop.printed.append(page)
        return page


class Binder(AppObject):
    @operation(priority=4)
    async def bind(self, page: int) -> Any:
        return await self.call("shop.proof", page=page)


class Shop(Component):
    """One press, and where it notes the pages that it has printed."""

    def __init__(self) -> None:
        self.printed: list[int] = []
        self.sleep: Any = None

    def setup(self) -> None:
        self.add(Press(self))
        self.add(Binder())


def shop(**options: Any) -> tuple[VirtualBackplane, Shop]:
    component = Shop()
    backplane = VirtualBackplane(component, **options)
    component.sleep = backplane.clock.sleep
    return backplane, component


def submit(backplane: VirtualBackplane, operation: str, count: int, priority: int | None = None) -> list[VirtualCall]:
    """So many calls at once, before the backplane runs."""
    return [backplane.call(f"shop.{operation}", priority=priority, page=page) for page in range(count)]


def refused(calls: list[VirtualCall]) -> list[Busy]:
    errors = [call.exception() for call in calls]
    return [error for error in errors if isinstance(error, Busy)]


def test_what_has_queued_for_longer_than_the_aim_never_begins() -> None:
    """Of ten at once the first five have queued for 0 to 20 ms."""
    backplane, component = shop()
    calls = submit(backplane, "print", 10)
    backplane.run_until_idle()
    errors = refused(calls)
    assert component.printed == [0, 1, 2, 3, 4]
    assert len(errors) == 5
    assert "shop.print" in errors[0].message and "25.0 ms" in errors[0].message and "20 ms" in errors[0].message
    assert errors[0].retry_after == AIM_S
    assert errors[0].overloaded_at == 4, "the caller learns at which priority"


def test_the_refused_count_as_refused_and_the_others_do_not() -> None:
    backplane, _ = shop()
    submit(backplane, "print", 10)
    backplane.run_until_idle()
    limit = backplane.backplane.engine.overload.limits["shop.print"]
    assert limit.late_count == 5 and limit.queued == [0] * 8
    assert backplane.backplane.engine.statistics.of("shop.print").refused_count == 5


def test_once_the_pace_is_known_a_request_is_refused_when_it_comes() -> None:
    """Nobody waits for a refusal that is certain. Four are served within the aim."""
    backplane, component = shop()
    for _ in range(10):
        submit(backplane, "print", 40)
        backplane.run_until_idle()
    component.printed.clear()
    calls = submit(backplane, "print", 40)
    backplane.run_until_idle()
    early = [error for error in refused(calls) if "it would queue for longer" in error.message]
    assert len(early) >= 30 and all(error.overloaded_at == 4 for error in early)
    assert 4 <= len(component.printed) <= 6


def test_priority_0_is_never_refused() -> None:
    backplane, component = shop()
    calls = submit(backplane, "print", 100, priority=0)
    backplane.run_until_idle()
    assert not refused(calls)
    assert len(component.printed) == 100


def test_an_operation_without_a_limit_is_not_concerned() -> None:
    backplane, _ = shop()
    calls = submit(backplane, "proof", 20)
    backplane.run_until_idle()
    assert not refused(calls)


def test_the_limit_of_a_backplane_is_for_all_that_have_none_of_their_own() -> None:
    backplane, component = shop(aim=0.01)
    calls = submit(backplane, "proof", 10)
    backplane.run_until_idle()
    assert component.printed == [0, 1, 2]
    assert len(refused(calls)) == 7


def test_a_call_that_admitted_work_makes_is_not_refused_for_the_queue_of_the_backplane() -> None:
    """Half a request done is worth nothing, and has cost its half."""
    backplane, _ = shop(aim=0.01)
    whole = backplane.call("shop.bind", page=7)
    others = submit(backplane, "proof", 10)
    assert whole.result() == 7
    assert len(refused(others)) > 5


def test_a_cast_beyond_the_limit_is_counted() -> None:
    backplane, component = shop()
    for page in range(10):
        backplane.cast("shop.print", page=page)
    backplane.run_until_idle()
    assert component.printed == [0, 1, 2, 3, 4]
    assert backplane.backplane.engine.statistics.of("shop.print").refused_count == 5


@pytest.mark.parametrize("aim_ms", [0, -5, 1e-9, 1e300, float("inf"), float("nan"), True, "20", 3_600_001])
def test_a_bad_aim_is_refused_where_it_is_written(aim_ms: Any) -> None:
    with pytest.raises(DeclarationError, match=r"slow: admit: aim_ms=.*expected milliseconds, 0.1 to 3600000"):

        @operation(admit=Adaptive(aim_ms=aim_ms))
        def slow(self: Any) -> None: ...


def test_a_bare_number_is_no_limit() -> None:
    with pytest.raises(DeclarationError, match=r"slow: admit=20: expected a limit, as in admit=Adaptive"):

        @operation(admit=20)  # type: ignore[arg-type]
        def slow(self: Any) -> None: ...


def test_an_aim_below_the_operations_own_time_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Nearly everything is refused then, and nobody would look for the cause in a figure of the code."""
    backplane, _ = shop(aim=0.001)
    for _ in range(200):
        submit(backplane, "proof", 10)
        backplane.run_until_idle()
    said = [record.message for record in caplog.records if "choose a longer aim" in record.message]
    assert said[0].startswith("shop.proof runs for 5.0 ms, longer than the 1 ms for which its requests may queue")


def test_the_time_in_an_undrained_socket_counts() -> None:
    """A request that nobody has read is late all the same."""
    backplane, component = shop()
    backplane.call("shop.proof", page=0).result()
    intake = backplane.backplane.engine.intake
    intake.unread_since_ns = backplane.clock.now_ns() - 21_000_000
    call = backplane.call("shop.print", page=1)
    assert "it has queued for 21.0 ms" in call.error().message
    assert component.printed == [0]
