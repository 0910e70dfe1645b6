"""Errors and statuses: an error that crosses a process comes out as itself."""

import pytest

from appbackplane.transport import codec, errors
from appbackplane.transport.envelope import status
from appbackplane.transport.errors import Status

KINDS = [
    errors.InternalError, errors.InvalidArgument, errors.NotFound, errors.PermissionDenied, errors.FailedPrecondition,
    errors.DeadlineExceeded,
    errors.Cancelled, errors.Busy, errors.Unavailable, errors.PeerDown,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_crosses_a_process_as_itself(kind: type[errors.BackplaneError]) -> None:
    """`except Busy` must work on the far side, and its hint must be there."""
    envelope = status(7, kind("why", retry_after=0.25, trace="Traceback …"))
    back = errors.error_from(*envelope.body)
    assert type(back) is kind
    assert (back.message, back.retry_after, back.trace, str(back)) == ("why", 0.25, "Traceback …", "why")


def test_an_unknown_number_is_named() -> None:
    """A newer peer may know more statuses than we do."""
    for number in (4711, int(Status.OK)):
        error = errors.error_from(number, "what")
        assert type(error) is errors.InternalError and str(number) in str(error)


def test_every_error_says_whose_fault_it_was() -> None:
    """That decides what the reader does next."""
    roots = (errors.CallerError, errors.PeerError, errors.InternalError)
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.BackplaneError)]
    assert len(kinds) > len(KINDS)
    assert [
        k for k in kinds if k is not errors.BackplaneError and sum(issubclass(k, root) for root in roots) != 1
    ] == []


def test_an_unknown_route_names_the_nearest() -> None:
    """Most unknown routes are typing errors."""
    assert (
        str(errors.UnknownRoute("query.serch", "query.search"))
        == "no route 'query.serch' (did you mean 'query.search'?)"
    )
    assert str(errors.UnknownRoute("x")) == "no route 'x'"
    assert type(errors.error_from(*status(1, errors.UnknownRoute("x")).body)) is errors.NotFound


class Silent(errors.Busy):
    """Does not call its base."""

    def __init__(self) -> None:
        pass


class Unspeakable(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise KeyError("what")


@pytest.mark.parametrize(
    "error",
    [
        errors.NotFound(KeyError("an exception for a message")),  # type: ignore[arg-type]
        errors.NotFound(Unspeakable()),  # type: ignore[arg-type]
        errors.Busy("x", retry_after="soon"),  # type: ignore[arg-type]
        errors.InternalError("a file name that is no text: \udcff", trace="\udcff"),
        errors.InternalError("x" * (20 << 20)),
        Silent(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_status_travels_whatever_is_in_the_error(error: errors.BackplaneError) -> None:
    """Users make errors. One that could not be packed ended the process; one that could not be read spoilt a whole batch."""
    (back,) = codec.decode(codec.batch([codec.Encoder().encode(status(1, error))]))
    assert errors.error_from(*back.body).status is error.status
    assert back.body[1]
