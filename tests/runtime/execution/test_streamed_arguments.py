"""Streamed arguments: an operation reads one item by item while its caller fetches it, and never takes a part for the whole."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec
import pytest

from appbackplane.runtime import Action, AppObject, Component, Endpoint, Request, operation, pause
from appbackplane.runtime.execution.actions.reading_action import ReadingAction
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.testing.virtual_client import CLIENT, VirtualCall
from appbackplane.transport import envelope, stream
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
)

ROUTES = ("bench.load", "bench.load_plainly")


class Row(msgspec.Struct):
    """A row with a type of its own."""

    number: int


class Checked(msgspec.Struct):
    """A row that refuses some numbers without a reason."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("")


class Table(AppObject):
    """Loads rows, and notes how far it has come and how it has ended."""

    def __init__(self) -> None:
        self.read: list[Any] = []
        self.ended_by: list[str] = []
        self.kept: Any = None

    @operation(priority=5)
    async def load(self, rows: AsyncIterator[int], upto: int = -1, every: float = 0.0) -> int:
        try:
            async for row in rows:
                self.read.append(row)
                if len(self.read) == upto:
                    break
                if every:
                    await pause(every)
            self.ended_by.append("end")
        except BaseException as error:
            self.ended_by.append(type(error).__name__)
            raise
        return sum(self.read)

    @operation(priority=5)
    def load_plainly(self, rows: Iterable[int]) -> int:
        try:
            for row in rows:
                self.read.append(row)
            self.ended_by.append("end")
        except BaseException as error:
            self.ended_by.append(type(error).__name__)
            raise
        return sum(self.read)

    @operation()
    async def convert(self, rows: AsyncIterator[Row]) -> list[int]:
        numbers: list[int] = []
        try:
            async for row in rows:
                numbers.append(row.number)
        except InvalidArgument as error:
            return [*numbers, str(error)]  # type: ignore[list-item]
        return numbers

    @operation()
    async def texts(self, rows: AsyncIterator[Literal["a", "b"]]) -> list[str]:
        return await items_and_error(rows)

    @operation()
    async def tables(self, rows: AsyncIterator[dict[int, int]]) -> list[str]:
        return await items_and_error(rows)

    @operation()
    async def checked(self, rows: AsyncIterator[Checked]) -> list[str]:
        return await items_and_error(rows)

    @operation()
    async def perhaps(self, rows: AsyncIterator[int] | None = None) -> int:
        return -1 if rows is None else sum([row async for row in rows])

    @operation()
    async def anything(self, rows) -> list[Any]:  # type: ignore[no-untyped-def]
        return [row async for row in rows]

    @operation()
    async def wrongly(self, rows: AsyncIterator[int]) -> int:
        return sum(rows)  # type: ignore[arg-type]

    @operation()
    async def twice(self, rows: AsyncIterator[int]) -> list[int]:
        return [row async for row in rows] + [row async for row in rows]

    @operation()
    async def keep(self, rows: AsyncIterator[int]) -> int:
        self.kept = rows
        return await anext(self.kept)

    @operation()
    async def read_kept(self, rows: AsyncIterator[int] | None = None) -> int:
        return await anext(self.kept)

    @operation(priority=1)
    def urgent(self) -> int:
        return len(self.read)


class Other(AppObject):
    """Another object."""

    @operation(priority=3)
    def double(self, number: int) -> int:
        return 2 * number


async def items_and_error(rows: AsyncIterator[Any]) -> list[str]:
    """What can be read, and the error in which that ends."""
    read: list[str] = []
    try:
        async for row in rows:
            read.append(repr(row))
    except InvalidArgument as error:
        read.append(error.message)
    return read


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def backplane(table: Table) -> VirtualBackplane:
    backplane = VirtualBackplane()
    backplane.add(table, key="table")
    backplane.add(Other())
    return backplane


class Rows:
    """Numbers from 0, and how their generator has ended."""

    def __init__(self, upto: int = 5000) -> None:
        self.fetched = 0
        self.ended_by = ""
        self._upto = upto

    def __iter__(self) -> Iterator[int]:
        try:
            for number in range(self._upto):
                self.fetched += 1
                yield number
            self.ended_by = "end"
        except BaseException as error:
            self.ended_by = type(error).__name__
            raise


