"""Commands: what an operator may tell a kernel while it works, from outside, by lines and by the clock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from appbackplane.runtime import operation
from appbackplane.runtime.execution.workers.user_functions import pause
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.requests import (
    CommandHandler,
    Context,
    KernelPolicy,
    Rejoin,
    RequestKernel,
    Runnable,
    command,
)
from appbackplane.runtime.requests.operating.command_routes import OUTSTANDING_MAX
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument, NotFound


class Takes(Runnable):
    """So many seconds."""

    async def execute(self, request: float, kernel: Context) -> float:
        await pause(request)
        return request


class Splits(Runnable):
    """In two of a second each."""

    async def execute(self, request: int, kernel: Context) -> int:
        await kernel.apost_all([1.0, 1.0], Takes)
        return len([done async for done in kernel.ajoined()])


class Mine(CommandHandler):
    """One of its own, one that is replaced, one that is extended, one that waits."""

    def __init__(self) -> None:
        self.beats: list[str] = []

    @command
    def beat(self, word: str = "beat") -> int:
        self.beats.append(word)
        return len(self.beats)

    @command(is_logged=False)
    def workers(self, count: int | None = None) -> dict[str, Any]:
        if count is not None and count > 5:
            raise InvalidArgument("five are enough")
        return {**super().workers(count), "by": "mine"}

    @command
    async def nap(self, seconds: float) -> str:
        await pause(seconds)
        return "slept"

    @command
    def fail(self) -> None:
        raise RuntimeError("of its own")


class Beats(CommandHandler):
    """One more."""

    @command
    def beat(self) -> None: ...


class Plain(RequestKernel):
    component_name = "index"
    runnables = (Takes,)
    policy = KernelPolicy(workers=2)
    commands = Beats


class Index(RequestKernel):
    runnables = (Takes, Splits)
    policy = KernelPolicy(workers=2)
    commands = Mine


def up(kernel: RequestKernel) -> VirtualBackplane:
    """A backplane with it, serving."""
    backplane = VirtualBackplane(kernel)
    backplane.run_until_idle()
    return backplane


def tell(backplane: VirtualBackplane, line: str) -> Any:
    """A line, as from the command line."""
    return backplane.call("index.command", line=line).result()


def test_a_command_has_a_route_and_is_a_line() -> None:
    """`appbackplane call index.workers count=4`, and `… index.command line="workers 4"`."""
    backplane = up(Index())
    assert backplane.call("index.workers", count=3).result() == {"workers": 3, "before": {"workers": 2}, "by": "mine"}
    assert tell(backplane, "workers 4")["workers"] == 4
    assert tell(backplane, "workers") == {"workers": 4, "by": "mine"}
    assert [row["state"] for row in tell(backplane, "status")["workers"]] == ["rests"] * 4
    assert tell(backplane, "beat hello") == 1


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("ageing on", {"ageing": True}),
        ("ageing on 0.5", {"ageing": True, "interval": 0.5}),
        ("interval 2", {"interval": 2.0}),
        ("boost 3", {"boost": 3}),
        ("pools ready=20", {"ready": 20}),
        ("pools 20 30", {"ready": 20, "rejoin": 30}),
        ("lanes 0 10 20", {"mode": "lanes", "lanes": (0, 10, 20)}),
        ("lanes on 0 10 20", {"mode": "lanes", "lanes": (0, 10, 20)}),
        ("lanes off 0 10 20", {"mode": "plain", "lanes": (0, 10, 20)}),
        ("settings workers=5 ready=7 ageing=on", {"workers": 5, "ready": 7, "ageing": True}),
        ("settings lanes=[0,10,20] mode=lanes", {"mode": "lanes", "lanes": (0, 10, 20)}),
    ],
)
def test_settings_are_reviewed(line: str, settings: dict[str, Any]) -> None:
    """All of a line at once; the others stay. The policy of the component says what holds."""
    kernel = Index(KernelPolicy(workers=10))
    before = kernel.policy
    told = tell(up(kernel), line)
    assert kernel.policy == kernel._ledger.policy == before.changed(**settings)
    assert set(told["before"]) == {name for name, value in settings.items() if getattr(before, name) != value}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("workers four", "argument 'count': expected `int | null`, got `str`"),
        ("workers 0", "workers = 0: expected 1 to 256"),
        ("lanes 50 50 0", "100 % leave nothing to lane 3"),
        ("lanes on 0 60 30", "lanes 0 to 2 may have"),
        ("settings ready=5 workers=many", "workers = .many.: expected `int`, got `str`"),
        ("settings ready=5 redy=6", r"no setting 'redy' \(did you mean 'ready'\?\): expected one of ageing"),
        ("settings ready=5 kind=processes", "kind cannot change while the kernel runs"),
        ("settings ready=5 ageing=maybe", "ageing = .maybe.: expected `bool`, got `str`"),
        ('settings ready=5 schedule=\'{"25:00":"beat"}\'', "schedule: '25:00'"),
        ('settings ready=5 schedule=\'{"22:00":"baet"}\'', "index has no command 'baet' .did you mean 'beat'"),
    ],
)
def test_what_makes_no_sense_changes_nothing(line: str, says: str) -> None:
    """An operator who has mistyped the second of two settings must not have changed the first."""
    kernel = Plain()
    backplane = up(kernel)
    before = kernel.policy
    with pytest.raises((InvalidArgument, NotFound), match=says):
        tell(backplane, line)
    assert kernel.policy is before is kernel._ledger.policy


def test_one_that_is_unknown_is_named_with_the_nearest() -> None:
    """Before anything runs."""
    with pytest.raises(NotFound, match=r"^index has no command 'wrokers' \(did you mean 'workers'\?\)$"):
        tell(up(Index()), "wrokers 4")


def test_own_commands_and_replaced_ones() -> None:
    """The source: "The extension implements any custom commands and replaces or extends … any system commands"."""
    kernel = Index()
    backplane = up(kernel)
    with pytest.raises(InvalidArgument, match="five are enough"):
        tell(backplane, "workers 6")
    assert kernel.policy.workers == 2
    assert {"beat", "workers", "nap", "status"} <= {row["command"] for row in tell(backplane, "help")}
    assert tell(backplane, "help beat") == [{"command": "beat", "arguments": "(word: str = beat) -> int", "does": ""}]
    with pytest.raises(NotFound, match="no command 'baet'"):
        tell(backplane, "help baet")


def test_one_that_waits_holds_up_no_other() -> None:
    """`quiesce wait=True` may take an hour; `status` is what one wants to know meanwhile."""
    backplane = up(Index())
    nap = backplane.call("index.nap", seconds=5.0)
    backplane.run_until_idle()
    assert tell(backplane, "beat") == 1
    assert not nap.done()
    backplane.advance(5)
    assert nap.result() == "slept"


# -- operating ------------------------------------------------------------------------------------------------------------


def test_quiescing_finishes_what_is_posted_and_takes_nothing_new() -> None:
    """Sub-requests are part of what is posted. The answer tells when all has ended."""
    kernel = Index()
    backplane = up(kernel)
    posted = kernel.kernel.post(0, Splits)
    backplane.run_until_idle()
    waiting = backplane.call("index.quiesce", wait=True)
    backplane.run_until_idle()
    told = tell(backplane, "quiesce")
    assert (told["state"], told["executing"]) == ("quiescing", 2)
    with pytest.raises(FailedPrecondition, match="accepts no requests: it is quiesced"):
        kernel.kernel.post(1.0, Takes)
    assert not waiting.done()
    backplane.advance(3)
    assert waiting.result() == {
        "state": "quiesced", "held": False, "posting": 0, "ready": 0, "executing": 0, "rejoinable": 1,
    }  # fmt: skip
    assert posted.result == 2
    assert kernel.kernel.rejoin()[0] is Rejoin.RETURNED
    assert tell(backplane, "resume")["state"] == "open"
    assert kernel.kernel.post(1.0, Takes).id


def test_who_waits_for_the_end_is_told_when_the_kernel_resumes_instead() -> None:
    """Or he would wait for something that may never be."""
    kernel = Index()
    backplane = up(kernel)
    kernel.kernel.post(60.0, Takes)
    backplane.run_until_idle()
    waiting = backplane.call("index.quiesce", wait=True)
    backplane.run_until_idle()
    tell(backplane, "resume")
    assert isinstance(waiting.error(), FailedPrecondition)
    assert "has been resumed" in waiting.error().message
    late = backplane.call("index.stop", wait=True, timeout=5.0)
    backplane.advance(10)
    assert "deadline" in late.error().message
    assert tell(backplane, "status")["state"] == "stopping"  # what was ordered holds


def test_what_is_held_is_not_begun() -> None:
    """And what executes ends."""
    kernel = Index()
    backplane = up(kernel)
    posted = [kernel.kernel.post(1.0, Takes) for _ in range(3)]
    backplane.run_until_idle()
    assert tell(backplane, "hold") == {
        "state": "held", "held": True, "posting": 0, "ready": 1, "executing": 2, "rejoinable": 0,
    }  # fmt: skip
    posted.append(kernel.kernel.post(1.0, Takes))
    backplane.advance(5)
    assert [each.result for each in posted] == [1.0, 1.0, None, None]
    tell(backplane, "resume")
    backplane.advance(1)
    assert [each.result for each in posted] == [1.0] * 4


def test_stopping_finishes_what_is_posted_and_ends_the_workers() -> None:
    """They are none until it is resumed, whatever is changed meanwhile."""
    kernel = Index()
    backplane = up(kernel)
    posted = [kernel.kernel.post(1.0, Takes) for _ in range(5)]
    backplane.run_until_idle()
    assert tell(backplane, "stop")["state"] == "stopping"
    backplane.advance(3.5)
    assert [each.result for each in posted] == [1.0] * 5
    told = tell(backplane, "status")
    assert (told["state"], told["workers"], told["workers_max"], told["rejoinable"]) == ("stopped", [], 2, 5)
    tell(backplane, "workers 3")
    assert tell(backplane, "status")["workers"] == []
    tell(backplane, "resume")
    posted = [kernel.kernel.post(1.0, Takes) for _ in range(3)]
    backplane.advance(1)
    assert [each.result for each in posted] == [1.0] * 3


def test_stopping_now_begins_nothing_and_forgets_nothing() -> None:
    """What is ready stays so, in sight, and goes on."""
    kernel = Index()
    backplane = up(kernel)
    posted = [kernel.kernel.post(1.0, Takes) for _ in range(5)]
    backplane.run_until_idle()
    told = backplane.call("index.stop", now=True, wait=True)
    backplane.advance(10)
    assert told.result() == {
        "state": "stopped", "held": True, "posting": 0, "ready": 3, "executing": 0, "rejoinable": 2,
    }  # fmt: skip
    told = tell(backplane, "status")
    assert (told["ready"], told["workers"]) == (3, [])
    assert told["oldest_ms"] >= 10_000
    tell(backplane, "resume")
    backplane.advance(2)
    assert [each.result for each in posted] == [1.0] * 5


def test_a_kernel_that_is_quiesced_at_rest_is_so_at_once() -> None:
    """No time has to pass."""
    backplane = up(Index())
    assert backplane.call("index.quiesce", wait=True).result()["state"] == "quiesced"
    assert backplane.call("index.stop", wait=True).result()["state"] == "stopped"


# -- in a kernel full of work -----------------------------------------------------------------------------------------------


class Crowded(RequestKernel):
    component_name = "index"
    runnables = (Takes,)
    max_requests = 2

    @operation()
    async def index(self) -> None:
        """Posts, as users do."""
        await pause(60)


def test_commands_come_through_where_the_component_is_full() -> None:
    """DESIGN 12.3: a kernel that cannot be told to stop because it has too much to do."""
    backplane = up(Crowded())
    calls = [backplane.call("index.index") for _ in range(3)]
    backplane.run_until_idle()
    assert isinstance(calls[2].error(), Busy)
    assert tell(backplane, "workers 3")["workers"] == 3
    assert backplane.call("index.workers", count=2).result()["workers"] == 2


def test_of_commands_there_are_only_so_many() -> None:
    """Everything has a bound."""
    backplane = up(Index())
    naps = [backplane.call("index.nap", seconds=1.0) for _ in range(OUTSTANDING_MAX + 1)]
    backplane.run_until_idle()
    assert isinstance(naps[-1].error(), Busy)
    assert backplane.call("index.resume").result()["state"] == "open"  # who waits keeps nobody from operating
    backplane.advance(OUTSTANDING_MAX)
    assert tell(backplane, "beat") == 1


# -- names ------------------------------------------------------------------------------------------------------------------


class Own(RequestKernel):
    component_name = "index"
    runnables = (Takes,)

    @operation()
    def status(self) -> str:
        return "the user's"


def test_an_operation_of_the_users_keeps_its_name() -> None:
    """The command is a line still."""
    backplane = up(Own())
    assert backplane.call("index.status").result() == "the user's"
    assert tell(backplane, "status")["state"] == "open"


def test_an_operation_that_takes_the_way_in_is_refused() -> None:
    """Nobody could tell the kernel anything any more."""

    class Taken(RequestKernel):
        runnables = (Takes,)

        @operation()
        def command(self) -> None: ...

    class Without(Taken):
        commands = None

    with pytest.raises(DeclarationError, match=r"'command' is the route by which its commands come.*commands = None"):
        up(Taken())
    up(Without())


def test_commands_that_are_no_handler_are_refused() -> None:
    """When the kernel is set up."""

    class Wrong(RequestKernel):
        runnables = (Takes,)
        commands = Takes  # type: ignore[assignment]

    class Needy(CommandHandler):
        def __init__(self, name: str) -> None: ...

    class Needing(RequestKernel):
        runnables = (Takes,)
        commands = Needy

    with pytest.raises(DeclarationError, match=r"Wrong.commands: expected a subclass of CommandHandler, or None"):
        up(Wrong())
    with pytest.raises(DeclarationError, match=r"the constructor of .*Needy failed: TypeError"):
        up(Needing())


# -- by the clock -----------------------------------------------------------------------------------------------------------


def test_by_interval(caplog: pytest.LogCaptureFixture) -> None:
    """From the class, and from the policy; each run is logged with its result."""

    class Beating(Mine):
        @command(every=2)
        def tick(self) -> str:
            self.beats.append("tick")
            return "ticked"

    class Kernel(Index):
        component_name = "index"
        commands = Beating

    kernel = Kernel(KernelPolicy(schedule={"every 5s": ["beat five", "workers 3"], "every 4 s": "fail"}))
    backplane = up(kernel)
    with caplog.at_level(logging.INFO, "appbackplane.runtime"):
        backplane.advance(10)
    handler = backplane.backplane.engine.registry.by_key("index", "commands")
    assert isinstance(handler, Beating)
    assert sorted(handler.beats) == ["five"] * 2 + ["tick"] * 5
    assert kernel.policy.workers == 3
    said = caplog.messages
    assert said.count("index: tick (every 2s): ticked") == 5
    assert said.count("index: fail (every 4 s) failed: of its own") == 2
    assert tell(backplane, "status")["schedule"][0] == ["every 2s", "tick"]


def test_at_times_of_day() -> None:
    """The machine's local time, found twice a second."""
    kernel = Index(KernelPolicy(workers=2, schedule={"22:00": "workers 4", "06:00": ["workers 2", "beat"]}))
    backplane = VirtualBackplane(kernel)
    clock = backplane.clock
    clock.unix_ahead_ns = round(datetime(2033, 5, 16, 21, 59, 58).timestamp() * 1e9) - clock.now_ns()
    backplane.advance(1)
    assert kernel.policy.workers == 2
    backplane.advance(2)
    assert kernel.policy.workers == 4
    clock.unix_ahead_ns += 12 * 3600 * 10**9  # it is put forward, past 06:00
    backplane.advance(1)
    assert kernel.policy.workers == 2
    assert tell(backplane, "beat") == 2


