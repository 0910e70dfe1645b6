"""What tests of bad links need: a far end that answers, and a proxy before it that is told what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.network.hosts import Hosts, obstacle
from tests.network.measuring import Answerer
from tests.network.proxy import FaultProxy


@pytest.fixture
def far() -> Iterator[Answerer]:
    """The far end."""
    with Answerer() as answerer:
        yield answerer


@pytest.fixture
def proxy(far: Answerer) -> Iterator[FaultProxy]:
    """A link to it, with nothing wrong yet."""
    with FaultProxy(far.address) as between:
        yield between


@pytest.fixture
def hosts() -> Iterator[Callable[[int], Hosts]]:
    """Makes computers: `hosts(3)`."""
    if reason := obstacle():
        pytest.skip(reason)
    with ExitStack() as stack:
        yield lambda count: stack.enter_context(Hosts(count))
