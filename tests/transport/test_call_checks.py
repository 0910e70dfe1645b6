"""Call checks: what would be dropped as malformed by the callee is refused at once by the caller."""

from enum import IntEnum

import pytest

from appbackplane.transport import call_checks, codec
from appbackplane.transport.envelope import CALL, Envelope
from appbackplane.transport.errors import InvalidArgument

WRONG = [
    ("", None, None),
    (5, None, None),
    ("a.b", 7, None),
    ("a.b", None, -1),
    ("a.b", None, True),
    ("a.b", None, "1"),
]


@pytest.mark.parametrize(("route", "key", "priority"), WRONG)
def test_what_cannot_address_a_call_is_refused(route: str, key: str, priority: int) -> None:
    """Sent, it would be a malformed frame: the caller would learn of it by its deadline."""
    with pytest.raises(InvalidArgument):
        call_checks.check(route, key, priority)


def test_what_passes_is_well_formed_for_the_callee() -> None:
    """Both checks must mean the same."""

    class Rank(IntEnum):
        URGENT = 0

    for key, priority in ((None, None), ("shard-1", 0), ("", 7), (None, Rank.URGENT)):
        call_checks.check("a.b", key, priority)
        packed = codec.Encoder().encode(Envelope(CALL, 1, priority, "a.b", key, 1, None, {}))
        assert codec.decode(codec.batch([packed]))[0].priority == priority


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), call_checks.TIMEOUT_MAX_S * 2, "5", True])
def test_a_timeout_is_positive_and_bounded(timeout: float) -> None:
    """Every call has a deadline (DESIGN 12.5)."""
    with pytest.raises(InvalidArgument, match="seconds"):
        call_checks.duration_ns(timeout)


def test_timeouts_are_seconds_and_none_is_the_default() -> None:
    """Nanoseconds by mistake would be a wait of years."""
    assert call_checks.duration_ns(0.5) == 500_000_000
    assert call_checks.duration_ns(None) == 30_000_000_000
    assert call_checks.duration_ns(call_checks.TIMEOUT_MAX_S) // 1_000_000 < 2**31, "what poll(2) can wait"


def test_arguments_that_clash_with_keywords_have_a_way() -> None:
    """An operation may well have a parameter called `key`."""
    assert call_checks.body_of("a.b", {"key": 1}, {"text": "x"}) == {"key": 1, "text": "x"}
    assert call_checks.body_of("a.b", None, {"text": "x"}) == {"text": "x"}
    for wrong in ({"text": 1}, {5: 1}, [("a", 1)]):
        with pytest.raises(InvalidArgument, match=r"a\.b"):
            call_checks.body_of("a.b", wrong, {"text": "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("route", ["b/index.stats", "node-1_a/index.stats", "b/backplane.query.statistics"])
def test_a_route_may_name_a_node(route: str) -> None:
    """Whether there is one of that name, those who know nodes say."""
    call_checks.check(route, None, None)
    packed = codec.Encoder().encode(Envelope(CALL, 1, None, route, None, 1, None, {}))
    assert codec.decode(codec.batch([packed]))[0].route == route
