"""Quantities: what a word of the command line has to be, beyond what click knows."""

from __future__ import annotations

from typing import Any

import click


class Seconds(click.FloatRange):
    """A time to wait. "nan" is a number to Python and to click, and no time: every comparison with it is false, so it passes
    each bound and then ends each wait at once.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises `BadParameter`."""
        seconds: float = super().convert(value, param, ctx)
        if seconds != seconds:
            self.fail(f"{value} is no time.", param, ctx)
        return seconds
