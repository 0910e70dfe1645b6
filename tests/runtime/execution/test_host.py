"""Host: what objects ask of their backplane while they run."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import (
    AppObject,
    BackplaneError,
    Component,
    DeclarationError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    operation,
)
from appbackplane.runtime.execution.services.monitors import Monitors
from appbackplane.runtime.execution.services.node_services import EngineNodeServices
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import codec
from appbackplane.transport.batching import PEER_BYTES_MAX
from appbackplane.transport.envelope import REPLY, STATUS, Envelope
from appbackplane.transport.errors import Busy


class Member(AppObject):
    """Does small things."""

    def __init__(self, name: str = "nobody") -> None:
        self.given = name
        self.seen: list[str] = []

    @operation()
    def remind(self, seconds: float, text: str) -> None:
        self.after(seconds, self.note, text)

    def note(self, text: str) -> None:
        self.seen.append(text)

    @operation()
    async def wait(self) -> str:
        return str(await self.call("oracle.answer"))

    @operation()
    def who(self) -> str:
        return self.given

    @operation()
    def forget(self) -> None:
        handle = self.after(1.0, self.note, "never")
        assert handle.cancel()
        assert not handle.cancel()

    @operation()
    def misuse(self) -> None:
        self.after(1.0, print, "x")

    @operation()
    async def reach(self, how: str, to: Any) -> object:
        if how == "call":
            return await self.call(to)
        return {"cast": self.cast, "publish": self.publish}[how](to)

    @operation()
    def resign(self, who: str) -> None:
        component = self._component
        assert component is not None
        component.remove(next(o for o in component.objects if o.key == who))


class Stranger(AppObject):
    """Brings a route nobody has been told of."""

    @operation()
    def surprise(self) -> None: ...


class Club(Component):
    """Starts with one member."""

    declares = (Member,)

    def setup(self) -> None:
        self.add(Member("ada"), key="ada")


@pytest.fixture
def club() -> VirtualBackplane:
    return VirtualBackplane(Club(), outside=("oracle.answer",))


def _object(club: VirtualBackplane, key: str = "ada") -> Member:
    found = club.backplane.engine.registry.by_key("club", key)
    assert isinstance(found, Member)
    return found


def test_after_runs_a_method_later(club: VirtualBackplane) -> None:
    """Law 8. A one-shot timer is work of its object."""
    club.call("club.remind", seconds=2.0, text="tea").result()
    club.advance(1.9)
    assert _object(club).seen == []
    assert club.advance(0.2) == ["note"]
    assert _object(club).seen == ["tea"]


def test_a_timer_can_be_taken_back(club: VirtualBackplane) -> None:
    """And then leaves no trace."""
    club.call("club.forget").result()
    club.advance(5.0)
    assert _object(club).seen == []


def test_after_takes_methods_of_the_object_itself(club: VirtualBackplane) -> None:
    """Anything else would run as work of an object that does not own it (law 1)."""
    assert "runs methods of virtual/club.ada itself" in club.call("club.misuse").error().message


def test_objects_are_added_and_removed_while_running(club: VirtualBackplane) -> None:
    """Issue: the backplane's own operations stand on reserved routes."""
    name = club.call(
        "backplane.virtual.add_object", component="club", kind="Member", object_key="bob", settings={"name": "bob"}
    ).result()
    assert name == "virtual/club.bob"
    assert club.call("club.who", key="bob").result() == "bob"
    club.call("backplane.virtual.remove_object", component="club", object_key="bob").result()
    assert isinstance(club.call("club.who", key="bob").error(), NotFound)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"component": "club", "kind": "Membr"}, NotFound, "no class 'Membr': one of Member"),
        ({"component": "clubs", "kind": "Member"}, NotFound, "no component 'clubs' here: name one of club"),
        ({"component": "club", "kind": "Member", "settings": {"nam": "x"}}, InvalidArgument, "unknown argument 'nam'"),
        (
            {"component": "club", "kind": "Member", "object_key": "ada"},
            InvalidArgument,
            "already has an object with key 'ada'",
        ),
    ],
)
def test_adding_wrongly_is_explained(
    club: VirtualBackplane, arguments: dict[str, object], kind: type, words: str
) -> None:
    """One clear error that names the thing."""
    error = club.call("backplane.virtual.add_object", **arguments).error()
    assert isinstance(error, kind)
    assert words in error.message


