"""Shards in one backplane under a virtual clock; the test plays the other one, `outside`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.dispatcher import (
    Accessor,
    DataProtector,
    Dispatcher,
    Handle,
    Message,
    RegistrationError,
    SelectiveAccessor,
    SelectiveProtector,
    message,
)
from appbackplane.runtime.dispatcher.registrations import Registrations
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CALL, Envelope
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    FailedPrecondition,
    InvalidArgument,
    PeerDown,
    Unavailable,
)
from appbackplane.transport.resolver import home

PLACES = ("outside", "virtual")
#: Two cameras that are at home here, and two that are not.
HERE, HERE_TOO = itertools.islice((n for n in itertools.count() if home(PLACES, str(n)) == "virtual"), 2)
AWAY, AWAY_TOO = itertools.islice((n for n in itertools.count() if home(PLACES, str(n)) == "outside"), 2)


@message(category=970, id=1, key="camera", topic="frames")
class Frame(Message):
    camera: int | None
    number: int = 0


@message(category=970, id=2)
class Tick(Message):
    """Has no key."""


@message(category=970, id=3, key="camera")
class Compare(Message):
    camera: int
    other: int


class Camera:
    def __init__(self, number: int) -> None:
        self.number = number
        self.seen: list[int] = []


class Load:
    def __init__(self) -> None:
        self.count = 0


def on_frame(frame: Frame, camera: Camera, load: Load) -> list[int]:
    """What that camera has seen."""
    load.count += 1
    camera.seen.append(frame.number)
    return camera.seen


def on_tick(tick: Tick, load: Load) -> int:
    return load.count


def on_compare(compare: Compare, camera: Camera, cameras: SelectiveAccessor[int, Camera]) -> int:
    with cameras.lock(compare.other) as other:
        return len(camera.seen) - len(other.seen)


class Cameras(Dispatcher):
    sharded = True
    max_requests = 3
    max_posted = 2

    def setup(self) -> None:
        #: For the tests.
        self.made: list[int] = []
        cameras = SelectiveProtector(self.make)
        load = DataProtector(Load(), per_shard=True)
        self.register(on_frame, cameras, load)
        self.register(on_tick, load)
        self.register(on_compare, cameras, cameras.accessor)

    def make(self, number: int | None) -> Camera:
        assert number is not None
        self.made.append(number)
        return Camera(number)


@pytest.fixture
def cameras() -> Cameras:
    """The dispatcher of this shard."""
    return Cameras()


@pytest.fixture
def shard(cameras: Cameras) -> VirtualBackplane:
    """One of two."""
    return VirtualBackplane(cameras, outside=("cameras.frame", "cameras.compare"))


# -- where messages are handled --------------------------------------------------------------------------------------------


def test_what_is_at_home_here_is_handled_here(cameras: Cameras, shard: VirtualBackplane) -> None:
    """By key, or without; nothing leaves. A detour for each message would cost more than the work of most."""
    assert shard.call("cameras.frame", key=str(HERE), camera=HERE, number=1).result() == [1]
    assert shard.call("cameras.frame", camera=HERE, number=2).result() == [1, 2]
    assert shard.outside_calls() == []
    assert cameras.home_of(Frame(HERE)) == "virtual"
    assert cameras.home_of(Frame(AWAY)) == "outside"
    assert cameras.home_of(Tick()) is None


def test_what_comes_elsewhere_is_forwarded_and_its_caller_gets_the_answer(
    cameras: Cameras, shard: VirtualBackplane
) -> None:
    """With its key, so that it goes no further. The datum is not made here: it would be a second one."""
    call = shard.call("cameras.frame", camera=AWAY, number=7)
    shard.run_until_idle()
    (forwarded,) = shard.outside_calls("cameras.frame")
    assert forwarded.arguments == {"camera": AWAY, "number": 7}
    assert forwarded.envelope.key == str(AWAY)
    forwarded.reply([5, 6, 7])
    assert call.result() == [5, 6, 7]
    assert cameras.made == []


def test_priority_deadline_trace_and_chain_are_kept(shard: VirtualBackplane) -> None:
    """Whoever is urgent, in a hurry, traced, or in a chain of calls is so in the other shard, too."""
    shard.call("cameras.frame", priority=1, timeout=90, camera=AWAY)  # more than a call has by default
    due_ns = shard.clock.now_ns() + 90_000_000_000
    shard.run_until_idle()
    (forwarded,) = shard.outside_calls()
    assert forwarded.envelope.priority == 1
    assert forwarded.envelope.deadline == -due_ns
    chain = forwarded.envelope.chain
    assert chain is not None
    assert [link[1] for link in chain] == ["cameras.frame.forward"]
    # One that says so itself.
    body = {"camera": AWAY_TOO, "number": 2}
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    shard.hear(Envelope(CALL, 2_000, None, "cameras.frame", None, None, trace, body, [["desk/desk", "desk.look"]]))
    shard.run_until_idle()
    _, second = shard.outside_calls()
    assert second.envelope.trace == trace
    assert second.envelope.chain is not None
    assert [link[1] for link in second.envelope.chain] == ["desk.look", "cameras.frame.forward"]


@pytest.mark.parametrize(
    "error", [InvalidArgument("no such camera"), FailedPrecondition("it is off"), PeerDown("gone")]
)
def test_an_error_comes_back_as_it_is(shard: VirtualBackplane, error: BackplaneError) -> None:
    """Translated, as that of an operation's own call, it would look like this shard's fault."""
    call = shard.call("cameras.frame", camera=AWAY)
    shard.run_until_idle()
    shard.outside_calls()[0].fail(error)
    told = call.error()
    assert (type(told), told.message) == (type(error), error.message)


def test_when_its_home_dies_the_caller_gets_peer_down(shard: VirtualBackplane) -> None:
    """It may have been handled or not, as with any call to a process that died; nothing is handled here instead."""
    call = shard.call("cameras.frame", camera=AWAY)
    shard.run_until_idle()
    shard.kill_outside()
    assert isinstance(call.error(), PeerDown)
    later = shard.call("cameras.frame", camera=AWAY, timeout=0.2)
    shard.run_until_idle()
    shard.advance(0.2)
    assert "down now" in str(later.error()) or "deadline" in str(later.error())
    assert shard.call("cameras.frame", camera=HERE).result() == [0], "those at home here are as they were"


def test_a_caller_that_takes_its_call_back_takes_it_back_there(shard: VirtualBackplane) -> None:
    """Or the other shard would work for nobody."""
    call = shard.call("cameras.frame", camera=AWAY)
    shard.run_until_idle()
    call.cancel()
    assert isinstance(call.error(), Cancelled)
    shard.run_until_idle()
    assert shard.outside_calls()[0].is_cancelled


def test_messages_of_one_key_are_forwarded_in_their_order(shard: VirtualBackplane) -> None:
    """Law 1. Sent side by side they could overtake each other on the way; other keys do not wait for them."""
    for number in (1, 2):
        shard.cast("cameras.frame", camera=AWAY, number=number)
    shard.cast("cameras.frame", camera=AWAY_TOO, number=3)
    shard.run_until_idle()
    assert [each.arguments["number"] for each in shard.outside_calls()] == [1, 3]
    shard.outside_calls()[0].reply()
    shard.run_until_idle()
    assert [each.arguments["number"] for each in shard.outside_calls()] == [1, 3, 2]


def test_what_waits_for_another_shard_is_bounded(cameras: Cameras, shard: VirtualBackplane) -> None:
    """Law 9. It counts as outstanding here until it has ended there; else a slow shard would fill the memory of the others."""
    calls = [shard.call("cameras.frame", camera=AWAY, number=n) for n in range(3)]
    refused = [shard.call("cameras.tick") for _ in range(20)]
    shard.run_until_idle()
    assert all(isinstance(call.error(), Busy) for call in refused)
    for number in range(3):
        shard.run_until_idle()
        shard.outside_calls()[number].reply([number])
    assert [call.result() for call in calls[:3]] == [[0], [1], [2]]
    assert shard.call("cameras.frame", camera=HERE).result() == [0]
    assert len(cameras.objects) <= 8, "what was refused has left nothing"


def test_a_local_dispatch_comes_home_too(cameras: Cameras, shard: VirtualBackplane, caplog: Any) -> None:
    """A source does not know where its data are. Nobody waits for it, so what becomes of it is reported."""
    _ = shard.backplane
    cameras.dispatch(Frame(HERE, 1))
    cameras.dispatch(Frame(AWAY, 2), priority=2)
    assert shard.run_until_idle() == ["forward", "frame"]
    (forwarded,) = shard.outside_calls()
    assert (forwarded.arguments["number"], forwarded.envelope.priority) == (2, 2)
    forwarded.fail(FailedPrecondition("it is off"))
    shard.run_until_idle()
    assert "it is off" in caplog.text
    assert shard.call("cameras.frame", camera=HERE).result() == [1, 0]


def test_a_dispatch_that_is_refused_leaves_nothing_behind(cameras: Cameras, shard: VirtualBackplane) -> None:
    """A source that is told to slow down tries again and again."""
    _ = shard.backplane
    cameras.dispatch(Frame(AWAY))
    cameras.dispatch(Frame(HERE))
    for one in [Frame(AWAY_TOO), Frame(HERE), Tick()] * 10:
        with pytest.raises(Busy):
            cameras.dispatch(one)
    assert len(cameras.objects) <= 4


class Taken(Handle):
    """A message that is made when it is needed."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(Frame.__message__)
        self.frame, self.is_released = frame, False

    def resolve(self) -> Message:
        return self.frame

    def release(self) -> None:
        self.is_released = True


