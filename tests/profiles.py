"""How many examples hypothesis tries, and from which seed.

`scripts/test` draws the same examples in every run: a failure is the change's, and not an accident's. `scripts/long` draws ten
times as many from a seed of its own, which it says. Neither measures the time of an example: that would measure the machine.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: Whether `scripts/long` runs this.
IS_LONG = bool(os.environ.get("APPBACKPLANE_LONG"))

settings.register_profile(
    "appbackplane",
    derandomize=not IS_LONG,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("appbackplane")


def examples(count: int) -> int:
    """Examples of one test: `count` in `scripts/test`, ten times as many in `scripts/long`."""
    return 10 * count if IS_LONG else count
