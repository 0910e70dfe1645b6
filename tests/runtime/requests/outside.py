"""A kernel whose worker processes a test plays: a virtual backplane with the kernel in it, and any number of workers outside.

What a worker says is said as its process would: `execute` calls are answered, `post_requests` and `rejoin_requests` are called
under the identity of its generation, which dies with it. So a test may also say what no honest worker says.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any

import msgspec

from appbackplane.runtime import operation
from appbackplane.runtime.requests import Context, Element, Figures, KernelPolicy, RequestKernel, Runnable, State
from appbackplane.runtime.requests.executing.wire import service_key
from appbackplane.runtime.requests.ledger.owners import ScopedOwner
from appbackplane.runtime.testing import OutsideCall, VirtualBackplane, VirtualCall
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, Envelope

EXECUTE, RECALL = "request_worker.execute", "request_worker.recall"


class Work(Runnable):
    """Executed by whoever plays the worker."""

    def execute(self, request: int, kernel: Context) -> int:
        raise AssertionError("requests are executed elsewhere")


class Short(Work):
    """So that several travel together: its cost is learned apart."""


class Bulk(RequestKernel):
    """The kernel under test."""

    runnables = (Work, Short)

    @operation()
    async def wait_for(self, owner: str) -> int:
        """Until nothing of an owner exists."""
        return len([done async for done in self.kernel.ajoined(owner)])


class Outside:
    """A kernel, and its workers by name."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.kernel = Bulk(KernelPolicy(**{"kind": "processes", "workers": 256, **settings}))
        self.virtual = VirtualBackplane(self.kernel, name="k")
        self.generations: dict[str, int] = {}
        self.is_up: dict[str, bool] = {}
        self.ids = itertools.count(1)
        _ = self.virtual.backplane
        for name in names:
            self.start(name)

    # -- the supervisor -----------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """A process of this name is up."""
        self.generations[name] = self.generations.get(name, 0) + 1
        self.is_up[name] = True
        self.tell()

    def kill(self, name: str) -> None:
        """It is dead, and everybody is told."""
        self.is_up[name] = False
        self.tell()

    def tell(self) -> None:
        """The directory, to the kernel's backplane."""
        engine = self.virtual.backplane.engine
        places = {
            name: Place(generation, f"/nowhere/{name}-{generation}.sock", self.is_up[name])
            for name, generation in self.generations.items()
        }
        version = engine.routing.directory.version + 1
        routes = {**dict.fromkeys((EXECUTE, RECALL), tuple(self.generations)), "bulk.post_requests": ("k",)}
        directory = Directory("test", version, places, routes, {}, ())
        engine.update(directory, self.virtual.clock.now_ns())

    # -- who posts and rejoins in the kernel's backplane -------------------------------------------------------------

    def post(self, request: int, runnable: type[Runnable] = Work, **options: Any) -> Element:
        """Without waiting."""
        return self.kernel.kernel.post(request, runnable, wait=False, **options)

    def rejoin(self, owner: Hashable = None) -> tuple[str, Element | None]:
        """Without waiting."""
        found, element = self.kernel.kernel.rejoin(owner)
        return found.value, element

    # -- a worker -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Whatever can go on."""
        self.virtual.run_until_idle()

    def peer(self, name: str) -> bytes:
        """The identity of its process's connection."""
        return f"{name}-{self.generations[name]}-5eed".encode()

    def given(self, name: str, route: str = EXECUTE) -> list[OutsideCall]:
        """The calls that the living process of this name has had, oldest first."""
        path = f"/nowhere/{name}-{self.generations[name]}.sock".encode()
        return [call for call in self.virtual.outside_calls(route) if call._peer.endswith(path)]

    def batch(self, name: str) -> OutsideCall:
        """The newest of them."""
        self.run()
        return self.given(name)[-1]

    def say(self, name: str, operation: str, **arguments: Any) -> VirtualCall:
        """Call the kernel, as the living process of this name."""
        envelope = Envelope(CALL, next(self.ids), 7, f"bulk.{operation}", service_key(name), None, None, arguments)
        call = self.virtual.hear_call(envelope, self.peer(name))
        self.run()
        return call

    def asked(self, name: str, batch: OutsideCall, id: int, answers: Any = (), given_back: Any = ()) -> list[Any]:
        """How it says for which request it asks."""
        return [name, batch.arguments["start"], id, list(answers), list(given_back)]

    def says_posts(self, name: str, asked: list[Any], *requests: int, owner: Any = None, **options: Any) -> VirtualCall:
        """It posts."""
        wait, limit, over = options.pop("wait", True), options.pop("limit", None), options.pop("over", [])
        options = {"runnable": "Work", "priority": 100, "lane": 3, "rejoin": True, **options}
        items = [
            [options["runnable"], pack(each), owner, options["priority"], options["lane"], options["rejoin"], False]
            for each in requests
        ]
        return self.say(name, "post_requests", asked=asked, over=over, items=items, wait=wait, limit=limit)

    def says_rejoins(
        self, name: str, asked: list[Any], *, owner: Any = None, wait: bool = True, count: int = 256
    ) -> VirtualCall:
        """It rejoins."""
        arguments = {"asked": asked, "over": [], "owner": owner, "wait": wait, "limit": None, "count": count}
        return self.say(name, "rejoin_requests", **arguments)

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def figures(self) -> Figures:
        """Of this moment."""
        return self.kernel.figures()

    def check(self) -> Figures:
        """What holds at every moment: nothing is negative, and nothing comes from nowhere or goes there."""
        now = self.figures
        counts = msgspec.to_builtins(now)
        for name, count in counts.items():
            for each in count if isinstance(count, tuple | list) else [count]:
                assert not isinstance(each, int) or each >= 0, (name, counts)
        held = sum(count for _, _, count in now.by_worker.values())
        working = sum(1 for _, _, count in now.by_worker.values() if count)
        ledger = self.kernel._ledger._ledger
        assert now.executing == sum(now.executing_lanes) == working, counts
        assert sum(now.ready) == ledger.ready.count + held - working, counts
        existing = ledger.ready.count + held
        assert now.posted_total == existing + now.posting + now.ended_total + now.withdrawn_total, counts
        assert sum(account.existing_count for account in ledger.owners) == existing + now.posting, counts
        assert sum(len(account.done) for account in ledger.owners) == sum(now.rejoinable), counts
        assert now.joined_total + sum(now.rejoinable) <= now.ended_total, counts
        assert now.blocked <= now.executing, counts
        for account in ledger.owners:
            owner = account.owner
            if isinstance(owner, Element):
                is_over = owner.state not in (State.READY, State.EXECUTING)
            else:
                is_over = isinstance(owner, ScopedOwner) and owner.is_over
            assert not (is_over and account.done), f"requests of {owner!r} wait to rejoin, and nobody will ask for them"
        return now


def pack(request: Any) -> bytes:
    """As it travels."""
    return msgspec.msgpack.encode(request)


def ids(batch: OutsideCall) -> list[int]:
    """The numbers of the requests in it."""
    return [item[0] for item in batch.arguments["items"]]


def row(id: int, result: Any = 0, run_ns: int = 1000) -> list[Any]:
    """It went well."""
    return [id, pack(result), None, None, run_ns]


def failed(id: int, error: str = "ValueError: no") -> list[Any]:
    """It did not."""
    return [id, None, error, "Traceback: ...", 1000]