def test_a_handle_that_resolves_to_another_shards_message_is_passed_on(
    cameras: Cameras, shard: VirtualBackplane
) -> None:
    """Its key is known only then. A timer that was set before its key moved fires here, and is handled there."""
    _ = shard.backplane
    here, away = Taken(Frame(HERE, 1)), Taken(Frame(AWAY, 2))
    cameras.dispatch(here)
    cameras.dispatch(away)
    shard.run_until_idle()
    assert here.is_released and away.is_released
    assert [each.arguments["number"] for each in shard.outside_calls()] == [2]
    assert cameras.made == [HERE]


def test_of_a_topic_each_shard_handles_its_own(cameras: Cameras, shard: VirtualBackplane) -> None:
    """All of them hear it: forwarded, it would be handled once for each."""
    for camera in (HERE, AWAY, HERE_TOO, AWAY_TOO):
        shard.publish("frames", camera=camera, number=1)
    shard.run_until_idle()
    assert shard.outside_calls() == []
    assert sorted(cameras.made) == sorted([HERE, HERE_TOO])


def test_what_has_no_key_is_handled_where_it_comes(shard: VirtualBackplane) -> None:
    """With what this shard has of its own."""
    shard.call("cameras.frame", camera=HERE).result()
    assert shard.call("cameras.tick").result() == 1


