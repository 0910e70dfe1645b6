"""Quantities: types of command-line values, beyond click's own, and the option for a time to wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.decorators import FC

from ..configuration.reader import duration_in_words, duration_ns

#: Longest wait of a verb for the end of its order: a day; for longer, run the command again.
WAIT_S_MAX = 86_400


class Seconds(click.FloatRange):
    """A time to wait. "nan" is a number to Python and to click: every comparison with it is false, so it would pass each bound
    and then end each wait at once.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert to seconds. Raises `BadParameter`, also for "nan"."""
        seconds: float = super().convert(value, param, ctx)
        if seconds != seconds:
            self.fail(f"{value} is no time.", param, ctx)
        return seconds


def timeout_option(
    default_s: float, help: str, *, max_s: float = WAIT_S_MAX, is_above_0: bool = True
) -> Callable[[FC], FC]:
    """Add `--timeout` to a verb, as parameter `timeout`, in seconds."""
    kind = Seconds(0, max_s, min_open=is_above_0)
    return click.option("--timeout", type=kind, default=default_s, show_default=True, help=help)


def time(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A time as in the TOML, "1s" or "500ms", in the largest unit of which it is a whole number. Raises `BadParameter`."""
    try:
        return None if value is None else duration_in_words(duration_ns(value))
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: e{str(error).removeprefix('E')}.") from None
