"""Intake: whatever is said to a backplane becomes queued work, or a refusal that names the thing and the remedy."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import (
    Action,
    AppObject,
    BackplaneError,
    Busy,
    Cancelled,
    Component,
    DeadlineExceeded,
    Endpoint,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    Outcome,
    Request,
    StateMachine,
    Unavailable,
    UnknownRoute,
    operation,
)
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import envelope
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.envelope import CALL, CAST, Envelope


class Shelf(AppObject):
    """Serves a little of everything."""

    @operation(priority=2)
    def find(self, title: str, limit: int = 3) -> list[str]:
        """Titles like this one."""
        return [title] * limit

    @operation(priority=6)
    def sort(self) -> str:
        return "sorted"

    @operation()
    def tear(self) -> None:
        raise ValueError("the page is torn")

    @operation()
    def open(self, path: Path) -> str:
        return type(path).__name__


class Library(Component):
    """Two shelves."""

    max_requests = 4

    def setup(self) -> None:
        self.add(Shelf(), key="a")
        self.add(Shelf(), key="b")


@pytest.fixture
def library() -> VirtualBackplane:
    return VirtualBackplane(Library())


@pytest.mark.parametrize(
    ("route", "options", "kind", "words"),
    [
        ("library.fnd", {"title": "x"}, UnknownRoute, "did you mean 'library.find'"),
        ("library.find", {}, InvalidArgument, "missing argument 'title'"),
        ("library.find", {"title": "x", "limt": 3}, InvalidArgument, "unknown argument 'limt'"),
        ("library.find", {"title": 3}, InvalidArgument, "argument 'title': expected `str`, got `int`"),
        ("library.find", {"title": "x", "limit": "many"}, InvalidArgument, "expected (title: str, limit: int = 3)"),
        ("library.find", {"title": "x", "key": "z"}, NotFound, "no object with key 'z'"),
        ("library.find", {"title": "x", "priority": 8}, InvalidArgument, "priority 8, expected 0..7"),
        ("library.tear", {}, InternalError, "library.tear: ValueError: the page is torn"),
    ],
)
def test_bad_input_is_answered_by_name(
    library: VirtualBackplane, route: str, options: Any, kind: type[BackplaneError], words: str
) -> None:
    """DESIGN 12: the caller learns which thing is wrong and what was expected, and the backplane goes on."""
    with pytest.raises(kind) as raised:
        library.call(route, **options).result()
    assert type(raised.value) is kind
    assert words in str(raised.value)
    assert library.call("library.find", title="t", limit=1).result() == ["t"]


def test_a_node_that_has_just_started_does_not_deny_the_routes_of_others(library: VirtualBackplane) -> None:
    """Its endpoint takes these, and is not there yet: a caller that was told NOT_FOUND would not try again."""
    call = library.hear_call(envelope.call(1_000, CallSpec("b/library.find", {"title": "x"}), None))
    error = call.error()
    assert isinstance(error, Unavailable) and error.is_refused and error.retry_after
    assert "b/library.find: the endpoint of this node has not started yet" in str(error)


def test_arguments_arrive_as_annotated(library: VirtualBackplane) -> None:
    """A path travels as a string and arrives as what the operation asked for."""
    assert library.call("library.open", path="/tmp").result() == "PosixPath"


def test_a_cast_that_is_refused_is_counted(library: VirtualBackplane, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for a cast, so a refusal must show elsewhere: nothing is dropped silently."""
    library.hear(Envelope(CAST, 0, None, "library.fnd", None, None, None, {}))
    library.run_until_idle()
    assert library.backplane.statistics()["links"]["refused_casts"] == 1
    assert "did you mean 'library.find'" in caplog.text


def test_a_priority_below_the_highest_is_refused(library: VirtualBackplane, caplog: pytest.LogCaptureFixture) -> None:
    """No client of ours asks for one; a peer that did would index a queue from its end."""
    library.hear(Envelope(CAST, 0, -1, "library.find", None, None, None, {"title": "x"}))
    library.run_until_idle()
    assert library.backplane.statistics()["links"]["refused_casts"] == 1
    assert "priority -1, expected 0..7" in caplog.text


