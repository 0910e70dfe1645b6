"""Flow: what is refused where it is declared, with an error that names the stages and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from appbackplane.runtime import Batch, DeclarationError, Flow, sink, source, stage
from appbackplane.runtime.flows.fitting import fits


@dataclass
class Row:
    number: int


class Fields(TypedDict):
    number: int


@source
def lines(wanted: int) -> list[str]:
    return ["a"] * wanted


@source
def positions(after: int | None, wanted: int) -> list[tuple[int, str]]:
    return []


@source
def generated() -> Iterator[str]:
    yield "a"


@stage
def parse(line: str) -> Row | None:
    return Row(int(line))


@stage
def split(line: str) -> Iterator[str]:
    yield from line.split()


@stage(batch=Batch(max=10))
def parse_all(lines: list[str]) -> list[Row]:
    return [Row(int(line)) for line in lines]


@sink
def store(row: Row) -> None: ...


@sink(batch=Batch(max=100, wait_ms=5))
def store_all(rows: list[Row]) -> None: ...


@sink
def show(line: str) -> None: ...


def test_a_function_stays_one() -> None:
    """A test of it calls it."""
    assert parse("7") == Row(7)


@pytest.mark.parametrize(
    "chain",
    [
        lines >> parse >> store,
        lines >> parse_all >> store_all,
        generated >> split >> stage(name="again")(split.function) >> show,
        parse >> store_all,
        show,
        lines >> (parse >> store),
    ],
)
def test_stages_that_fit(chain: Any) -> None:
    """By the types of one item: of a list where there are batches, and of what a generator yields."""
    assert Flow("ingest", chain).construct()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Flow("ingest", lines >> store),
            "flow 'ingest': lines makes str, and store, which follows it, takes Row: change one of the annotations, or put a "
            "stage between them",
        ),
        (lambda: Flow("ingest", lines >> parse >> show), "parse makes Row, and show, which follows it, takes str"),
        (lambda: Flow("ingest", lines >> parse_all >> show), "parse_all makes Row, and show"),
        (
            lambda: Flow("ingest", lines >> split >> split >> show),
            "split is in it twice: a circle would wait for its own credits",
        ),
        (
            lambda: Flow("ingest", lines >> parse >> store >> store_all),
            "nothing can follow the sink store: lines >> parse >> store >> store_all",
        ),
        (lambda: Flow("ingest", parse >> lines >> show), "the source lines can only be the first"),
        (lambda: Flow("ingest", lines >> parse), "ends in parse, which is no sink"),
        (lambda: Flow("Ingest", show), "flow 'Ingest': expected a word of small letters"),
        (lambda: Flow("ingest", show, credits=0), "credits=0: expected a whole number, 1 to 1,000,000"),
        (lambda: Flow("ingest", show, dead_letters=0), "dead_letters=0: expected a whole number"),
        (lambda: Flow("ingest", show, delivery="exactly_once"), "expected 'at_most_once' or 'at_least_once'"),
        (lambda: Flow("ingest", len), "expected stages, as in lines >> parse >> store"),
        (lambda: lines >> len, "lines >> <built-in function len>: expected a function with @stage or @sink"),
        (
            lambda: Flow("ingest", lines >> show, delivery="at_least_once"),
            "with at_least_once, the source lines has to give items again after a death: declare it as (after, wanted)",
        ),
        (
            lambda: Flow("ingest", lines >> parse >> store_all, credits=99),
            "store_all waits for batches of 100, and there are 99 credits: no batch would ever be full",
        ),
        (lambda: Flow("i", stage(name="inlet")(parse.function) >> store), "no stage may be called 'inlet'"),
        (lambda: stage(parallel=0)(parse.function), "stage parse: parallel=0: expected a whole number, 1 to 256"),
        (lambda: stage(batch=Batch(max=3))(parse.function), "parse serves batches: annotate 'line' as list"),
        (lambda: stage(batch=3)(parse.function), "batch=3: expected a bound"),
        (lambda: stage(retry_singly=True)(parse.function), "retry_singly is for a batch"),
        (lambda: stage(by=3)(parse.function), "by=3: expected the name of a field, or a function of an item"),
        (lambda: stage(priority=-1)(parse.function), "priority=-1: expected a whole number from 0"),
        (lambda: stage(name="a b")(parse.function), "name='a b': expected a word"),
        (lambda: stage(parallell=3)(parse.function), "stage has no option 'parallell' (did you mean 'parallel'?)"),
        (lambda: source(poll=0)(lines.function), "poll=0: expected seconds, 0.001 to 3600"),
        (lambda: stage(len), "is no function"),
    ],
)
def test_bad_flows_are_refused(make: Callable[[], Any], message: str) -> None:
    """Where they are declared: `appbackplane check` imports the module."""
    with pytest.raises(DeclarationError) as raised:
        make()
    assert message in str(raised.value)


def test_bad_functions_are_refused() -> None:
    """By their parameters, and by what they return."""
    with pytest.raises(
        DeclarationError, match=r"source .*odd\(count\): expected \(after, wanted\), \(wanted\), or no param"
    ):

        @source
        def odd(count: int) -> list[str]:
            return []

    with pytest.raises(
        DeclarationError, match=r"with `after`, it returns list\[tuple\[POSITION, ITEM\]\], not list\[str\]"
    ):

        @source
        def bare(after: int, wanted: int) -> list[str]:
            return []

    with pytest.raises(DeclarationError, match=r"stage .*waits: expected a plain `def`"):

        @stage
        async def waits(line: str) -> str:
            return line

    with pytest.raises(DeclarationError, match=r"stage .*two: expected one parameter, the item"):

        @stage
        def two(line: str, other: str) -> str:
            return line


@pytest.mark.parametrize(
    ("made", "taken", "is_fit"),
    [
        (int, int, True),
        (int, str, False),
        (bool, int, True),
        (int, float, True),
        (float, int, False),
        (Any, str, True),
        (str, Any, True),
        (str, object, True),
        (str, str | None, True),
        (str | None, str, False),
        (int | str, str | int | bytes, True),
        (list[int], list[int], True),
        (list[int], list[str], False),
        (list[int], list, True),
        (tuple[int, str], list, True),
        (list[int], set[int], True),
        (dict[str, int], Row, True),
        (Row, dict, True),
        (Row, Fields, True),
        (Fields, dict[str, int], True),
        (Row, str, False),
        (dict[str, int], dict[str, str], False),
        (Annotated[int, msgspec.Meta(ge=0)], int, True),
        (Annotated[int, msgspec.Meta(ge=0)], str, False),
        (None, int, False),
    ],
)
def test_which_types_fit(made: Any, taken: Any, is_fit: bool) -> None:
    """Only what cannot be is refused: items are packed on their way, so that a map becomes a dataclass."""
    assert fits(made, taken) is is_fit


def test_its_components() -> None:
    """Named for the flow and the stage; each depends on the one behind it, so that it is drained before it."""
    flow = Flow("ingest", positions >> parse >> store, delivery="at_least_once")
    assert {part: cls.component_name for part, cls in flow.components.items()} == {
        "positions": "ingest_positions",
        "parse": "ingest_parse",
        "store": "ingest_store",
    }
    assert [type(each).component_name for each in flow.construct()] == [
        "ingest_store",
        "ingest_parse",
        "ingest_positions",
    ]
    assert flow.components["parse"].depends_on == ("ingest_store",)
    assert list(Flow("put", parse >> store).components) == ["inlet", "parse", "store"]
    assert Flow("put", parse >> store).components["inlet"].component_name == "put"
