"""How many examples hypothesis tries, and from which seed.

`scripts/test` draws the same examples in every run: a failure is the change's, and not an accident's. With the compiled package
it draws a fifth: the interpreted run has judged the logic, and what mypyc does otherwise shows early. `scripts/long` draws
twenty times as many from a seed of its own, which it says; APPBACKPLANE_MODEL_EXAMPLES=N draws N of each model from a new seed.
Nobody measures the time of an example: that would measure the machine.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.figures import IS_LONG

#: Examples of each model, if somebody asks for a number.
ASKED = os.environ.get("APPBACKPLANE_MODEL_EXAMPLES")
#: Whether these are the same tests once more, with the compiled package (`scripts/test`).
IS_AGAIN = bool(os.environ.get("APPBACKPLANE_EXPECT_COMPILED"))
#: Whether it is enough that a test fails, whatever the smallest example is that it fails with (`scripts/mutate`).
IS_MUTATED = bool(os.environ.get("APPBACKPLANE_MUTATED"))
#: Examples of a test that gives no number. With 100, properties took two fifths of the CPU time of all pieces.
EXAMPLES = 50
#: Marks a test that need not run again with the compiled package: it takes seconds, and others run the same compiled code.
ONCE = pytest.mark.skipif(IS_AGAIN, reason="the interpreted run has judged it")


def examples(count: int) -> int:
    """Examples of one test: `count`, twenty times as many in `scripts/long`, a fifth when compiled, or what is asked for."""
    if ASKED:
        return int(ASKED)
    return 20 * count if IS_LONG else max(1, count // 5) if IS_AGAIN else count


settings.register_profile(
    "appbackplane",
    max_examples=100 if ASKED else examples(EXAMPLES),
    derandomize=not IS_LONG and not ASKED,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate] if IS_MUTATED else list(Phase),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("appbackplane")
