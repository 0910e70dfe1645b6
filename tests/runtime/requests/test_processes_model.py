"""Any order of what can happen between a kernel and its worker processes: nothing is lost, nothing comes twice, counts agree.

Workers answer out of order, twice, in part, for requests that are not theirs; refuse; die at any point, before or after anybody
has heard of it; and go on calling for requests that were given up. What is known beside the kernel: for each owner that has a
name, what was posted and what has rejoined, so that NONE_EXIST is the truth whenever it is said.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from appbackplane.runtime.requests import Element, State
from appbackplane.runtime.testing import OutsideCall, VirtualCall
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    InternalError,
    InvalidArgument,
    NotFound,
    PeerDown,
    Unavailable,
)
from tests.profiles import examples

from .outside import RECALL, Outside, Short, Work, failed, ids, row

NAMES = ("worker-1", "worker-2", "worker-3")
OWNERS = ("a", "b")
#: Turns of the last phase: far more than it takes.
TURNS_MAX = 100
REFUSALS: tuple[tuple[BackplaneError, bool], ...] = (
    (Unavailable("not now"), True),
    (Unavailable("not now"), False),
    (Busy("full"), True),
    (NotFound("nobody"), True),
    (InvalidArgument("what is this"), True),
    (InternalError("broken"), False),
    (PeerDown("it died"), False),
)


class Play(RuleBasedStateMachine):
    """Whatever can happen, in any order."""

    @initialize(workers=st.integers(1, 4), ready=st.integers(1, 8), rejoin=st.integers(1, 8), has_lanes=st.booleans())
    def begin(self, workers: int, ready: int, rejoin: int, has_lanes: bool) -> None:
        lanes: dict[str, Any] = {"mode": "lanes", "lanes": (0, 25, 25)} if has_lanes else {}
        if has_lanes:
            workers, ready = max(workers, 3), max(ready, 3)
        self.outside = Outside("worker-1", workers=workers, ready=ready, rejoin=rejoin, **lanes)
        self.is_lanes = has_lanes
        self.number = 0
        #: Of each owner with a name: posted here, by element; posted by workers, by number; and what has rejoined, by number.
        self.mine: dict[str, list[Element]] = {owner: [] for owner in OWNERS}
        self.theirs: dict[str, set[int]] = {owner: set() for owner in OWNERS}
        self.joined: set[int] = set()
        #: `execute` calls that have had their end.
        self.over: set[int] = set()
        self.calls: list[tuple[VirtualCall, str | None]] = []

    # -- what is there ------------------------------------------------------------------------------------------------

    def batches(self, name: str) -> list[OutsideCall]:
        """Those that the living process of this name has not answered."""
        if not self.outside.is_up.get(name):
            return []
        self.outside.run()
        return [call for call in self.outside.given(name) if id(call) not in self.over]

    def recalls(self, name: str) -> list[OutsideCall]:
        """That it has not answered."""
        if not self.outside.is_up.get(name):
            return []
        self.outside.run()
        return [call for call in self.outside.given(name, RECALL) if id(call) not in self.over]

    def pick(self, name: str) -> OutsideCall | None:
        """The one that it has."""
        found = self.batches(name)
        return found[0] if found else None

    def exists(self, owner: str) -> bool:
        """Whether anything of it does."""
        own = [each for each in self.mine[owner] if each.id not in self.joined and each.state is not State.DONE]
        return bool(own) or bool(self.theirs[owner] - self.joined)

    def has_joined(self, id: int) -> None:
        assert id not in self.joined, f"request {id} has rejoined twice"
        self.joined.add(id)

    def look(self) -> None:
        """At the answers to what workers have called."""
        self.outside.run()
        left = []
        for call, owner in self.calls:
            if not call.done():
                left.append((call, owner))
                continue
            try:
                answer = call.result()
            except BackplaneError:
                continue
            if owner is None:
                continue
            if isinstance(answer[0], list):
                self.theirs[owner].update(answer[0])
            else:
                for each in answer[1]:
                    self.has_joined(each[0])
                if answer[0] == "none exist":
                    assert not self.exists(owner), f"NONE_EXIST for {owner!r} while one exists"
        self.calls = left

    # -- from the kernel's process --------------------------------------------------------------------------------------

    @rule(
        owner=st.sampled_from(OWNERS), lane=st.sampled_from((3, 3, 2, 1)), priority=st.integers(70, 103),
        is_rejoined=st.sampled_from((True, True, True, False)), runnable=st.sampled_from((Work, Short)),
    )  # fmt: skip
    def post(self, owner: str, lane: int, priority: int, is_rejoined: bool, runnable: type[Work]) -> None:
        self.number += 1
        try:
            element = self.outside.post(
                self.number, runnable, owner=owner, lane=lane, priority=priority, rejoin=is_rejoined
            )
        except Busy:
            return
        self.mine[owner].append(element)

    @rule(owner=st.sampled_from(OWNERS))
    def rejoin(self, owner: str) -> None:
        found, element = self.outside.rejoin(owner)
        if element is not None:
            self.has_joined(element.id)
            assert element.state in (State.JOINED, State.FAILED)
        else:
            assert (found == "none exist") == (not self.exists(owner))

    @rule(workers=st.integers(3, 5), ready=st.integers(3, 8), rejoin=st.integers(1, 8))
    def change(self, workers: int, ready: int, rejoin: int) -> None:
        self.outside.kernel.change(workers=workers, ready=ready, rejoin=rejoin)

    @rule()
    def time_passes(self) -> None:
        self.outside.virtual.advance(0.1)

    # -- workers come and go --------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def start(self, name: str) -> None:
        if not self.outside.is_up.get(name):
            self.outside.start(name)

    @rule(name=st.sampled_from(NAMES), is_run=st.booleans())
    def kill(self, name: str, is_run: bool) -> None:
        if is_run:
            self.outside.run()
        if self.outside.is_up.get(name):
            self.outside.kill(name)

    # -- what they say --------------------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NAMES), seed=st.randoms(use_true_random=False), share=st.sampled_from((1.0, 1.0, 0.5)),
        strange=st.lists(st.integers(0, 40), max_size=3), is_twice=st.booleans(), run_ns=st.sampled_from((1, 10**9)),
    )  # fmt: skip
    def answer(self, name: str, seed: Any, share: float, strange: list[int], is_twice: bool, run_ns: int) -> None:
        batch = self.pick(name)
        if batch is None:
            return
        mine = [each for each in ids(batch) if seed.random() < share]
        rows = [row(each, each, run_ns) if seed.random() < 0.8 else failed(each) for each in mine]
        rows += [row(each, -1) for each in strange if each not in ids(batch)]
        seed.shuffle(rows)
        batch.reply(rows)
        if is_twice:
            batch.reply(rows)
        self.over.add(id(batch))

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(REFUSALS))
    def refuse(self, name: str, how: tuple[BackplaneError, bool]) -> None:
        batch = self.pick(name)
        if batch is not None:
            batch.fail(how[0], is_refused=how[1])
            self.over.add(id(batch))

    @rule(
        name=st.sampled_from(NAMES), which=st.integers(0, 9), how=st.sampled_from(("honest", "honest", "strange", "refuses")),
        is_later=st.booleans(),
    )  # fmt: skip
    def recalled(self, name: str, which: int, how: str, is_later: bool) -> None:
        """It is asked what has ended and what has not begun; perhaps after it has answered."""
        if not is_later:
            self.outside.virtual.advance(0.05)
        batch = self.pick(name)
        for call in self.recalls(name):
            self.over.add(id(call))
            mine = [] if batch is None else ids(batch)
            at = which % len(mine) if mine else 0
            if how == "honest":
                call.reply([[row(each, each) for each in mine[:at]], mine[at + 1 :]])
            elif how == "strange":
                call.reply([[row(which, -1)], [which + 1, *mine[:1]]])
            else:
                call.fail(REFUSALS[which % len(REFUSALS)][0], is_refused=bool(which % 2))

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 9), owner=st.sampled_from((None, [0])))
    def disowns(self, name: str, which: int, owner: Any) -> None:
        """It asks for them no more, though it goes on."""
        batch = self.pick(name)
        if batch is not None and not self.is_waiting(name):
            mine = ids(batch)
            asked = self.outside.asked(name, batch, mine[which % len(mine)])
            self.outside.say(name, "disown_requests", asked=asked, owner=owner)

    @rule(
        name=st.sampled_from(NAMES), which=st.integers(0, 9), owner=st.sampled_from((None, None, [0], [1], *OWNERS)),
        count=st.integers(1, 4), wait=st.booleans(), is_honest=st.sampled_from((True, True, False)),
        lane=st.sampled_from((3, 2)),
    )  # fmt: skip
    def call_to_post(
        self, name: str, which: int, owner: Any, count: int, wait: bool, is_honest: bool, lane: int
    ) -> None:
        batch = self.pick(name)
        if batch is None or self.is_waiting(name):
            return
        asked = self.asked(name, batch, which, is_honest)
        is_named = isinstance(owner, str)
        numbers = range(self.number + 1, self.number + 1 + count)
        self.number += count
        call = self.outside.says_posts(name, asked, *numbers, owner=owner, wait=wait and not is_named, lane=lane)
        self.waiting.append((name, self.outside.generations[name], call))
        self.calls.append((call, owner if is_named else None))
        self.look()

    @rule(
        name=st.sampled_from(NAMES), which=st.integers(0, 9), owner=st.sampled_from((None, None, [0], *OWNERS)),
        wait=st.booleans(), is_honest=st.sampled_from((True, True, False)),
    )  # fmt: skip
    def call_to_rejoin(self, name: str, which: int, owner: Any, wait: bool, is_honest: bool) -> None:
        batch = self.pick(name)
        if batch is None or self.is_waiting(name):
            return
        is_named = isinstance(owner, str)
        asked = self.asked(name, batch, which, is_honest)
        call = self.outside.says_rejoins(
            name, asked, owner=owner, wait=wait and not is_named, count=1 if is_named else 256
        )
        self.waiting.append((name, self.outside.generations[name], call))
        self.calls.append((call, owner if is_named else None))
        self.look()

    def asked(self, name: str, batch: OutsideCall, which: int, is_honest: bool) -> list[Any]:
        """One of the batch, with those before it answered and those behind it given back; or anything."""
        mine = ids(batch)
        at = which % len(mine)
        if is_honest:
            return self.outside.asked(name, batch, mine[at], [row(each, each) for each in mine[:at]], mine[at + 1 :])
        return self.outside.asked(name, batch, which, [row(which + 1, -1)], [which, which + 2])

    def is_waiting(self, name: str) -> bool:
        """Whether its call to the kernel has no answer yet: an honest process makes no other."""
        now = self.outside.generations[name]
        return any(who == name and generation == now and not call.done() for who, generation, call in self.waiting)

    @property
    def waiting(self) -> list[tuple[str, int, VirtualCall]]:
        """Calls of workers."""
        if not hasattr(self, "_waiting"):
            self._waiting: list[tuple[str, int, VirtualCall]] = []
        return self._waiting

    # -- what holds -----------------------------------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "outside"):
            self.look()
            self.outside.check()

    def teardown(self) -> None:
        """In the end all is executed, and all that was posted for a name has rejoined."""
        if not hasattr(self, "outside"):
            return
        for name in NAMES:
            self.start(name)
        outside = self.outside
        for _ in range(TURNS_MAX):
            outside.virtual.advance(0.1)
            for name in NAMES:
                for call in self.recalls(name):
                    call.reply([[], []])
                    self.over.add(id(call))
                for batch in self.batches(name):
                    batch.reply([row(each, each) for each in ids(batch)])
                    self.over.add(id(batch))
            self.look()
            for owner in OWNERS:
                self.rejoin(owner)
            now = outside.check()
            if not (now.owners or now.executing or now.posting or sum(now.ready)):
                break
        else:
            raise AssertionError(f"it does not come to rest: {now}")
        for owner in OWNERS:
            assert not self.exists(owner)
            posted = {each.id for each in self.mine[owner] if each.is_rejoined} | self.theirs[owner]
            assert posted <= self.joined


TestPlay = Play.TestCase
TestPlay.settings = settings(
    max_examples=examples(20), stateful_step_count=60, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)  # fmt: skip
