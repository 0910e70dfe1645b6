"""Law 2. An object is scheduled at the highest priority among its outstanding actions.

The actions of an object keep their order, so urgent work must be able to push what stands before it. Without it, an
urgent request behind a bulk one waits for the bulk work of the whole backplane.
"""

from __future__ import annotations

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.testing import VirtualBackplane


class Shard(AppObject):
    @operation(priority=6)
    def rebuild(self) -> None: ...

    @operation(priority=3)
    def list_all(self) -> None: ...

    @operation(priority=0)
    def search(self) -> None: ...


def test_urgent_work_lifts_what_stands_before_it_in_its_object(backplane: VirtualBackplane) -> None:
    """Law 2. The rebuild is in the way of the search, so it goes before the strangers in the middle."""
    shard, stranger = backplane.add(Shard()), backplane.add(Shard())
    backplane.post(shard, "rebuild")
    backplane.post(stranger, "list_all")
    backplane.post(shard, "search")
    assert backplane.run_until_idle() == ["rebuild", "search", "list_all"]


def test_the_object_falls_back_when_its_urgent_action_has_run(backplane: VirtualBackplane) -> None:
    """Law 2. An object that stayed urgent would carry its bulk work past everybody else's, for ever."""
    shard, stranger = backplane.add(Shard()), backplane.add(Shard())
    backplane.post(shard, "search")
    backplane.post(shard, "rebuild")
    backplane.post(stranger, "list_all")
    assert backplane.run_until_idle() == ["search", "list_all", "rebuild"]


def test_the_object_falls_back_when_its_urgent_action_is_taken_back(backplane: VirtualBackplane) -> None:
    """Law 2. A caller that gives up must not leave its priority behind."""
    shard, stranger = backplane.add(Shard(), key="mine"), backplane.add(Shard())
    backplane.post(shard, "rebuild")
    backplane.post(stranger, "list_all")
    call = backplane.call("bench.search", key="mine")
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    call.cancel()
    assert backplane.run_until_idle() == ["list_all", "rebuild"]