def test_a_key_that_is_not_the_messages_is_refused(shard: VirtualBackplane) -> None:
    """It would be handled in one shard, or the other, by what was meant to save a detour."""
    told = shard.call("cameras.frame", key=str(AWAY), camera=HERE).error()
    assert isinstance(told, InvalidArgument)
    assert f"key='{AWAY}', but its camera is '{HERE}'" in str(told)
    told = shard.call("cameras.frame", camera=None).error()
    assert isinstance(told, InvalidArgument)
    assert "camera is None" in str(told)


def test_what_was_forwarded_here_by_mistake_goes_back_and_not_in_circles(shard: VirtualBackplane) -> None:
    """Two shards may know two directories for a moment: each would send it to the other, for ever."""
    shard.call("cameras.frame", camera=AWAY)
    shard.run_until_idle()
    wandering = shard.outside_calls()[0].envelope
    error = shard.hear_call(wandering, b"the other shard").error()
    assert isinstance(error, Unavailable)
    assert error.is_refused, "so that it is asked again"
    assert len(shard.outside_calls()) == 1


def test_an_accessor_reaches_what_is_at_home_here_and_names_the_home_of_the_rest(
    cameras: Cameras, shard: VirtualBackplane
) -> None:
    """A datum of that key made here would be a second one, and nobody would notice."""
    shard.call("cameras.frame", camera=HERE).result()
    assert shard.call("cameras.compare", camera=HERE, other=HERE_TOO).result() == 1
    told = shard.call("cameras.compare", camera=HERE, other=AWAY).error()
    assert isinstance(told, FailedPrecondition)
    assert f"{AWAY} is at home in outside, not in virtual" in str(told)
    assert AWAY not in cameras.made


def test_data_whose_keys_have_moved_are_let_go_of(cameras: Cameras) -> None:
    """When its key comes back, what this shard had of it then is old: it begins anew."""
    shard = VirtualBackplane(cameras, outside=("cameras.frame",))
    alone = VirtualBackplane._tell_of_outside
    shard._outside = ()
    _ = shard.backplane
    assert shard.call("cameras.frame", camera=AWAY, number=1).result() == [1], "it is the only one yet"
    assert shard.call("cameras.frame", camera=HERE, number=2).result() == [2]
    shard._outside = ("cameras.frame",)
    alone(shard, is_up=True)
    assert shard.call("cameras.frame", camera=HERE, number=3).result() == [2, 3]
    shard._outside = ()
    alone(shard, is_up=True)
    assert shard.call("cameras.frame", camera=AWAY, number=4).result() == [4]


