"""Two nodes: what one has the other can call, as if it were here; and every call ends as it would here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from appbackplane.transport import (
    BackplaneError,
    Busy,
    Client,
    InvalidArgument,
    NotFound,
    OperandFailed,
    PendingCall,
    Unavailable,
    stream,
)
from appbackplane.transport.errors import (
    Cancelled,
    FailedPrecondition,
    InternalError,
    PeerDown,
)

from ..conftest import LIMIT_S, ask_until, expired_while_it_ran, wait_dead, wait_ready
from ..pressing import press, wait_until_all_are_sent
from .conftest import Nodes


@pytest.fixture
def there(both: Nodes) -> Iterator[Client]:
    """A client of `b`: it sees what is asked of it there."""
    with both.systems["b"].connect() as client:
        yield client


# What is served elsewhere


@pytest.mark.parametrize("route", ["calc.add", "b/calc.add"])
def test_what_another_node_has_is_called_like_what_is_here(client: Client, route: str) -> None:
    """By its route, or by the node's name as well: by a client, and from inside of an operation."""
    assert client.call(route, x=20, y=22) == 42
    assert client.call("home.far", route=route, x=20, y=22) == 42


def test_many_calls_at_a_time_are_each_given_their_own_answer(client: Client) -> None:
    """Two numbers a call and node: who mixes them up answers somebody else."""
    calls = [client.submit("calc.add", x=number, y=1, timeout=LIMIT_S) for number in range(2_000)]
    assert [call.result() for call in calls] == [number + 1 for number in range(2_000)]


def test_a_megabyte_goes_there_and_is_refused_where_it_does_not_fit(client: Client) -> None:
    """What is too large for a frame says so at once; the line that it did not fit goes on."""
    with pytest.raises(InvalidArgument, match=r"calc\.add"):
        client.call("calc.add", x="x" * (1 << 20), y=1)
    with pytest.raises(InvalidArgument, match="limit"):
        client.call("calc.add", x=bytes(17 << 20), y=1)
    assert client.call("calc.add", x=1, y=1) == 2


# What is not there, or not for others

REFUSED: list[tuple[str, type[BackplaneError], str]] = [
    ("calc.ad", NotFound, r"^no route 'calc\.ad' \(did you mean 'calc\.add'\?\)$"),
    ("b/calc.ad", NotFound, r"^no route 'calc\.ad' \(did you mean 'calc\.add'\?\)$"),
    ("nothing.of.this", NotFound, r"^no route 'nothing\.of\.this'$"),
    ("bb/calc.add", NotFound, r"^no node 'bb' is known \(did you mean 'b'\?\)$"),
    ("b/supervisor.stop", NotFound, r"^no route 'supervisor\.stop'$"),
    ("b/backplane.main.statistics", NotFound, r"^no route 'backplane\.main\.statistics'$"),
]


@pytest.mark.parametrize(("route", "kind", "message"), REFUSED, ids=[route for route, _, _ in REFUSED])
def test_what_nobody_serves_is_told_at_once(
    client: Client, route: str, kind: type[BackplaneError], message: str
) -> None:
    """With the name that may have been meant, of those that may be known here."""
    with pytest.raises(kind, match=message):
        client.call(route, timeout=LIMIT_S)


@pytest.mark.parametrize("route", ["calc.secret", "b/calc.secret", "calc.secre", "b/calc.secre"])
def test_what_is_not_exported_is_as_good_as_not_there(client: Client, route: str) -> None:
    """Neither called nor suggested: who could tell it from what is not there would know what there is."""
    with pytest.raises(NotFound) as told:
        client.call(route, timeout=LIMIT_S)
    assert told.value.message == f"no route {route.removeprefix('b/')!r}"


def test_a_system_is_not_run_by_others(client: Client, there: Client) -> None:
    """`supervisor.…` and `backplane.…` without a node's name are this system's own, whoever has the same elsewhere."""
    assert client.call("supervisor.status")["system"] == "a"
    assert there.call("supervisor.status")["system"] == "b"


def test_wrong_arguments_are_told_by_who_knows_the_signature(client: Client) -> None:
    """In the words that a caller on that host reads."""
    with pytest.raises(InvalidArgument, match=r"^calc\.add: missing argument 'y'; expected \(x: int, y: int\)"):
        client.call("calc.add", x=1)
    with pytest.raises(InvalidArgument, match=r"argument 'y': expected `int`, got `str`"):
        client.call("b/calc.add", x=1, y="2")


# Streams


