"""The things of the system: one for each backplane, with the figures of the last look. The test plays the supervisor."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime import FailedPrecondition, InvalidArgument, NotFound, UnknownRoute
from appbackplane.runtime.objects.platform import Platform
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things.system import SystemThings
from appbackplane.runtime.things.system.supervisor_client import SupervisorAnswer, SupervisorPort
from appbackplane.runtime.things.thing import NOTIFICATIONS
from appbackplane.transport.errors import BackplaneError, Unavailable

from .answers import board, entry, statistics, status


class PlayedSupervisor:
    """Answers at once; `answers`: by route, what to say to a body, or an error. What is not in it waits in `left`."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.left: list[SupervisorAnswer] = []
        self.is_open = False
        self.platform: Platform | None = None

    def start(self) -> None:
        self.is_open = True

    def stop(self, limit_s: float) -> None:
        self.is_open = False

    def ask(self, answer: SupervisorAnswer, body: dict[str, Any]) -> None:
        self.asked.append((answer.route, body))
        if answer.route not in self.answers:
            self.left.append(answer)
            return
        said = self.answers[answer.route](body)
        self.answer(answer, said)

    def answer(self, answer: SupervisorAnswer, said: Any) -> None:
        """End a question."""
        assert self.platform is not None
        if isinstance(said, BackplaneError):
            answer.error = said
        else:
            answer.value = said
        self.platform.set(answer.event)

    def says(self, *entries: dict[str, Any], uptime: float = 10.0) -> None:
        """What it says of the system from now on."""
        self.answers["supervisor.status"] = lambda _: status(*entries, uptime=uptime)


class PlayedSystem(SystemThings):
    """Its supervisor is played by the test."""

    component_name = "system"

    def __init__(self, supervisor: PlayedSupervisor, actions: bool = False) -> None:
        super().__init__(actions)
        self.played = supervisor

    def _connection(self) -> SupervisorPort:
        self.played.platform = self._platform
        return self.played


class Desk:
    """A backplane with the things, and the supervisor."""

    def __init__(self, *, actions: bool = False) -> None:
        self.supervisor = PlayedSupervisor()
        self.backplane = VirtualBackplane(PlayedSystem(self.supervisor, actions), name="desk", topics=(NOTIFICATIONS,))
        self.backplane.run_until_idle()

    def look(self, *entries: dict[str, Any], uptime: float = 10.0) -> list[tuple[str, str, Any]]:
        """Have it look once: (thing, name, data) of all that was published."""
        self.supervisor.says(*entries, uptime=uptime)
        return self.look_again()

    def look_again(self) -> list[tuple[str, str, Any]]:
        """The same, with the answers of before."""
        self.backplane.published.clear()
        self.ran = self.backplane.advance(1.0)
        return [(body["thing"].rpartition(":")[2], body["name"], body["data"]) for _, body in self.backplane.published]

    def read(self, name: str, key: str = "web") -> Any:
        """A property."""
        return self.backplane.call(f"system.{name}", key=key).result()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_each_backplane_is_a_thing(desk: Desk) -> None:
    """With all its figures, and by the names that the TOML has."""
    told = desk.look(entry(), entry("desk", pid=None, restarts=2))
    assert {thing for thing, _, _ in told} == {"web", "desk"}
    assert {name: data for thing, name, data in told if thing == "web"} == {
        "state": "up", "reason": "", "pid": 100, "restarts": 0, "cpu": 0.0, "memory": desk.read("memory"), "queued": 0,
        "running": 0,
    }  # fmt: skip
    assert desk.read("state") == "up" and desk.read("restarts", key="desk") == 2
    model = desk.backplane.call("system.describe", key="web").result()
    assert model["id"] == "urn:appbackplane:system:web" and model["title"] == "Backplane"
    assert set(model["properties"]) - {name for _, name, _ in told} == {"waiting_since", "waiting_for"}
    assert set(model["actions"]) == {"restart", "scale"} and set(model["events"]) == {"died", "started"}


def test_nothing_is_published_while_nothing_changes(desk: Desk) -> None:
    """Nor is anything done beside one question."""
    desk.look(entry())
    del desk.supervisor.asked[:]
    assert desk.look(entry(board=board(cpu=1.01)), uptime=11.0) == []
    assert desk.supervisor.asked == [("supervisor.status", {"statistics": False, "limit": 0.2})]
    assert set(desk.ran) == {"look"}
    assert desk.look(entry(board=board(cpu=1.51)), uptime=12.0) == [("web", "cpu", 50.0)]


def test_statistics_are_asked_for_while_something_runs_or_waits(desk: Desk) -> None:
    """They cost a message to each backplane."""
    desk.look(entry(board=board(queued=2)))
    assert desk.look(entry(statistics=statistics(running=3))) == [("web", "queued", 0), ("web", "running", 3)]
    desk.look_again()
    assert [body["statistics"] for _, body in desk.supervisor.asked] == [False, True, False]