@pytest.mark.parametrize("window", [1, 2, 3, 7, 1024])
@pytest.mark.parametrize("route", ROUTES)
def test_all_items_come_in_order_and_then_the_end(
    backplane: VirtualBackplane, table: Table, route: str, window: int
) -> None:
    """A stream that lost or repeated one would be worse than a list."""
    rows = Rows()
    assert backplane.call(route, rows=stream(iter(rows), window=window)).result() == sum(range(5000))
    assert table.read == [*range(5000)]
    assert (table.ended_by, rows.ended_by) == (["end"], "end")


@pytest.mark.parametrize("window", [1, 3, 100])
def test_the_caller_runs_ahead_by_the_window_and_no_further(
    backplane: VirtualBackplane, table: Table, window: int
) -> None:
    """An operation that is slow would otherwise cost its caller's memory."""
    rows = Rows(300)
    call = backplane.call("bench.load", rows=stream(iter(rows), window=window), every=0.01)
    while not call.done():
        backplane.advance(0.01)
        assert rows.fetched <= len(table.read) + window
    assert call.result() == sum(range(300))


def test_nothing_is_fetched_before_the_operation_asks(backplane: VirtualBackplane, table: Table) -> None:
    """While the call waits in a queue, and where its operation asks for nothing."""
    first, rows = Rows(3), Rows(3)
    slow = backplane.call("bench.load", rows=stream(iter(first)), every=1)
    call = backplane.call("bench.load", rows=stream(iter(rows)), every=1)
    backplane.run_until_idle()
    assert (first.fetched, rows.fetched) == (3, 0)
    backplane.advance(4)
    assert (slow.done(), rows.fetched) == (True, 3)
    third = Rows()
    last = backplane.call("bench.load", rows=stream(iter(third)))
    backplane.run_until_idle()
    assert last.cancel()
    backplane.advance(4)
    assert (call.done(), third.fetched) == (True, 0)
    assert backplane.call("bench.perhaps").result() == -1


def test_an_operation_that_waits_for_items_is_in_the_wait_queue(backplane: VirtualBackplane, table: Table) -> None:
    """Law 6. Other objects run, and what comes for this one queues behind, until the item is there."""
    call = asked(backplane)
    later = backplane.call("bench.urgent", key="table")
    assert backplane.call("bench.double", number=21).result() == 42
    assert table._waits == 1
    send(backplane, 0, 7)
    assert (table.read, table._waits, later.done()) == ([7], 1, False)
    send(backplane, 1, is_last=True)
    assert (call.result(), later.result(), table._waits) == (7, 1, 0)


def test_an_operation_that_waits_for_items_inherits_priority(backplane: VirtualBackplane, table: Table) -> None:
    """Law 10. From what queues behind it, and from its caller's boost."""
    asked(backplane)
    action = backplane.backplane.engine.intake._accepted[CLIENT, ID]
    assert (isinstance(action, ReadingAction), action.priority) == (True, 5)
    backplane.hear(envelope.boost(ID, 4))
    backplane.run_until_idle()
    assert action.priority == 4
    urgent = backplane.call("bench.urgent", key="table")
    backplane.run_until_idle()
    assert action.priority == 1
    assert urgent.cancel()
    backplane.run_until_idle()
    assert action.priority == 4


@pytest.mark.parametrize("route", ROUTES)
def test_an_answer_before_the_end_closes_the_iterator(backplane: VirtualBackplane, table: Table, route: str) -> None:
    """Its caller would go on to fetch what nobody reads."""
    rows = Rows()
    backplane.call("bench.load", rows=stream(iter(rows), window=8), upto=5).result()
    assert (rows.ended_by, rows.fetched <= 5 + 8) == ("GeneratorExit", True)
    wrong = iter(["x"])
    with pytest.raises(InvalidArgument, match=f"{route}: argument 'rows', item 0: expected `int`, got `str`"):
        backplane.call(route, rows=stream(itertools.chain(wrong, Rows()))).result()


@pytest.mark.parametrize("route", ROUTES)
def test_an_error_of_the_iterator_cancels_the_call(backplane: VirtualBackplane, table: Table, route: str) -> None:
    """That very error comes out; the operation does not take what came for the whole."""

    def rows() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("on purpose")

    call = backplane.call(route, rows=stream(rows()))
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        call.result()
    backplane.run_until_idle()
    assert table.ended_by == ["Cancelled"]
    assert backplane.call("bench.double", number=1).result() == 2


