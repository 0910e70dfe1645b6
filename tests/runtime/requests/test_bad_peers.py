"""What no honest worker says: refused in a sentence, before anything of it counts."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from appbackplane.transport.errors import InvalidArgument

from .outside import Outside

GOOD: list[Any] = ["Work", b"\x01", None, 0, 3, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["Work", 5, *GOOD[2:]],
        ["Work", None, *GOOD[2:]],
        [*GOOD[:2], ["a"], *GOOD[3:]],
        [*GOOD[:2], [], *GOOD[3:]],
        [*GOOD[:2], [-5], *GOOD[3:]],
        [*GOOD[:2], [1 << 40], *GOOD[3:]],
        [*GOOD[:3], 1 << 63, *GOOD[4:]],
        [*GOOD[:6], 10],
    ],
)
def test_posts_that_are_none(wrong: list[Any]) -> None:
    """Nothing is posted, nothing is allocated, and the request that asks goes on."""
    outside = Outside("worker-1")
    element = outside.post(1, owner="x")
    batch = outside.batch("worker-1")
    asked = outside.asked("worker-1", batch, element.id)
    call = outside.say("worker-1", "post_requests", asked=asked, over=[], items=[wrong], wait=True, limit=None)
    with contextlib.suppress(InvalidArgument):
        assert call.result()[1] is not None
    assert len(element.parts) == 0
    assert outside.check().posted_total == 1
    batch.reply([[element.id, b"\x07", None, None, 0]])
    outside.run()
    found, done = outside.rejoin("x")
    assert (found, done is element and element.result) == ("returned", 7)


@pytest.mark.parametrize("answer", [[[1]], [[1, 5, None, None, 0]], [[1, b"\x07", None, None, "long"]], "none"])
def test_answers_that_are_none(answer: Any) -> None:
    """What was executed has failed, and the worker is given more."""
    outside = Outside("worker-1")
    outside.post(1, owner="x")
    outside.batch("worker-1").reply(answer)
    outside.run()
    _, done = outside.rejoin("x")
    assert done is not None and done.error is not None
    assert done.error.startswith("worker-1 sent a malformed answer: Expected `")
    second = outside.post(2, owner="x")
    outside.batch("worker-1").reply([[second.id, b"\x07", None, None, 1 << 63]])
    outside.run()
    assert outside.rejoin("x")[1] is second
    assert outside.check().run_ns_total < 1 << 63