def test_the_reason_of_a_long_wait_is_asked_for(desk: Desk) -> None:
    """Of the oldest call of a backplane, from the second second on; and it is gone with the call."""
    desk.supervisor.answers["supervisor.why"] = lambda body: {
        "steps": [{"asked": body["asked"], "route": "a.b", "reasons": [{"text": "it runs"}]}]
    }
    desk.look(entry(statistics=statistics(calls={"web:x:1": 900.0})))
    assert (desk.read("waiting_since"), desk.read("waiting_for")) == (0.9, "")
    desk.look(entry(statistics=statistics(calls={"web:x:1": 1_900.0})))
    assert (desk.read("waiting_since"), desk.read("waiting_for")) == (1.9, "a.b: it runs")
    assert desk.supervisor.asked[-1] == ("supervisor.why", {"asked": "web:x:1"})
    desk.look(entry(statistics=statistics()))
    assert (desk.read("waiting_since"), desk.read("waiting_for")) == (0.0, "")


def test_a_reason_that_is_not_known_is_said(desk: Desk) -> None:
    """The call has just ended, say."""
    desk.supervisor.answers["supervisor.why"] = lambda _: NotFound("no such call")
    desk.look(entry(statistics=statistics(calls={"web:x:1": 1_900.0})))
    assert desk.read("waiting_for") == "no such call"


def test_few_questions_are_asked_in_one_look(desk: Desk) -> None:
    """The oldest calls of the system; what was known of others before is old."""
    desk.supervisor.answers["supervisor.why"] = lambda body: {
        "steps": [{"asked": body["asked"], "reasons": [{"text": "r"}]}]
    }
    for ages in ((2, 3, 4, 5, 6, 7), (9, 8, 4, 5, 6, 7)):
        del desk.supervisor.asked[:]
        entries = [entry(f"b{n}", statistics=statistics(calls={f"c{n}": age * 1e3})) for n, age in enumerate(ages)]
        desk.look(*entries)
        asked = {body["asked"] for route, body in desk.supervisor.asked if route == "supervisor.why"}
        assert asked == {f"c{n}" for n, age in enumerate(ages) if age > 5 or (age > 3 and max(ages) == 7)}
        assert {n for n in range(6) if desk.read("waiting_for", key=f"b{n}")} == {int(each[1]) for each in asked}


def test_an_end_and_a_start_are_events(desk: Desk) -> None:
    """In their order, and none at the first look: everything has begun before."""
    first = desk.look(entry())
    assert not {"died", "started"} & {name for _, name, _ in first}
    told = desk.look(entry(pid=101, generation=2, restarts=1, deaths=1, reason="killed by signal 9"))
    assert [(name, data) for _, name, data in told] == [
        ("died", {"reason": "killed by signal 9", "pid": 100, "is_given_up": False, "count": 1}),
        ("started", {"pid": 101, "restarts": 1}),
        ("reason", "killed by signal 9"), ("pid", 101), ("restarts", 1),
    ]  # fmt: skip
    assert desk.look_again() == []


def test_things_come_and_go_with_their_backplanes(desk: Desk) -> None:
    """By a reload, or when replicas are added and removed. One that is called is removed later."""
    desk.look(entry())
    told = desk.look(entry(), entry("more"))
    assert ("more", "started", {"pid": 100, "restarts": 0}) in told and not [each for each in told if each[0] == "web"]
    desk.look(entry("more"))
    with pytest.raises(NotFound):
        desk.read("state")
    assert desk.read("state", key="more") == "up"
    desk.look(entry(), entry("more"))
    assert desk.read("state") == "up"


def test_one_that_is_in_use_is_removed_later() -> None:
    """The action is that of an object."""
    desk = Desk(actions=True)
    desk.look(entry())
    restart = desk.backplane.call("system.restart", key="web", timeout=600.0)
    desk.look()
    assert desk.read("state") == "up"
    desk.supervisor.answer(desk.supervisor.left[0], Unavailable("it has gone"))
    assert isinstance(restart.exception(), Unavailable)
    desk.look()
    with pytest.raises(NotFound):
        desk.read("state")


def test_actions_are_refused_unless_they_are_allowed(desk: Desk) -> None:
    """Whoever may call a thing could restart the system."""
    desk.look(entry())
    for verb, arguments in (("restart", {}), ("scale", {"threads": 2})):
        error = desk.backplane.call(f"system.{verb}", key="web", arguments=arguments).exception()
        assert isinstance(error, FailedPrecondition)
        words = "set actions = true in [backplane.desk.settings.PlayedSystem], or use appbackplane " + verb
        assert words in str(error)
    assert [route for route, _ in desk.supervisor.asked] == ["supervisor.status"]