def test_an_item_that_cannot_be_sent_cancels_the_call(backplane: VirtualBackplane, table: Table) -> None:
    """Its caller learns which."""
    with pytest.raises(InvalidArgument, match=r"^bench\.load: item 1 of argument 'rows' cannot be sent: .*object"):
        backplane.call("bench.load", rows=stream([1, object()])).result()
    backplane.run_until_idle()
    assert table.ended_by == ["Cancelled"]


def test_the_deadline_is_that_of_the_whole_call(backplane: VirtualBackplane, table: Table) -> None:
    """For an operation that waits for items, and for one that reads too slowly."""
    late = asked(backplane, timeout_s=1)
    rows = Rows()
    slow = backplane.call("bench.load", rows=stream(iter(rows)), every=0.3, timeout=2)
    backplane.advance(1)
    assert table.ended_by == ["DeadlineExceeded"]
    assert isinstance(late.error(), DeadlineExceeded)
    backplane.advance(1)
    assert isinstance(slow.error(), DeadlineExceeded)
    backplane.advance(1)
    assert set(table.ended_by) <= {"DeadlineExceeded", "Cancelled"} and len(table.ended_by) == 2
    assert rows.ended_by == "GeneratorExit"


def test_items_are_converted_as_arguments_are(backplane: VirtualBackplane) -> None:
    """Each when it is read: those before the first that does not fit have been read."""
    rows = [Row(1), {"number": 2}, {"numbr": 3}, {"number": 4}]
    found = backplane.call("bench.convert", rows=stream(rows)).result()
    assert found == [1, 2, "bench.convert: argument 'rows', item 2: object missing required field `number`"]
    inside = backplane.call("bench.convert", rows=stream([{"number": 1}, {"number": "two"}])).result()
    assert inside == [1, "bench.convert: argument 'rows', item 1: expected `int`, got `str` - at `$.number`"]
    many = [{"number": number} for number in range(700)] + [{}]
    (*fit, problem) = backplane.call("bench.convert", rows=stream(many)).result()
    assert (fit, "item 700: object missing" in problem) == ([*range(700)], True)
    assert backplane.call("bench.anything", rows=stream([1, "two", None])).result() == [1, "two", None]
    assert backplane.call("bench.perhaps", rows=stream([1, 2])).result() == 3


@pytest.mark.parametrize(
    ("route", "rows", "read"),
    [
        ("texts", ["a", "x - at `$[5]`", "b"], ["'a'", "1: invalid enum value 'x - at `$[5]`'"]),
        ("tables", [{1: 2}, {"k": 2}], ["{1: 2}", "1: expected `int`, got `str` - at `key` in `$`"]),
        ("checked", [{"number": 1}, {"number": -1}], ["Checked(number=1)", "1: it does not fit"]),
    ],
)
def test_the_first_item_that_does_not_fit_is_named(
    backplane: VirtualBackplane, route: str, rows: list[Any], read: list[str]
) -> None:
    """Whatever the text of its error contains; and the items before it are read."""
    *fit, problem = read
    told = backplane.call(f"bench.{route}", rows=stream(rows)).result()
    assert told == [*fit, f"bench.{route}: argument 'rows', item {problem}"]


@pytest.mark.parametrize(
    ("route", "arguments", "problem"),
    [
        ("bench.load", {"rows": [1]}, "argument 'rows': expected a stream, as in rows=stream(rows)"),
        ("bench.load", {}, "missing argument 'rows'"),
        ("bench.load", {"rows": stream([1]), "upto": "x"}, "argument 'upto': expected `int`, got `str`"),
        ("bench.load", {"rows": stream([1]), "upto": stream([1])}, "arguments 'rows' and 'upto' are streams"),
        ("bench.load", {"rows": [stream([1])]}, "'rows' cannot be serialised: a stream can only be one whole argument"),
        ("bench.double", {"number": stream([1])}, "argument 'number': expected `int`, got `StreamedArgument`"),
        ("bench.load", {"rws": stream([1])}, "unknown argument 'rws'"),
    ],
)
def test_a_stream_is_where_one_is_declared(
    backplane: VirtualBackplane, route: str, arguments: dict[str, Any], problem: str
) -> None:
    """And nowhere else: refused with the route and the argument before the object sees it."""
    with pytest.raises(InvalidArgument) as told:
        backplane.call(route, arguments=arguments).result()
    assert route in told.value.message and problem in told.value.message


