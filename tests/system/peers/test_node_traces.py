"""Traces between nodes: a call that another node serves is in the trace of the operation that made it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.collector import Span, collecting

from .conftest import Meet


def of_the_call(spans: Sequence[Span]) -> list[Span]:
    """Those in the trace of `home.far`, as far as they have come."""
    traces = {span.trace for span in spans if span.name == "home.far"}
    return [span for span in spans if span.trace in traces]


def test_a_call_to_another_node_is_in_the_trace_of_its_caller(meet: Meet) -> None:
    """Its parent is the operation here: the processes between carry the trace, and add nothing to the chain."""
    with collecting() as collector:
        nodes = meet(tables=f'[trace]\notlp = "{collector.address}"\n')
        assert nodes.client("a").call("home.far", route="calc.add", x=20, y=22) == 42
        # The nodes have called calc.add before, to see whether they have met: those spans are of other traces.
        spans = collector.wait_for(lambda spans: {span.name for span in of_the_call(spans)} >= {"home.far", "calc.add"})
        (far,) = (span for span in spans if span.name == "home.far")
        (add,) = (span for span in of_the_call(spans) if span.name == "calc.add")
        above = [add]
        while above[-1].parent:
            above += [span for span in collector.wait_for(lambda _: True) if span.id == above[-1].parent]
        assert above[-1] == far
