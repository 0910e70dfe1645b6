"""What a status of HTTP means to a caller here."""

from __future__ import annotations

import pytest

from appbackplane.runtime.things.proxies.http_errors import DETAIL_MAX, told_error
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unavailable,
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidArgument),
        (422, InvalidArgument),
        (413, InvalidArgument),
        (404, NotFound),
        (401, Unavailable),
        (403, Unavailable),
        (302, Unavailable),
        (409, FailedPrecondition),
        (405, FailedPrecondition),
        (429, Busy),
        (503, Busy),
        (504, DeadlineExceeded),
        (500, Unavailable),
        (502, Unavailable),
    ],
)
def test_each_status_is_an_error_of_its_kind(status: int, kind: type[BackplaneError]) -> None:
    """The caller's fault stays theirs; that of the thing is none of this system's."""
    error = told_error("GET https://a/", status, b"")
    assert type(error) is kind and str(status) in error.message and "GET https://a/" in error.message


def test_the_detail_of_a_problem_is_passed_on() -> None:
    """As much of it as a line has."""
    assert told_error("PUT x", 400, b'{"detail": "too bright"}').message == "PUT x answers 400: too bright"
    assert len(told_error("PUT x", 400, b'{"detail": "%s"}' % (b"y" * 5_000)).message) < DETAIL_MAX + 40
    for body in (b"", b"no", b"[]", b'{"detail": 7}', b"[" * 100_000):
        assert told_error("PUT x", 400, body).message == "PUT x answers 400"


def test_the_time_of_the_next_try_is_bounded() -> None:
    """A thing may not put its callers off for a day."""
    assert [told_error("GET x", 503, b"", said).retry_after for said in ("7", "86400", "", "soon", "9" * 400)] == [
        7.0, 60.0, 1.0, 1.0, 1.0,
    ]  # fmt: skip