@pytest.mark.parametrize("route", ["rows.upto", "b/rows.upto"])
def test_a_stream_of_another_node_is_read_like_one_of_this(client: Client, route: str) -> None:
    """Item by item within the window; by a client, and from inside of an operation."""
    for window, text in ((1024, ""), (3, ""), (1024, "x" * 50_000)):
        items = list(client.stream(route, count=300, text=text, window=window, timeout=LIMIT_S))
        assert items == [[number, text] for number in range(300)]
    assert client.call("home.sum_far", route=route, count=300) == 44_850


def test_a_stream_of_another_node_ends_with_its_reader(client: Client, there: Client) -> None:
    """Its object would else be kept until the deadline."""
    before = len(there.call("rows.ended"))
    for number, _ in client.stream("rows.upto", count=10**9, timeout=10 * LIMIT_S):
        if number == 5_000:
            break
    ask_until(there, "rows.ended", lambda ended: ended[before:] == ["GeneratorExit"])


@pytest.mark.parametrize("route", ["loads.rows", "b/loads.rows"])
def test_an_iterator_is_an_argument_of_a_call_to_another_node(client: Client, there: Client, route: str) -> None:
    """Item by item within the window: from a client, and from inside of an operation. None is lost on the way."""
    for window, text in ((1024, ""), (3, ""), (1024, "x" * 50_000)):
        rows = stream(([number, text] for number in range(300)), window=window)
        assert client.call(route, rows=rows, timeout=LIMIT_S) == [300, 44_850]
    assert client.call("home.load_far", route=route, count=300) == [300, 44_850]


def test_a_result_of_one_node_is_an_argument_at_another(client: Client) -> None:
    """The caller carries what crosses to another node; within this one it goes straight on."""
    far = client.submit("calc.add", x=1, y=2)
    near = client.submit("home.far", route="calc.add", x=far, y=10)
    far_again = client.submit("b/calc.add", x=near, y=far)
    promise = client.promise()
    waiting = client.submit("calc.add", x=promise, y=far_again)
    assert (near.result(LIMIT_S), far_again.result(LIMIT_S)) == (13, 16)
    promise.follows(client.submit("home.far", route="calc.add", x=1, y=far_again))
    assert waiting.result(LIMIT_S) == 33
    failed = client.submit("home.far", route="calc.add", x=client.submit("calc.fail", kind="Busy"), y=1)
    assert isinstance(failed.exception(LIMIT_S), OperandFailed)