def test_without_replicas_a_sharded_dispatcher_is_simply_local(cameras: Cameras) -> None:
    """The same code, in a test or on a small machine."""
    shard = VirtualBackplane(cameras)
    assert shard.call("cameras.frame", camera=HERE).result() == [0]
    assert shard.call("cameras.frame", camera=AWAY).result() == [0]
    assert shard.call("cameras.compare", camera=HERE, other=AWAY).result() == 0


# -- what makes no sense in shards -----------------------------------------------------------------------------------------


def tick_of_camera(tick: Tick, camera: Camera) -> None: ...
def tick_near_cameras(tick: Tick, cameras: SelectiveAccessor[int, Camera]) -> None: ...
def frame_and_load(frame: Frame, load: Load) -> None: ...
def frame_near_load(frame: Frame, load: Accessor[Load]) -> None: ...
def frame_of_camera(frame: Frame, camera: Camera) -> None: ...
def compared(compare: Compare, camera: Camera, other: Camera) -> None: ...


def tick_changes(tick: Tick, registrations: Registrations) -> None: ...


def of_a_function(compare: Compare) -> int:
    return compare.other


@message(category=970, id=90, key="camera", internal=True)
class Lost(Message):
    camera: int


def on_lost(lost: Lost) -> None: ...


REFUSED: dict[str, tuple[Callable[[Dispatcher], object], str]] = {
    "a key, and no route by which it would be found": (
        lambda to: to.register(on_lost),
        "on_lost: Lost is internal and has a key: it finds its shard by its route, and has none; leave one of them out",
    ),
    "a message without a key": (
        lambda to: to.register(tick_of_camera, SelectiveProtector(Camera, by=lambda tick: 1)),
        "tick_of_camera: parameter 'camera': Tick has no key, which would say in which shard its Camera is: declare @message(",
    ),
    "a message without a key, near the data": (
        lambda to: to.register(tick_near_cameras, SelectiveProtector(Camera).accessor),
        "tick_near_cameras: parameter 'cameras': Tick has no key",
    ),
    "one datum": (
        lambda to: to.register(frame_and_load, DataProtector(Load())),
        "frame_and_load: parameter 'load': each shard would have a Load of its own: say that this is meant, "
        "DataProtector(…, per_shard=True)",
    ),
    "one datum within reach": (
        lambda to: to.register(frame_near_load, DataProtector(Load()).accessor),
        "frame_near_load: parameter 'load': each shard would have a Load of its own",
    ),
    "all data there are": (
        lambda to: to.register(frame_of_camera, SelectiveProtector({1: Camera(1)})),
        "frame_of_camera: parameter 'camera': all data of Camera would be in every shard: give SelectiveProtector a function",
    ),
    "chosen by another field": (
        lambda to: to.register(compared, both := SelectiveProtector(Camera), both.by("other")),
        "compared: parameter 'other': Camera is chosen by 'other', but a Compare goes to the shard of its key, 'camera'",
    ),
    "always chosen by another field": (
        lambda to: to.register(compared, SelectiveProtector(Camera), SelectiveProtector(Camera, by="other")),
        "compared: parameter 'other': Camera is chosen by 'other'",
    ),
    "chosen by a function": (
        lambda to: to.register(compared, both := SelectiveProtector(Camera), both.by(of_a_function)),
        "compared: parameter 'other': Camera is chosen by a function",
    ),
    "always chosen by a function": (
        lambda to: to.register(compared, SelectiveProtector(Camera, by=of_a_function), SelectiveProtector(Camera)),
        "compared: parameter 'camera': Camera is chosen by a function",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_in_shards_is_refused_at_registration(case: str) -> None:
    """Each would work in one process, and lose or double data in two."""
    register, says = REFUSED[case]

    class Sharded(Dispatcher):
        sharded = True

    class Local(Dispatcher): ...

    register(Local())
    with pytest.raises(RegistrationError) as caught:
        register(Sharded())
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_declared_one_per_shard_is_accepted_however_it_is_chosen() -> None:
    """Who says so means it: a cache, a counter."""

    class Sharded(Dispatcher):
        sharded = True

    to = Sharded()
    to.register(tick_of_camera, SelectiveProtector(Camera, by=lambda tick: 1, per_shard=True))
    to.register(frame_and_load, DataProtector(Load(), per_shard=True))
    to.register(tick_changes, to.registrations)
    own = SelectiveProtector({1: Camera(1)}, per_shard=True)
    to.register(compared, SelectiveProtector(Camera), own.by("other"))
