"""Thread-held resources: all that may happen to them, in any order, against the slow twin.

What is opened, closed and asked whether it is stale, and in which order must be the same after each step. Set
APPBACKPLANE_MODEL_EXAMPLES to a number to search that many programs from a new seed; the default is few, the same each
time, and quick.
"""

from __future__ import annotations

from itertools import product

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from appbackplane.runtime.requests.executing.thread_handles import ASK_EVERY, ThreadHandles
from appbackplane.runtime.requests.resource import Resource, ResourceNotOpened
from tests.models.resources_model import Item, ResourcesModel
from tests.profiles import examples

WORKERS = st.sampled_from(["a", "b", "c"])
#: "plain" has no key and cannot be stale; "shelf" may be opened with and without a key.
ITEMS = st.sampled_from([("plain",), *[("book", key) for key in "pqrs"], ("shelf",), ("shelf", "p"), ("shelf", "q")])


class ResourcesMachine(RuleBasedStateMachine):
    """Whatever is done to the table is done to the twin."""

    @initialize(held_max=st.integers(1, 3))
    def start(self, held_max: int) -> None:
        bounds = {"plain": 1, "book": held_max, "shelf": 2}
        self.model = ResourcesModel(bounds, {"book", "shelf"}, ASK_EVERY)
        self.done: list[tuple[str, int]] = []
        self.next_number = 0

        def opens(name: str) -> Resource[int]:
            return Resource(
                open=lambda *key: self.open_handle((name, *key)),
                close=lambda number: self.done.append(("close", number)),
                is_stale=None if name == "plain" else self.is_stale,
                held_max=bounds[name],
            )

        self.declared = {name: opens(name) for name in bounds}
        self.threads: dict[str, ThreadHandles] = {}

    def open_handle(self, item: Item) -> int:
        if item in self.model.broken:
            raise OSError("broken")
        self.next_number += 1
        self.done.append(("open", self.next_number - 1))
        return self.next_number - 1

    def is_stale(self, number: int) -> bool:
        self.done.append(("ask", number))
        return number in self.model.stale

    def held(self, worker: str) -> ThreadHandles:
        if worker not in self.threads:
            self.threads[worker] = ThreadHandles(worker, self.declared, lambda *_: None)
        return self.threads[worker]

    @rule(worker=WORKERS, item=ITEMS)
    def use(self, worker: str, item: Item) -> None:
        expected = self.model.use(worker, item)
        try:
            found = self.held(worker)[item if len(item) > 1 else item[0]]
        except ResourceNotOpened:
            found = None
        assert found == expected

    @rule(worker=WORKERS, count=st.sampled_from([1, 1, ASK_EVERY, 3 * ASK_EVERY]))
    def end_requests(self, worker: str, count: int) -> None:
        for _ in range(count):
            self.model.end_request(worker)
            self.held(worker).request_ended()

    @rule(worker=WORKERS)
    def end_worker(self, worker: str) -> None:
        self.model.end_worker(worker)
        self.held(worker).close()
        del self.threads[worker]

    @rule(data=st.data())
    def becomes_stale(self, data: st.DataObject) -> None:
        if self.model.open:
            self.model.stale.add(data.draw(st.sampled_from(self.model.open)).number)

    @rule(item=ITEMS)
    def breaks_or_is_mended(self, item: Item) -> None:
        self.model.broken ^= {item}

    @invariant()
    def is_like_the_twin(self) -> None:
        if not hasattr(self, "threads"):
            return
        assert self.done == self.model.done
        for worker, name in product("abc", self.declared):
            mine = [each for each in self.model.of(worker) if each.item[0] == name]
            assert len(mine) <= self.model.held_max[name]


ResourcesMachine.TestCase.settings = settings(
    max_examples=examples(20),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestResources = ResourcesMachine.TestCase
