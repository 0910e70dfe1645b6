"""Traces between nodes: a call that another node serves is in the trace of the operation that made it."""

from __future__ import annotations

from tests.collector import collecting

from .conftest import Meet


def test_a_call_to_another_node_is_in_the_trace_of_its_caller(meet: Meet) -> None:
    """Its parent is the operation here: the processes between carry the trace, and add nothing to the chain."""
    with collecting() as collector:
        nodes = meet(tables=f'[trace]\notlp = "{collector.address}"\n')
        assert nodes.client("a").call("home.far", route="calc.add", x=20, y=22) == 42
        spans = collector.wait_for(lambda spans: {"home.far", "calc.add"} <= {span.name for span in spans})
        (far,) = (span for span in spans if span.name == "home.far")
        (add,) = (span for span in spans if span.name == "calc.add" and span.trace == far.trace)
        above = [add]
        while above[-1].parent:
            above += [span for span in collector.wait_for(lambda _: True) if span.id == above[-1].parent]
        assert above[-1] == far
