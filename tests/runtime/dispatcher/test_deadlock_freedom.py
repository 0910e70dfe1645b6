"""Nothing that handlers can be registered with makes them wait for each other for ever, and nobody is where somebody writes.

Handlers over up to twelve protectors are made up, with what they are given, what they reach for and how they fail; eight
threads of a real backplane handle messages by the hundred. The same made-up handlers, with the order of locking switched
off, do wait in a circle. A circle is seen when it closes, in the very step in which somebody begins to wait, so that neither
test watches a clock. Set APPBACKPLANE_MODEL_EXAMPLES to a number to search that many from a new seed.
"""

from __future__ import annotations

import itertools
import logging
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.build import BUILD
from appbackplane.runtime.dispatcher import (
    READ,
    Accessor,
    DataProtector,
    Dispatcher,
    HandlerFailed,
    Message,
    SelectiveAccessor,
    SelectiveProtector,
    locking,
    message,
    registration,
)
from appbackplane.runtime.dispatcher.delivery import Delivery
from appbackplane.runtime.dispatcher.locking import LockClaim
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.transport.link import Link
from tests.models.locking_model import is_in_a_circle
from tests.profiles import examples
from tests.waiting import LIMIT_S

THREADS = 8
#: Each example handles so many: fewer, and they do not meet; more, and there is time for fewer examples.
MESSAGES = 500


class Work(Message):
    """Fields of all."""

    number: int
    #: Keys of selective protectors.
    a: int
    b: int


@message(category=60, id=1)
class Plain(Work):
    """One after the other, in any order."""


@message(category=60, id=2)
class Other(Work):
    """The same."""


@message(category=60, id=3, key="a")
class InOrder(Work):
    """On shared queues: what waits keeps what is behind it."""


KINDS: tuple[type[Work], ...] = (Plain, Other, InOrder)


class Planned(Exception):
    """A handler was meant to fail."""


class Datum:
    """Notices who is there at the same time."""

    def __init__(self) -> None:
        self.writer: object = None
        self.readers: set[object] = set()
        self.written = 0

    def enter(self, who: object, is_shared: bool) -> str | None:
        """What is wrong."""
        if self.writer is not None:
            return "somebody writes it"
        if is_shared:
            self.readers.add(who)
            return None
        if self.readers:
            return "somebody reads it"
        self.writer = who
        return None

    def leave(self, who: object, is_shared: bool) -> str | None:
        """What is wrong."""
        if is_shared:
            self.readers.discard(who)
            return "somebody writes what is read" if self.writer is not None else None
        if self.writer is not who or self.readers:
            return "another was there as well"
        self.written += 1
        self.writer = None
        return None


class HandlerPlan:
    """One handler: what it is given, as (protector, how), and what it does with its accessors."""

    def __init__(
        self, kind: int, given: Sequence[tuple[int, str]], reaches: Sequence[tuple[int, int, bool]], fails_every: int
    ) -> None:
        self.kind, self.given, self.reaches, self.fails_every = kind, given, reaches, fails_every

    def __repr__(self) -> str:
        return f"HandlerPlan({self.kind}, {self.given}, {self.reaches}, {self.fails_every})"


class Plan:
    """A made-up dispatcher: of each protector its place in the order and its number of keys, 0 for one datum."""

    def __init__(self, protectors: Sequence[tuple[int, int]], handlers: Sequence[HandlerPlan], seed: int) -> None:
        self.protectors, self.handlers, self.seed = protectors, handlers, seed

    def __repr__(self) -> str:
        return f"Plan({self.protectors}, {self.handlers}, seed={self.seed})"