def test_restart_and_scale_are_orders_to_the_supervisor() -> None:
    """A replica alone, or all of them; meanwhile the thing is read and told new figures."""
    desk = Desk(actions=True)
    replicas = [entry(f"web-{n}", replica_of="web") for n in (1, 2)]
    desk.look(*replicas)
    desk.supervisor.answers["supervisor.scale"] = lambda _: {"problems": [], "plan": {}}
    restart = desk.backplane.call("system.restart", key="web-1", timeout=600.0)
    desk.look(replicas[0] | {"state": "draining"}, replicas[1])
    assert desk.read("state", key="web-1") == "draining" and not restart.done()
    assert desk.supervisor.asked[-2] == (
        "supervisor.restart", {"backplanes": ["web-1"], "rolling": False, "timeout": 90.0},
    )  # fmt: skip
    desk.supervisor.answer(desk.supervisor.left[0], {"backplanes": {"web-1": 2}})
    assert restart.result() == [{"backplane": "web-1", "generation": 2}]
    desk.supervisor.answers["supervisor.restart"] = lambda _: {"backplanes": {"web-1": 3, "web-2": 2}}
    rolling = desk.backplane.call("system.restart", key="web-1", rolling=True)
    assert [(each["backplane"], each["generation"]) for each in rolling.result()] == [("web-1", 3), ("web-2", 2)]
    assert desk.supervisor.asked[-1][1]["backplanes"] == ["web"] and desk.supervisor.asked[-1][1]["rolling"]
    assert desk.backplane.call("system.scale", key="web-1", threads=2, replicas=3).result() is None
    assert desk.supervisor.asked[-1] == (
        "supervisor.scale", {"backplane": "web", "threads": 2, "replicas": 3, "timeout": 90.0},
    )  # fmt: skip
    desk.backplane.call("system.scale", key="web-1", threads=2).result()
    assert "replicas" not in desk.supervisor.asked[-1][1]


def test_what_the_supervisor_refuses_is_told() -> None:
    """In its own words."""
    desk = Desk(actions=True)
    desk.look(entry())
    desk.supervisor.answers["supervisor.restart"] = lambda _: FailedPrecondition(
        "cannot be constructed; nothing was restarted"
    )
    with pytest.raises(FailedPrecondition, match="nothing was restarted"):
        desk.backplane.call("system.restart", key="web").result()
    desk.supervisor.answers["supervisor.scale"] = lambda _: {"problems": ["web: not told in time", "b"]}
    with pytest.raises(FailedPrecondition, match="web: not told in time\nb"):
        desk.backplane.call("system.scale", key="web", replicas=2).result()
    with pytest.raises(InvalidArgument, match="threads"):
        desk.backplane.call("system.scale", key="web", threads=0).result()


def test_the_backplane_of_the_things_is_not_restarted_by_them() -> None:
    """Its end would wait for the end of the action that awaits it."""
    desk = Desk(actions=True)
    desk.supervisor.answers["supervisor.scale"] = lambda _: {"problems": []}
    desk.look(entry("desk", replica_of="all"), entry("other", replica_of="all"))
    for key, verb, arguments in (
        ("desk", "restart", {}), ("other", "restart", {"rolling": True}), ("other", "scale", {"replicas": 1}),
    ):  # fmt: skip
        call = desk.backplane.call(f"system.{verb}", key=key, arguments=arguments)
        with pytest.raises(
            FailedPrecondition, match=f"would wait for the end of this very action: appbackplane {verb}"
        ):
            call.result()
    desk.backplane.call("system.scale", key="desk", threads=2).result()


def test_a_supervisor_that_does_not_answer_is_logged_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The values stay, and the next answer counts."""
    caplog.set_level(logging.WARNING)
    desk.look(entry())
    desk.supervisor.answers["supervisor.status"] = lambda _: Unavailable("busy")
    for _ in range(5):
        assert desk.look_again() == []
    assert [record.message for record in caplog.records if "keep their values" in record.message] == [
        "the things of the system keep their values: supervisor.status: busy"
    ]
    del desk.supervisor.answers["supervisor.status"]
    desk.look_again()
    desk.supervisor.says(entry(state="draining"))
    desk.backplane.advance(6.0)
    assert desk.read("state") == "draining", "a question without an answer ends by itself"


def test_the_connection_ends_with_the_component(desk: Desk) -> None:
    """And is made anew when it comes up again."""
    desk.backplane.move("down")
    assert not desk.supervisor.is_open
    desk.backplane.move("initializing")
    assert desk.supervisor.is_open
    desk.backplane.move("primary")
    assert desk.look(entry())


def test_the_figures_cannot_be_set_from_outside(desk: Desk) -> None:
    """They are posted by the component, and are no operation."""
    desk.look(entry())
    with pytest.raises(UnknownRoute):
        desk.backplane.call("system.take", key="web").result()