def test_one_that_has_not_ended_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A command that takes longer than its interval must not fill the queue."""
    backplane = up(Index(KernelPolicy(schedule={"every 1s": "nap 3"})))
    with caplog.at_level(logging.INFO, "appbackplane.runtime"):
        backplane.advance(10.5)
    assert len([line for line in caplog.messages if "nap 3" in line]) == 2


def test_a_schedule_may_change_while_it_runs() -> None:
    """The old one is no more."""
    kernel = Index(KernelPolicy(schedule={"every 1s": "beat old"}))
    backplane = up(kernel)
    backplane.advance(2)
    tell(backplane, 'settings schedule=\'{"every 2s": "beat new"}\'')
    backplane.advance(4)
    handler: Any = backplane.backplane.engine.registry.by_key("index", "commands")
    assert handler.beats == ["old", "old", "new", "new"]
    tell(backplane, "settings schedule={}")
    backplane.advance(9)
    assert len(handler.beats) == 4


def test_it_ends_with_the_kernel() -> None:
    """What is down does nothing by itself; up again, it does."""
    backplane = up(Index(KernelPolicy(schedule={"every 1s": "beat"})))
    handler: Any = backplane.backplane.engine.registry.by_key("index", "commands")
    backplane.advance(2)
    backplane.move("down")
    backplane.advance(5)
    assert len(handler.beats) == 2
    backplane.move("initializing")
    backplane.move("primary")
    backplane.advance(3)
    assert len(handler.beats) == 5


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ({"25:00": "beat"}, "schedule: '25:00': there is no such time of day"),
        ({"22:00": "baet"}, "schedule: index has no command 'baet' .did you mean 'beat'"),
        ({"22:00": "workers many"}, "schedule: index.workers: argument 'count'"),
    ],
)
def test_a_wrong_schedule_is_found_before_anything_starts(schedule: dict[str, str | list[str]], says: str) -> None:
    """Not at ten in the evening."""
    with pytest.raises((ValueError, InvalidArgument), match=says):
        up(Index(KernelPolicy(schedule=schedule)))


# -- two at a time ----------------------------------------------------------------------------------------------------------


def test_changes_at_the_same_time_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimiser changes the number of workers just while an operator changes the pools."""
    kernel = Index()
    up(kernel)
    checked: Callable[..., KernelPolicy] = KernelPolicy.changed
    was_interrupted = False

    def interrupted(policy: KernelPolicy, **settings: Any) -> KernelPolicy:
        nonlocal was_interrupted
        if not was_interrupted:
            was_interrupted = True
            kernel.change(workers=5)
        return checked(policy, **settings)

    monkeypatch.setattr(KernelPolicy, "changed", interrupted)
    kernel.change(ready=7)
    assert (kernel.policy.workers, kernel.policy.ready) == (5, 7)


