"""Quantities: types of command-line values, beyond click's own."""

from __future__ import annotations

from typing import Any

import click

from ..configuration.reader import duration_in_words, duration_ns


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


def time(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A time as in the TOML, "1s" or "500ms", in the largest unit of which it is a whole number. Raises `BadParameter`."""
    try:
        return None if value is None else duration_in_words(duration_ns(value))
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: e{str(error).removeprefix('E')}.") from None