@st.composite
def plans(draw: st.DrawFn, reaching: bool | None = None) -> Plan:
    """`reaching`: whether some handler has an accessor; None: either."""
    count = draw(st.integers(2, 12))
    orders = draw(st.permutations(range(count)))
    protectors = [(order, draw(st.integers(0, 3))) for order in orders]
    hows = ["write", "read", "write b"]
    if reaching is None:
        reaching = draw(st.booleans())
    if reaching:
        hows += ["reach", "reach to read"]
    handlers = []
    for _ in range(draw(st.integers(2, 6))):
        given = draw(
            st.lists(
                st.tuples(st.integers(0, count - 1), st.sampled_from(hows)), min_size=1, max_size=6
            )
        )  # fmt: skip
        if reaching and draw(st.booleans()):  # of many data it is given one to read, and reaches for it to write
            protector = draw(st.integers(0, count - 1))
            given = [(protector, "read"), (protector, "reach"), *given]
        given = [*{(which, protectors[which][1] > 0 and "reach" in how): (which, how) for which, how in given}.values()]
        reaches = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), min_size=1, max_size=3))
        handlers.append(HandlerPlan(draw(st.integers(0, 2)), given, reaches, draw(st.sampled_from([0, 0, 3]))))
    return Plan(protectors, handlers, draw(st.integers(0, 2**16)))


class Made(Dispatcher):
    """A plan, as a dispatcher."""

    def __init__(self, plan: Plan, news: SimpleQueue[Delivery | None]) -> None:
        self.plan, self.news = plan, news
        self.left = MESSAGES
        self.problems: list[str] = []
        self.data: list[list[Datum]] = []
        self.written: list[Datum] = []

    def setup(self) -> None:
        self.protectors: list[Any] = []
        for order, keys in self.plan.protectors:
            data = [Datum() for _ in range(max(1, keys))]
            self.data.append(data)
            if keys:
                self.protectors.append(SelectiveProtector(dict(enumerate(data)), by=_key("a", keys), order=order))
            else:
                self.protectors.append(DataProtector(data[0], order=order))
        for number, plan in enumerate(self.plan.handlers):
            self.register(*handler(self, number, plan))

    def _ended(self, action: Action) -> None:
        super()._ended(action)
        error = action.error
        if error is not None and not (isinstance(error, HandlerFailed) and isinstance(error.__cause__, Planned)):
            self.problems.append(f"{error}")
        self.left -= 1
        if not self.left:
            self.news.put(None)

    def use(self, having: Sequence[tuple[Datum, bool]]) -> None:
        """Be there, and give others their chance to be there as well."""
        who = object()
        strongest: dict[Datum, bool] = {}
        for datum, is_shared in having:
            strongest[datum] = strongest.get(datum, True) and is_shared
        found = [datum.enter(who, is_shared) for datum, is_shared in strongest.items()]
        time.sleep(0)  # gives the interpreter away
        found += [datum.leave(who, is_shared) for datum, is_shared in strongest.items()]
        self.problems += [problem for problem in found if problem is not None]
        self.written += [datum for datum, is_shared in strongest.items() if not is_shared]


def _key(field: str, keys: int) -> Callable[[Work], int]:
    return lambda message: int(getattr(message, field)) % keys


def handler(made: Made, number: int, plan: HandlerPlan) -> list[Any]:
    """What `register` is to be called with."""
    arguments: list[Any] = []
    annotations: dict[str, Any] = {"message": KINDS[plan.kind], "return": None}
    parameters = ["message"]
    for at, (protector, how) in enumerate(plan.given):
        keys = made.plan.protectors[protector][1]
        datum: Any = Annotated[Datum, READ] if "read" in how else Datum
        argument = made.protectors[protector]
        if "reach" in how:
            argument, datum = argument.accessor, SelectiveAccessor[int, datum] if keys else Accessor[datum]
        elif "b" in how and keys:
            argument = argument.by(_key("b", keys))
        arguments.append(argument)
        parameters.append(f"given{at}")
        annotations[parameters[-1]] = datum

    def handle(message: Work, values: Sequence[Any]) -> None:
        having: list[tuple[Datum, bool]] = []
        accessors: list[tuple[Any, int, bool]] = []
        for (protector, how), value in zip(plan.given, values, strict=True):
            if "reach" in how:
                accessors.append((value, made.plan.protectors[protector][1], "read" in how))
            else:
                having.append((value, "read" in how))
        made.use(having)
        with ExitStack() as later:
            for which, key, leaves_at_once in plan.reaches if accessors else ():
                accessor, keys, is_shared = accessors[which % len(accessors)]
                block = accessor.lock((key + message.a) % keys) if keys else accessor.lock()
                if leaves_at_once:
                    with block as datum:
                        made.use([*having, (datum, is_shared)])
                else:
                    having.append((later.enter_context(block), is_shared))
                made.use(having)
            if plan.fails_every and not message.number % plan.fails_every:
                raise Planned
        made.use(having[: len(plan.given) - len(accessors)])

    source = f"def handler_{number}({', '.join(parameters)}): handle(message, [{', '.join(parameters[1:])}])"
    scope: dict[str, Any] = {"handle": handle}
    exec(source, scope)
    function = scope[f"handler_{number}"]
    function.__annotations__ = annotations
    return [function, *arguments]