def test_the_stream_is_read_once_and_by_its_operation_alone(backplane: VirtualBackplane, table: Table) -> None:
    """A second loop would find it empty, and take that for a result."""
    with pytest.raises(FailedPrecondition, match="a stream can be read once"):
        backplane.call("bench.twice", rows=stream([1])).result()
    with pytest.raises(FailedPrecondition, match="an `async def` operation reads it with `async for`"):
        backplane.call("bench.wrongly", rows=stream([1])).result()
    assert backplane.call("bench.keep", rows=stream([1, 2])).result() == 1
    table.kept._at = len(table.kept._items)
    with pytest.raises(FailedPrecondition, match="can only be read by the operation that was called with it"):
        backplane.call("bench.read_kept").result()
    with pytest.raises(FailedPrecondition, match="can only be read by the operation that was called with it"):
        backplane.call("bench.read_kept", rows=stream([3])).result()


def test_an_operation_declares_the_stream_that_it_can_read() -> None:
    """A mistake is told when the class is made, and not at the first call."""

    async def blocking(self: Any, rows: Iterator[int]) -> None: ...
    def asynchronous(self: Any, rows: AsyncIterator[int]) -> None: ...
    async def two(self: Any, rows: AsyncIterator[int], more: AsyncIterator[int]) -> None: ...
    async def either(self: Any, rows: AsyncIterator[int] | int) -> None: ...
    async def unchecked(self: Any, rows: AsyncIterator[Row | Other]) -> None: ...
    def both(self: Any, rows: Iterator[int]) -> Iterator[int]:
        yield 1

    for function, problem in (
        (blocking, "AsyncIterator, and reads it with `async for`"),
        (asynchronous, "is a plain operation: it takes the stream 'rows' as Iterator"),
        (two, "'rows' and 'more' are streams: an operation takes one"),
        (either, "it can only be a stream, or None"),
        (unchecked, "an annotation cannot be checked"),
        (both, "is a generator: its items are a stream, so it takes none"),
    ):
        declared: Callable[..., Any] = function
        with pytest.raises(DeclarationError, match=problem):
            type("Wrong", (AppObject,), {"wrong": operation()(declared)})


# Bad input: a caller that does not keep to the protocol

#: The id of the call that the test makes by itself.
ID = 1_000


def asked(
    backplane: VirtualBackplane, route: str = "bench.load", window: int = 4, timeout_s: float = 30
) -> VirtualCall:
    """A call whose operation waits for items."""
    spec = CallSpec(route, {"rows": window}, streamed="rows")
    call = backplane.hear_call(envelope.call(ID, spec, round(timeout_s * 1e9)))
    backplane.run_until_idle()
    return call


def send(backplane: VirtualBackplane, first: int, *items: int, is_last: bool = False) -> None:
    """Its caller sends items."""
    backplane.hear(envelope.argument_items(ID, [*items], first, is_blocked=False, is_last=is_last))
    backplane.run_until_idle()


@pytest.mark.parametrize("end", [1, 3, 4])
def test_a_hole_is_no_short_list(backplane: VirtualBackplane, table: Table, end: int) -> None:
    """Items are lost, or the last ones before the end."""
    call = asked(backplane)
    send(backplane, 0, 7)
    send(backplane, 1 + end, *([9] if end == 1 else []), is_last=end != 1)
    error = call.error()
    assert isinstance(error, InternalError)
    assert f"{end} items of the stream were lost on the way" in error.message
    assert (table.read, table.ended_by) == ([7], ["InternalError"])


def test_a_lost_end_is_no_end(backplane: VirtualBackplane, table: Table) -> None:
    """The operation waits for it, up to its deadline."""
    call = asked(backplane, timeout_s=3)
    send(backplane, 0, 7)
    backplane.advance(3)
    assert isinstance(call.error(), DeadlineExceeded)
    assert (table.read, table.ended_by) == ([7], ["DeadlineExceeded"])