def test_an_object_in_the_wait_queue_cannot_be_removed(club: VirtualBackplane) -> None:
    """Law 6. The reply would find nobody."""
    call = club.call("club.wait", key="ada")
    club.run_until_idle()
    error = club.call("backplane.virtual.remove_object", component="club", object_key="ada").error()
    assert isinstance(error, FailedPrecondition)
    assert "awaits a reply" in error.message
    club.outside_calls()[0].reply("now")
    assert call.result() == "now"
    club.call("backplane.virtual.remove_object", component="club", object_key="ada").result()


def test_an_object_with_work_cannot_be_removed(club: VirtualBackplane) -> None:
    """Its queued work would be lost; an object that removes itself is running."""
    assert isinstance(club.call("club.resign", who="ada").error(), FailedPrecondition)


def test_routes_are_known_before_anything_runs(club: VirtualBackplane) -> None:
    """Law 12. An object of a class that brings a new route is refused once the backplane runs."""
    component = club.backplane.engine.registry.components["club"]
    with pytest.raises(
        DeclarationError, match=r"new route club\.surprise after start: list the class in Club\.declares"
    ):
        component.add(Stranger())
    assert component.objects == (_object(club),)


def test_limits_and_quotas_change_while_running(club: VirtualBackplane) -> None:
    """Operators change them without a restart, and are told when a value makes no sense."""
    assert club.call("backplane.virtual.quotas").result() == [0, 100, 50, 25, 12, 12, 12, 12]
    assert club.call("backplane.virtual.quotas", quotas=[0, 7]).result() == [0, 7, 7, 7, 7, 7, 7, 7]
    assert "-1 is below 0" in club.call("backplane.virtual.quotas", quotas=[-1]).error().message
    limits = club.call("backplane.virtual.limits", component="club", max_requests=5, cpu_limit=30).result()
    assert limits == {"cpu_limit": 30, "max_requests": {"club": 5}, "max_posted": {"club": 100_000}}
    assert "-1" in club.call("backplane.virtual.limits", cpu_limit=-1).error().message
    assert "no component 'x'" in club.call("backplane.virtual.limits", component="x", max_requests=5).error().message


@pytest.mark.parametrize("how", ["call", "cast", "publish"])
def test_what_is_no_route_is_refused_in_the_line_that_says_it(how: str) -> None:
    """Compiled or not, in words of ours; a topic of another type was heard by nobody, and nobody was told."""
    backplane = VirtualBackplane()
    backplane.add(Member())
    call = backplane.call("bench.reach", how=how, to=5)
    backplane.run_until_idle()
    with pytest.raises(BackplaneError, match=r"(a route is a string|a topic is words).*, got 5"):
        call.result()


def test_the_virtual_client_is_as_strict_as_the_real_one() -> None:
    """A test in which a wrong call is swallowed says nothing of the program."""
    backplane = VirtualBackplane()
    backplane.add(Member())
    for say in (backplane.call, backplane.cast, backplane.publish):
        with pytest.raises(InvalidArgument, match="a route is a string"):
            say(5)  # type: ignore[operator]
    with pytest.raises(InvalidArgument, match="key must be a string"):
        backplane.call("bench.who", key=5)  # type: ignore[arg-type]


def test_only_an_action_can_be_posted() -> None:
    """What has no queue to be in would be found by whoever looks for its name."""
    backplane = VirtualBackplane()
    member = backplane.add(Member())
    backplane.run_until_idle()
    with pytest.raises(TypeError, match=r"post\(\) takes an Action: got 5"):
        member._component.post(5)


def test_an_answer_from_elsewhere_that_does_not_fit_is_told_to_its_caller() -> None:
    """What another node has answered, for a client of this system that does not read: it learns that it was too much."""
    club = VirtualBackplane(Club())
    _ = club.backplane
    club.link.full.add(b"slow")
    large = codec.Encoder().encode(Envelope(REPLY, 1, body=bytes(PEER_BYTES_MAX // 4)))
    host = EngineNodeServices(club.backplane.engine, Monitors(club.backplane.engine))
    host.send([(b"slow", id, large) for id in range(1, 7)])
    club.link.full.clear()
    club.backplane.engine.flush(club.clock.now_ns() + 1_000_000_000)
    ends = [end for to, frame in club.link.sent if to == b"slow" for end in codec.decode(frame)]
    assert [end.kind for end in ends] == [REPLY] * 3 + [STATUS] * 3
    assert [(end.id, end.route, end.body[0]) for end in ends[3:]] == [(id, None, Busy.status) for id in (4, 5, 6)]
    assert club.backplane.statistics()["links"]["undelivered"] == 3