def run(plan: Plan) -> tuple[Made, int]:
    """Handle it all: what was made of it, and how often somebody came to wait for himself."""
    news: SimpleQueue[Delivery | None] = SimpleQueue()
    made = Made(plan, news)
    take = locking.take

    def watched(holder: locking.LockHolder, wanted: Sequence[locking.LockClaim]) -> bool:
        if take(holder, wanted):
            return True
        if is_in_a_circle(holder):
            assert isinstance(holder, Delivery)
            news.put(holder)
        return False

    config = ProcessConfig(
        system="test", backplane="made", run_dir="/nowhere", components=(), preempt=False, slow_action_ns=10**12
    )
    backplane = Backplane(config, [made], clock=RealClock(), link=Link("test-made"))
    kinds = sorted({handler.kind for handler in plan.handlers})
    dice = random.Random(plan.seed)
    circles = 0
    switch_s = sys.getswitchinterval()
    logging.disable(logging.CRITICAL)  # of handlers that were meant to fail
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locking, "take", watched)
        try:
            sys.setswitchinterval(1e-5)
            backplane.start(THREADS)
            for number in range(MESSAGES):
                kind = KINDS[dice.choice(kinds)]
                made.dispatch(kind(number, dice.randrange(4), dice.randrange(4)), priority=dice.randrange(8))
            while (stuck := news.get(timeout=LIMIT_S)) is not None:
                circles += 1
                let_out(made, stuck)
        finally:
            sys.setswitchinterval(switch_s)
            logging.disable(logging.NOTSET)
            assert backplane.stop(LIMIT_S)
    return made, circles


def let_out(made: Made, stuck: Delivery) -> None:
    """Somebody waits for himself, and would for ever: he goes on without his locks, so that the others come to an end."""
    with made._mutex:
        if not is_in_a_circle(stuck):
            return
        others = locking.release(stuck)
    stuck.tell(others)
    if not stuck.try_open():
        made._platform.resume(stuck)


def unordered(claims: Sequence[LockClaim]) -> list[LockClaim]:
    """As they come, each lock once."""
    found: dict[Any, bool] = {}
    for lock, is_shared in claims:
        found[lock] = found.get(lock, True) and is_shared
    return list(itertools.starmap(LockClaim, found.items()))


MANY = settings(
    max_examples=examples(10),
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # what depends on threads does not shrink
    suppress_health_check=list(HealthCheck),
)


@MANY
@given(plan=plans())
def test_everything_completes_and_nobody_writes_what_others_use(plan: Plan) -> None:
    """The promise of the dispatcher, for whatever handlers its users write. Broken, a system stands still one day."""
    made, circles = run(plan)
    assert circles == 0
    assert made.problems == []
    assert made.left == 0
    data = [datum for data in made.data for datum in data]
    assert sum(datum.written for datum in data) == len(made.written), "a change was lost"
    assert not any(datum.writer or datum.readers for datum in data)
    assert not made._queues.shared, "a queue was not given back"


@pytest.mark.skipif(
    BUILD == "compiled", reason="compiled functions cannot be replaced, and so the order not switched off"
)
@pytest.mark.usefixtures("replaceable")
@pytest.mark.parametrize("reaching", [False, True])
def test_without_the_order_they_wait_in_a_circle(reaching: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would pass for ever if its handlers never got into each other's way."""
    monkeypatch.setattr(locking, "ordered", unordered)
    monkeypatch.setattr(registration, "ordered", unordered)
    monkeypatch.setattr(locking, "_must_be_released", lambda held, new: held.is_shared)
    try:
        find(plans(reaching), lambda plan: run(plan)[1] > 0, settings=settings(MANY, max_examples=50))
    except NoSuchExample:
        pytest.fail("nobody waited for himself")