def test_items_that_come_twice_are_read_once(backplane: VirtualBackplane, table: Table) -> None:
    """As where a link repeats a frame."""
    call = asked(backplane)
    for first, items in ((0, (7, 8)), (0, (7, 8)), (1, (8,)), (2, (9,))):
        send(backplane, first, *items)
    send(backplane, 3, is_last=True)
    send(backplane, 3, 10)
    assert call.result() == 24
    assert table.read == [7, 8, 9]


def test_more_items_than_allowed_end_the_stream(backplane: VirtualBackplane, table: Table) -> None:
    """A faulty caller would fill the memory of its callee."""
    call = asked(backplane, window=4)
    send(backplane, 0, *range(5))
    assert "its sender sends more items than it was allowed to" in str(call.error())
    assert table.read == []


def test_items_without_a_call_are_dropped(backplane: VirtualBackplane) -> None:
    """They cross with the answer; and a stranger may send anything."""
    send(backplane, 0, 1, 2)
    call = backplane.call("bench.double", number=4)
    backplane.hear(envelope.argument_items(call._id, [1], 0, is_blocked=False, is_last=True))
    backplane.hear(envelope.argument_credit(call._id, 5))
    assert call.result() == 8


@pytest.mark.parametrize("window", [0, -1, 65_537, 1.5, True, None, [1]])
def test_a_stream_without_a_window_is_refused(backplane: VirtualBackplane, window: Any) -> None:
    """The window is in the place of the argument."""
    with pytest.raises(InvalidArgument, match=r"bench\.load: argument 'rows': window must be a whole number"):
        asked(backplane, window=window).result()


class Line(Endpoint):
    """It serves whole requests."""

    def __init__(self) -> None:
        super().__init__("line", priority=2)

    def create_action(self, request: Request) -> Action:
        raise AssertionError("it is not asked")


class Gateway(Component):
    """With an endpoint."""

    def setup(self) -> None:
        self.expose(Line())


def test_an_endpoint_takes_no_stream() -> None:
    """It would get the window for the argument."""
    backplane = VirtualBackplane(Gateway())
    with pytest.raises(
        InvalidArgument, match=r"gateway\.line: argument 'rows' is a stream: an endpoint takes whole requests"
    ):
        backplane.call("gateway.line", rows=stream([1])).result()


class Shelves(Component):
    """With a digester."""

    def setup(self) -> None:
        self.add(Shelf(), key="a")
        self.add(Shelf(), key="b")

    def key_of(self, rows: Any) -> str:
        return "a"


class Shelf(AppObject):
    @operation(digest="key_of")
    async def load(self, rows: AsyncIterator[int]) -> int:
        return sum([row async for row in rows])


def test_a_digest_cannot_read_a_stream() -> None:
    """With the key of the object it is not asked."""
    backplane = VirtualBackplane(Shelves())
    with pytest.raises(InvalidArgument, match=r"shelves\.load: argument 'rows' is a stream: .*name the key"):
        backplane.call("shelves.load", rows=stream([1])).result()
    assert backplane.call("shelves.load", rows=stream([1, 2]), key="b").result() == 3


def test_the_wire_carries_no_stream_where_none_can_be(backplane: VirtualBackplane) -> None:
    """As the checks of a client refuse."""
    keyed = CallSpec("bench.load", {"rows": 4}, streamed="rows", idempotency_key="once")
    with pytest.raises(InvalidArgument, match="takes no idempotency key"):
        backplane.hear_call(envelope.call(ID, keyed, None)).result()
    both = CallSpec("bench.load", {"rows": 4}, streamed="rows", window=5)
    with pytest.raises(InvalidArgument, match="a call whose reply is a stream takes none"):
        backplane.hear_call(envelope.call(ID + 1, both, None)).result()
    missing = CallSpec("bench.load", {}, streamed="rows")
    with pytest.raises(InvalidArgument, match="window"):
        backplane.hear_call(envelope.call(ID + 2, missing, None)).result()


def test_a_caller_that_dies_ends_the_operation(backplane: VirtualBackplane, table: Table) -> None:
    """As any call of a dead caller."""
    asked(backplane)
    send(backplane, 0, 7)
    backplane.link.gone.add(CLIENT)
    backplane.advance(2)
    assert (table.read, table.ended_by, table._waits) == ([7], ["Cancelled"], 0)