class Strange:
    """An owner that cannot be named."""

    def __repr__(self) -> str:
        raise RuntimeError("no name")


def test_an_owner_that_nobody_rejoins_for_is_dropped_and_others_go_on() -> None:
    """Its requests filled the rejoin pool: every post of anybody waited for room, and only a restart made some."""
    kernel = Index(KernelPolicy(workers=2, rejoin=3))
    backplane = up(kernel)
    kernel.kernel.post_all([0.0] * 3, Takes, owner="gone away")
    kernel.kernel.post_all([0.0] * 2, Takes, owner=("a", 1))
    backplane.run_until_idle()
    with pytest.raises(Busy, match=r"the rejoin pool is full: 5 requests have ended .*, 3 of them of 'gone away'"):
        kernel.kernel.post(0.0, Takes, wait=False)
    assert tell(backplane, "owners") == [
        {"owner": "gone away", "not_ended": 0, "ended": 3},
        {"owner": "('a', 1)", "not_ended": 0, "ended": 2},
    ]
    assert tell(backplane, "disown 'gone away'") == [{"owner": "gone away", "not_ended": 0, "ended": 3}]
    posted = [kernel.kernel.post(number, Takes, owner=7, wait=False) for number in (0.0, 9.0, 9.0, 9.0)]
    backplane.run_until_idle()
    assert tell(backplane, "disown 7") == [{"owner": "7", "not_ended": 3, "ended": 1}]
    assert [each.state.value for each in posted] == ["done", "executing", "executing", "failed"]
    assert tell(backplane, """disown "('a', 1)" """)[0]["ended"] == 2
    backplane.advance(10.0)
    assert (tell(backplane, "owners"), kernel.figures().owners) == ([], 0)


def test_an_owner_may_have_any_name_or_none() -> None:
    """A long one is cut where it is shown, and found by either."""
    kernel = Index()
    backplane = up(kernel)
    for owner in ("x" * 300, "y" * 300, Strange()):
        kernel.kernel.post(9.0, Takes, owner=owner)
    names = [row["owner"] for row in tell(backplane, "owners")]
    assert names[2] == "a Strange" and max(map(len, names)) < 150
    for name in (names[0], "y" * 300, "'a Strange'"):
        assert len(tell(backplane, f"disown {name}" if "'" in name else f"disown {name!r}")) == 1
    with pytest.raises(NotFound, match=r"index has no requests of 'main'; `owners` lists those that it has"):
        tell(backplane, "disown main")
