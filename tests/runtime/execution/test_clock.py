"""The machine's clock: the date and the monotonic time of one moment."""

from __future__ import annotations

import pytest

from appbackplane.runtime.execution.workers.clock import READS_MAX, RealClock


class Steps:
    """A clock of which each reading takes some time: the given steps, ns, and then always the last of them."""

    def __init__(self, *steps: int) -> None:
        self.steps, self.now = [*steps], 0

    def read(self) -> int:
        self.now += self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return self.now

    def unix(self) -> int:
        return self.read() + 1_000_000_000


@pytest.mark.parametrize(
    ("steps", "reads"),
    [
        ((100,), 3),
        ((100, 5_000_000, 100, 100), 6),
        ((100, 100, 7_000_000, 100), 6),
        ((10_000_000,), 3 * READS_MAX),
    ],
)
def test_a_turn_of_others_between_two_readings_is_noticed(
    steps: tuple[int, ...], reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all times of a record would be wrong by it. Where each reading takes long, the error is half of one at most."""
    clock, count = Steps(*steps), 0

    def counted(read: object) -> object:
        def reading() -> int:
            nonlocal count
            count += 1
            return read()  # type: ignore[operator, no-any-return]

        return staticmethod(reading)

    monkeypatch.setattr(RealClock, "now_ns", counted(clock.read))
    monkeypatch.setattr(RealClock, "unix_ns", counted(clock.unix))
    assert RealClock().unix_offset_ns() == 1_000_000_000 and count == reads