def test_an_iterator_for_another_node_ends_with_either_side(client: Client, there: Client) -> None:
    """An answer that comes early, an error of the iterator, and one that is not a row."""
    before = len(there.call("loads.ended"))
    rows = ([number, ""] for number in itertools.count())
    assert client.call("loads.rows", rows=stream(rows), upto=5_000, timeout=LIMIT_S) == [5_000, 12_497_500]
    assert next(rows, None) is None, "it is closed"
    with pytest.raises(ZeroDivisionError):
        client.call("loads.rows", rows=stream([1 // (2 - number), ""] for number in range(9)), timeout=LIMIT_S)
    ask_until(there, "loads.ended", lambda ended: ended[before:] == ["end", "Cancelled"])
    with pytest.raises(InvalidArgument, match=r"^loads\.rows: argument 'rows', item 0: expected `array`, got `int`$"):
        client.call("loads.rows", rows=stream([1]), timeout=LIMIT_S)


# How it ends

STATUSES: list[tuple[str, type[BackplaneError], str, float | None]] = [
    ("Busy", Busy, "all hands are full", 1.5),
    ("Unavailable", Unavailable, "on purpose: Unavailable", None),
    ("NotFound", NotFound, "on purpose: NotFound", None),
    ("FailedPrecondition", FailedPrecondition, "on purpose: FailedPrecondition", None),
    ("InvalidArgument", InvalidArgument, "on purpose: InvalidArgument", None),
    ("PeerDown", PeerDown, "on purpose: PeerDown", None),
    ("else", InternalError, "calc.fail: RuntimeError: on purpose: else", None),
]


@pytest.mark.parametrize(
    ("kind", "type_there", "message", "retry_after"), STATUSES, ids=[kind for kind, *_ in STATUSES]
)
def test_errors_come_out_as_what_they_are(
    client: Client, kind: str, type_there: type[BackplaneError], message: str, retry_after: float | None
) -> None:
    """Their type decides what a caller does next; a client and an operation get the same one."""
    with pytest.raises(BackplaneError) as told:
        client.call("calc.fail", kind=kind)
    assert (type(told.value), told.value.message, told.value.retry_after) == (type_there, message, retry_after)
    assert client.call("home.kind", route="b/calc.fail", kind=kind) == [type_there.__name__, message, retry_after]


def test_busy_comes_through_from_a_full_component(client: Client, there: Client) -> None:
    """With when to come back, and that nothing has begun: so a call is made again until there is room."""
    held = [client.submit("narrow.hold") for _ in range(2)]
    statistics = "backplane.main.statistics"
    ask_until(there, statistics, lambda told: told["components"]["narrow"]["outstanding"] == 2)
    with pytest.raises(Busy, match=r"max_requests = 2") as told:
        client.call("narrow.hold", retry=False)
    assert told.value.retry_after is not None
    assert told.value.is_refused
    patient = client.submit("narrow.hold", seconds=0.0, retry=True)
    for call in held:
        call.cancel()
    assert patient.result() is None
    ask_until(there, statistics, lambda told: told["components"]["narrow"]["outstanding"] == 0)


# How it is given up


def ended(there: Client, name: str) -> list[str]:
    """What became of a piece of work, once it has ended."""
    log: list[str] = ask_until(there, "worker.ended", lambda log: len(said_of(log, name)) == 2)
    return said_of(log, name)


def said_of(log: list[str], name: str) -> list[str]:
    """Its lines."""
    return [line.removeprefix(f"{name} ") for line in log if line.startswith(f"{name} ")]


@pytest.mark.parametrize("by", ["client", "operation"])
def test_a_call_whose_deadline_passes_ends_on_both_nodes(client: Client, there: Client, by: str) -> None:
    """Two hosts share no clock, so that the time that is left travels: none goes on for who has given up."""

    def begin(name: str, timeout: float) -> PendingCall:
        if by == "client":
            return client.submit("worker.work", key="place-0", name=f"{by}-{name}", timeout=timeout)
        arguments = {"name": f"{by}-{name}", "key": "place-0"}
        return client.submit("home.have_done", timeout=timeout, arguments=arguments)

    def has_begun(name: str) -> bool:
        return f"{by}-{name} began" in there.call("worker.ended", timeout=LIMIT_S)

    name = f"{by}-{expired_while_it_ran(begin, has_begun)}"
    # Whose clock is first, the callee's or that of the one who takes it back, is not said.
    assert ended(there, name) in (["began", "Cancelled"], ["began", "DeadlineExceeded"])


@pytest.mark.parametrize("by", ["client", "operation"])
def test_a_call_that_is_taken_back_ends_on_both_nodes(client: Client, there: Client, by: str) -> None:
    """At once, and not by its deadline of 30 s: what runs there is told at its next await."""
    name, route = f"unwanted-{by}", {"client": "worker.work", "operation": "home.have_done"}[by]
    arguments = {"name": name} if by == "client" else {"name": name, "key": "place-0"}
    call = client.submit(route, key="place-0" if by == "client" else None, arguments=arguments)
    ask_until(there, "worker.ended", lambda log: said_of(log, name) == ["began"])
    assert call.cancel()
    assert type(call.exception()) is Cancelled
    assert ended(there, name) == ["began", "Cancelled"]


def test_a_call_that_is_taken_back_in_its_queue_there_never_begins(client: Client, there: Client) -> None:
    """And those behind it move up."""
    calls = {name: client.submit("worker.work", key="place-1", name=name) for name in ("first", "second", "third")}
    ask_until(there, "worker.ended", lambda log: said_of(log, "first") == ["began"])
    calls["second"].cancel()
    calls["first"].cancel()
    log = ask_until(there, "worker.ended", lambda log: said_of(log, "third") == ["began"])
    assert said_of(log, "second") == []
    calls["third"].cancel()
    assert ended(there, "third") == ["began", "Cancelled"]


def test_what_a_dead_client_wanted_is_not_done_on_another_node_either(both: Nodes, there: Client) -> None:
    """As on this host, where who waits is asked once a second whether it is there. Its deadline is ten minutes away."""
    program = both.systems["a"].program("abroad", "600")
    wait_ready(program)
    ask_until(there, "worker.ended", lambda log: said_of(log, "a") == ["began"])
    program.kill()
    wait_dead(program.pid)
    ended(there, "a")


# What is refused here


@pytest.mark.parametrize("route", ["booth.serve", "b/booth.serve"])
def test_callers_on_another_node_refuse_for_an_overloaded_service(client: Client, route: str) -> None:
    """By either name. The refusals cross both nodes."""
    assert any("refused here" in error.message for error in press(client, route))
    wait_until_all_are_sent(client, route)