def test_operations_follow_the_state() -> None:
    """Law 12. Before its component serves, an operation is refused with the state's name; afterwards it is served."""
    library = VirtualBackplane(Library(), role=None)
    error = library.call("library.find", title="t").error()
    assert isinstance(error, Unavailable)
    assert "not served while virtual/library is start" in error.message
    library.move("initializing")
    library.move("primary")
    assert library.call("library.find", title="t", limit=1).result() == ["t"]
    library.move("down")
    assert isinstance(library.call("library.find", title="t").error(), Unavailable)


def test_full_component_refuses_with_a_hint(library: VirtualBackplane) -> None:
    """Law 9. At the limit the caller gets Busy and a time; nothing that was admitted is lost."""
    calls = [library.call("library.sort") for _ in range(6)]
    library.run_until_idle()
    results = [call.result() if not _is_busy(call) else "busy" for call in calls]
    assert results == ["sorted"] * 4 + ["busy"] * 2
    assert calls[-1].error().retry_after is not None


def _is_busy(call: Any) -> bool:
    try:
        call.result()
    except Busy:
        return True
    return False


def test_a_client_subscribes_to_so_many_topics_and_no_more(
    library: VirtualBackplane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in a loop would fill the tables of every backplane; a place is free again when one is given back."""
    monkeypatch.setattr("appbackplane.runtime.execution.outgoing.publishing.PATTERNS_MAX", 2)

    def ask(verb: str, topic: str) -> Any:
        return library.call(f"backplane.virtual.{verb}", topic=topic)

    for topic in ("a", "b.*", "a"):
        ask("subscribe", topic).result()
    assert "already has 2 subscriptions here" in ask("subscribe", "c").error().message
    ask("unsubscribe", "a").result()
    ask("subscribe", "c").result()
    publishing = library.backplane.engine.publishing
    publishing.forget(b"test")
    assert (publishing._patterns, publishing._clients.matching("c"), publishing._clients.matching("b.x")) == (
        {},
        [],
        [],
    )


def test_a_flood_of_a_backplanes_own_operations_has_a_bound(library: VirtualBackplane) -> None:
    """Whoever asks how a backplane is must not fill it with questions."""
    library.backplane.engine.limits.requests["backplane.virtual"].change(3)
    calls = [library.call("backplane.virtual.threads") for _ in range(5)]
    assert [_is_busy(call) for call in calls] == [False, False, False, True, True]
    assert "backplane.virtual" not in library.call("backplane.virtual.limits").result()["max_requests"]


def test_make_room_that_raises_is_told_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    """A bug in the component's own rule must not end the backplane."""

    class Broken(Library):
        component_name = "library"

        def make_room(self, request: Action) -> bool:
            raise KeyError("room")

    library = VirtualBackplane(Broken())
    calls = [library.call("library.sort") for _ in range(5)]
    assert "make_room: KeyError" in calls[-1].error().message
    assert calls[0].result() == "sorted"


def test_a_refused_request_frees_its_place(library: VirtualBackplane) -> None:
    """A place that is not given back would shut the component for ever."""
    for _ in range(3):
        calls = [library.call("library.tear") for _ in range(4)]
        assert all(isinstance(call.error(), InternalError) for call in calls)
    assert library.backplane.engine.limits.requests["library"].outstanding == 0


def test_expired_work_does_not_run(library: VirtualBackplane) -> None:
    """DESIGN 12.5. Its caller has gone: running it would take time from those who still wait."""
    late = library.call("library.sort", timeout=0.5)
    library.backplane.engine.drain(library.clock.now_ns())
    library.clock.sleep(1.0)
    assert isinstance(late.error(), DeadlineExceeded)
    assert library.backplane.statistics()["operations"]["library.sort"]["expired"] == 1
    assert library.backplane.engine.limits.requests["library"].outstanding == 0


def test_a_cancelled_call_leaves_its_queue(library: VirtualBackplane) -> None:
    """What nobody waits for any more is not run."""
    call = library.call("library.sort", key="a")
    library.call("library.find", title="t", key="b")
    call.cancel()
    assert library.run_until_idle() == ["find"]
    assert isinstance(call.error(), Cancelled)


def test_calls_without_a_key_spread(library: VirtualBackplane) -> None:
    """Seed 002: the least busy object that serves the route; one object must not do all the work."""
    for _ in range(4):
        library.call("library.sort")
    objects = library.call("backplane.virtual.objects", component="library")
    library.run_until_idle()
    assert {entry["key"]: entry["outstanding"] for entry in objects.result()} == {"a": 2, "b": 2}


# -- call cycles ------------------------------------------------------------------------------------------------------


class Knot(AppObject):
    """Calls others by name; `echo` calls back."""

    @operation(priority=3)
    async def start(self, first: str, then: str) -> Any:
        return await self.call(first, then=then)

    @operation()
    async def hop(self, then: str) -> Any:
        return await self.call(then)

    @operation()
    def back(self) -> str:
        return "back"

    @operation(reentrant=True)
    def welcome(self) -> str:
        return "welcome"


class Left(Component):
    """One object."""

    def setup(self) -> None:
        self.add(Knot())


class Right(Left):
    """Another."""


def test_a_call_cycle_is_refused_with_the_cycle_spelled_out() -> None:
    """DESIGN 12.6. A waits for B, which waits for A: without the refusal both wait until a deadline."""
    backplane = VirtualBackplane(Left(), Right())
    error = backplane.call("left.start", first="right.hop", then="left.back").error()
    assert (
        "left.start on virtual/left.0 -> right.hop on virtual/right.0 -> left.back on virtual/left.0" in error.message
    )
    assert "reentrant=True" in error.message
    assert backplane.call("left.back").result() == "back"


def test_a_reentrant_operation_is_served_within_its_own_chain() -> None:
    """DESIGN 12.6. Declared safe, it runs at once although its object waits, and no deadline is needed to get out."""
    backplane = VirtualBackplane(Left(), Right())
    assert backplane.call("left.start", first="right.hop", then="left.welcome").result() == "welcome"


def test_an_object_that_calls_itself_is_refused() -> None:
    """The smallest cycle."""
    backplane = VirtualBackplane(Left())
    assert "call cycle" in backplane.call("left.hop", then="left.back").error().message


# -- digesters and endpoints ------------------------------------------------------------------------------------------


class Desk(Component):
    """Finds out slowly who is to serve."""

    def setup(self) -> None:
        self.add(Clerk(), key="ada")
        self.add(Clerk(), key="bob")

    def whose(self, letter: str) -> str:
        return "ada" if letter < "m" else "bob"

    def broken(self, letter: str) -> str:
        raise LookupError("no book")


class Clerk(AppObject):
    """Says who it is."""

    @operation(priority=4, digest="whose")
    def handle(self, letter: str) -> str | None:
        return self.key

    @operation(digest="broken")
    def lose(self, letter: str) -> None: ...


def test_a_digester_works_out_the_target_before_other_work() -> None:
    """Law 7. Slow dispatch is work of its own, one priority above what it dispatches, not a burden of the receiver."""
    backplane = VirtualBackplane(Desk())
    call = backplane.call("desk.handle", letter="z")
    assert backplane.run_until_idle() == ["whose", "handle"]
    assert call.result() == "bob"


def test_a_digester_that_fails_tells_the_caller() -> None:
    """Nothing is lost on the way to the target."""
    backplane = VirtualBackplane(Desk())
    assert "no book" in backplane.call("desk.lose", letter="a").error().message
    assert backplane.backplane.engine.limits.requests["desk"].outstanding == 0


def test_a_call_with_its_digester_can_be_taken_back() -> None:
    """DESIGN 12.5. It was looked for among those that have their target, and ran for nobody."""
    backplane = VirtualBackplane(Desk())
    _ = backplane.backplane
    calls = [backplane.call("desk.handle", letter="z") for _ in range(2)]
    calls[0].cancel()
    assert backplane.run_until_idle() == ["whose", "handle"]
    assert isinstance(calls[0].error(), Cancelled)
    assert calls[1].result() == "bob"
    engine = backplane.backplane.engine
    assert (engine.limits.requests["desk"].outstanding, len(engine.accepted)) == (0, 0)


def test_a_call_that_is_too_late_is_not_digested() -> None:
    """Its target need not be worked out any more."""
    backplane = VirtualBackplane(Desk())
    _ = backplane.backplane
    call = backplane.hear_call(Envelope(CALL, 1, None, "desk.handle", None, 0, None, {"letter": "z"}))
    assert backplane.run_until_idle() == []
    assert isinstance(call.error(), DeadlineExceeded)


def test_a_call_with_its_digester_is_answered_when_the_process_ends() -> None:
    """Like all others."""
    backplane = VirtualBackplane(Desk())
    engine = backplane.backplane.engine
    call = backplane.call("desk.handle", letter="z")
    engine.drain(backplane.clock.now_ns())
    engine.stop()
    assert isinstance(call.error(), Unavailable)
    assert "stopping" in call.error().message


def test_what_has_come_unread_is_answered_when_the_process_ends() -> None:
    """A caller that asks in the last moment is told, and does not wait for its deadline."""
    backplane = VirtualBackplane(Desk())
    engine = backplane.backplane.engine
    calls = [backplane.call("desk.handle", letter="z") for _ in range(200)]
    engine.stop()
    assert all(isinstance(call.error(), Unavailable) for call in calls)


class SlowDesk(Desk):
    """Something happens while it looks in the book."""

    component_name = "desk"

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None
        self.looked_up: list[str] = []

    def whose(self, letter: str) -> str:
        self.looked_up.append(letter)
        self.meanwhile()
        return super().whose(letter)


def test_a_call_that_a_digester_has_not_begun_with_can_be_taken_back() -> None:
    """Its caller has gone: nobody should look up for whom it was. It holds no place in the component either."""
    desk = SlowDesk()
    backplane = VirtualBackplane(desk)
    call = backplane.call("desk.handle", letter="z")
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    call.cancel()
    assert backplane.run_until_idle() == []
    assert type(call.error()) is Cancelled
    assert backplane.backplane.statistics()["operations"]["desk.handle"]["cancelled"] == 1
    assert backplane.backplane.statistics()["components"]["desk"]["outstanding"] == 0
    assert not backplane.backplane.engine.accepted


def test_a_call_that_a_digester_works_on_can_be_taken_back() -> None:
    """The target is known by then, and gets nothing to do."""
    desk = SlowDesk()
    backplane = VirtualBackplane(desk)
    call = backplane.call("desk.handle", letter="z")

    def cancel() -> None:
        call.cancel()
        backplane.backplane.engine.drain(backplane.clock.now_ns())

    desk.meanwhile = cancel
    assert backplane.run_until_idle() == ["whose"]
    assert type(call.error()) is Cancelled
    assert not backplane.backplane.engine.accepted


def test_a_call_whose_deadline_passes_before_its_digester_begins_is_not_looked_up() -> None:
    """Deadlines hold from arrival on, whoever has the call."""
    desk = SlowDesk()
    backplane = VirtualBackplane(desk)
    call = backplane.call("desk.handle", letter="z", timeout=0.1)
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    backplane.clock.sleep(0.2)
    assert type(call.error()) is DeadlineExceeded
    assert desk.looked_up == []
    assert backplane.backplane.statistics()["operations"]["desk.handle"]["expired"] == 1


def test_a_call_whose_deadline_passes_in_its_digester_does_not_begin() -> None:
    """What is left of it goes on with the call."""
    desk = SlowDesk()
    backplane = VirtualBackplane(desk)
    desk.meanwhile = lambda: backplane.clock.sleep(0.2)
    call = backplane.call("desk.handle", letter="z", timeout=0.1)
    assert backplane.run_until_idle() == ["whose"]
    assert type(call.error()) is DeadlineExceeded
    assert backplane.backplane.statistics()["operations"]["desk.handle"]["expired"] == 1


class Telegram(Action):
    """Foreign work."""

    __slots__ = ("words",)

    def __init__(self, object: AppObject, request: Request) -> None:
        super().__init__(object, request.route, request.priority, request.deadline_ns)
        self.words = request.body["words"]

    def run(self) -> Outcome:
        self.result = len(self.words)
        return Outcome.DONE


class TelegramEndpoint(Endpoint):
    """Makes telegrams."""

    def __init__(self, office: AppObject) -> None:
        super().__init__("telegram", priority=1)
        self._office = office

    def create_action(self, request: Request) -> Action:
        if "words" not in request.body:
            raise InvalidArgument("a telegram has words")
        return Telegram(self._office, request)


class Office(Component):
    """Serves a protocol of its own."""

    def setup(self) -> None:
        self.expose(TelegramEndpoint(self))


def test_an_endpoint_makes_its_own_actions() -> None:
    """Seed 002: all operations are actions; a foreign protocol brings its own."""
    backplane = VirtualBackplane(Office())
    assert backplane.call("office.telegram", words=["stop", "stop"]).result() == 2
    assert "has words" in backplane.call("office.telegram").error().message


def test_an_action_that_says_nonsense_ends_in_an_error() -> None:
    """A subclass of Action is user code: what it returns must not break the worker."""

    class Odd(Action):
        def run(self) -> Outcome:
            return "done"  # type: ignore[return-value]

    backplane = VirtualBackplane(Library())
    component = backplane.backplane.engine.registry.components["library"]
    action = Odd(component, "library.odd", 3)
    component.post(action)
    backplane.run_until_idle()
    assert isinstance(action.error, TypeError)
    assert "expected Outcome.DONE" in str(action.error)


# -- state machines ---------------------------------------------------------------------------------------------------


class Phase(enum.Enum):
    """Of a door."""

    SHUT = 1
    OPEN = 2


class Door(StateMachine):
    """Opens and lets pass."""

    initial = Phase.SHUT

    def __init__(self) -> None:
        self.passed: list[str] = []

    @operation(accepted_in=(Phase.SHUT,))
    def unlock(self) -> str:
        self.become(Phase.OPEN)
        return "open"

    @operation(accepted_in=(Phase.OPEN,), otherwise="defer")
    def enter(self, who: str) -> list[str]:
        self.passed.append(who)
        return self.passed

    @operation(accepted_in=(Phase.OPEN,))
    def leave(self) -> None: ...


class House(Component):
    """With one door."""

    def setup(self) -> None:
        self.add(Door())


def test_a_state_machine_refuses_by_state() -> None:
    """The caller learns the state and where the operation is accepted."""
    error = VirtualBackplane(House()).call("house.leave").error()
    assert isinstance(error, FailedPrecondition)
    assert "in state SHUT (accepted in: OPEN)" in error.message


def test_a_state_machine_defers_in_order() -> None:
    """gen_statem's postpone: what came too early runs after the change, in its order and before anything newer."""
    backplane = VirtualBackplane(House())
    early = [backplane.call("house.enter", who=who) for who in ("ada", "bob")]
    backplane.run_until_idle()
    assert not any(call.done() for call in early)
    backplane.call("house.unlock")
    newer = backplane.call("house.enter", who="cyd")
    assert newer.result() == ["ada", "bob", "cyd"]
    assert [call.done() for call in early] == [True, True]


class Attic(AppObject):
    """Serves what a shelf does, less urgently."""

    @operation(priority=6, reentrant=True)
    def find(self, title: str, limit: int = 3) -> list[str]:
        return [title] * limit


class WithAttic(Library):
    component_name = "library"

    def setup(self) -> None:
        super().setup()
        self.add(Attic(), key="attic")


@pytest.fixture
def with_attic() -> VirtualBackplane:
    return VirtualBackplane(WithAttic())


def test_a_call_runs_at_the_priority_of_its_target(with_attic: VirtualBackplane) -> None:
    """It ran at that of the class that was registered first: an operation declared 6 ran at 2."""
    _ = with_attic.backplane
    with_attic.call("library.find", key="attic", title="x")
    with_attic.call("library.tear", key="a")
    assert with_attic.run_until_idle() == ["tear", "find"]


def test_a_call_that_comes_back_is_served_if_its_target_is_reentrant(with_attic: VirtualBackplane) -> None:
    """It was refused where the class that was registered first was not, and let in where only that one was."""
    engine = with_attic.backplane.engine
    for key, problem in (("attic", ""), ("a", "call cycle")):
        object = engine.registry.by_key("library", key)
        assert object is not None
        chain = [[object.name, "library.sort"]]
        envelope = Envelope(CALL, 1, None, "library.find", key, None, None, {"title": "x"}, chain)
        if problem:
            with pytest.raises(FailedPrecondition, match=problem):
                engine.intake.admit(b"client", envelope, 0)
        else:
            engine.intake.admit(b"client", envelope, 0)
