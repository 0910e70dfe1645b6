"""Protected sources: locked from before their message is resolved until its last handler has returned (the paper's Test #3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import (
    ActiveObject,
    DataProtector,
    Dispatcher,
    Handle,
    Message,
    RegistrationError,
    SelectiveProtector,
    message,
)
from appbackplane.runtime.dispatcher.sources import Source
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import FailedPrecondition, Unavailable
from tests.waiting import LIMIT_S


@message(category=963, id=1)
class Shoot(Message):
    pass


@message(category=963, id=2)
class Taken(Message):
    number: int


class Film(Handle):
    """A picture that is developed only when its turn has come."""

    def __init__(self, camera: Camera) -> None:
        super().__init__(Taken.__message__, lock=camera._lock)
        self.camera = camera

    def resolve(self) -> Message | None:
        self.camera.trace.append("resolve")
        self.camera.developed += 1
        return Taken(self.camera.developed)

    def release(self) -> None:
        self.camera.trace.append("release")


class Camera(Source):
    """Not safe for threads: it is protected data."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.developed = 0

    def shoot(self) -> None:
        self.emit(Taken(7))

    def expose_film(self) -> None:
        assert self._dispatcher is not None
        self._dispatcher.dispatch(Film(self))

    def begin_emitting(self) -> None:
        self.trace.append("begin")

    def end_emitting(self) -> None:
        self.trace.append("end")


class Album:
    def __init__(self) -> None:
        self.numbers: list[int] = []


def shoot(message: Shoot, camera: Camera) -> None:
    camera.shoot()


def shoot_film(message: Shoot, camera: Camera) -> None:
    camera.expose_film()


def keep(message: Taken, album: Album) -> None:
    album.numbers.append(message.number)


def look(message: Taken, camera: Camera) -> None:
    camera.trace.append(f"look {message.number}")


class Studio(Dispatcher):
    def __init__(self) -> None:
        self.camera, self.album = Camera(), Album()

    def setup(self) -> None:
        album = DataProtector(self.album)
        camera = DataProtector(self.camera)  # constructed last, and yet it comes first
        self.register(shoot, camera)
        self.register(shoot_film, camera)
        self.register(keep, album)
        self.register(look, camera)


def test_a_protected_source_emits_and_follows_the_states() -> None:
    """It is attached by being registered; its hooks are its own, and none of the component's."""
    studio = Studio()
    backplane = VirtualBackplane(studio)
    backplane.call("studio.shoot").result()
    assert studio.album.numbers == [7, 1]
    assert studio.camera.trace == ["begin", "look 7", "resolve", "look 1", "release"]
    backplane.move("down")
    assert studio.camera.trace[-1] == "end"
    with pytest.raises(Unavailable):
        studio.camera.shoot()


def test_it_stays_locked_from_handler_to_handler() -> None:
    """Its lock ranks before all other data, so nothing makes the delivery let it go between two handlers."""
    studio = Studio()
    backplane = VirtualBackplane(studio)
    backplane.run_until_idle()
    _ = backplane.backplane
    seen: list[list[str]] = []
    [taken_keep, taken_look] = [each for each in studio.entries if each.spec.type is Taken]
    for entry in (taken_keep, taken_look):
        inner = entry.handler

        def watched(*given: Any, inner: Callable[..., Any] = inner) -> None:
            from appbackplane.runtime.execution.workers.current import current

            delivery: Any = current.action
            seen.append([claim.lock.name for claim in delivery.held])
            inner(*given)

        entry.handler = watched
    studio.camera.shoot()
    backplane.run_until_idle()
    assert seen == [["Camera", "Album"], ["Camera"]]


class Slow(Source):
    def fire(self, count: int) -> None:
        for number in range(count):
            self.emit(Taken(number))


PICTURES = 200


class Gate(ActiveObject):
    """Counts how many are inside at once; safe for threads by itself."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = self.inside_max = self.count = 0
        self.done = threading.Event()

    def pass_through(self, together: threading.Barrier | None) -> None:
        with self.lock:
            self.inside += 1
            self.inside_max = max(self.inside_max, self.inside)
        if together is not None:
            together.wait(LIMIT_S)
        with self.lock:
            self.inside -= 1
            self.count += 1
            if self.count == PICTURES:
                self.done.set()


@pytest.mark.parametrize("is_locked", [True, False])
def test_messages_of_a_locked_source_are_handled_one_at_a_time(
    running: Callable[..., Backplane], wait: Any, is_locked: bool
) -> None:
    """The paper's Test #3: it makes the dispatcher a reactor. Unlocked, four threads have to be in the handler at once."""
    gate, source = Gate(), Slow()
    together = None if is_locked else threading.Barrier(4)

    def handle(message: Taken) -> None:
        gate.pass_through(together)

    class Reacting(Dispatcher):
        def setup(self) -> None:
            self.register(handle)
            self.attach(DataProtector(source) if is_locked else source)

    reacting = Reacting()
    backplane = running(reacting, threads=4)
    with backplane.engine.lead:
        for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
            backplane.engine.lifecycle.move("reacting", state, lambda error: None)
    source.fire(PICTURES)
    wait.until(gate.done, "all pictures")
    assert gate.inside_max == (1 if is_locked else 4)


def test_many_sources_under_one_protector() -> None:
    """Each has a lock of its own."""

    class Many(Dispatcher):
        def setup(self) -> None:
            self.cameras = {"a": Camera(), "b": Camera()}
            protector = self.attach(SelectiveProtector(self.cameras))
            assert isinstance(protector, SelectiveProtector)
            self.register(keep, DataProtector(Album()))

    many = Many()
    backplane = VirtualBackplane(many)
    backplane.run_until_idle()
    _ = backplane.backplane
    for camera in many.cameras.values():
        camera.shoot()
    assert backplane.run_until_idle() == ["taken", "taken"]
    assert many.cameras["a"]._lock is not many.cameras["b"]._lock


def test_what_is_no_source_is_not_attached() -> None:
    """Each mistake says what it is."""
    studio = Studio()
    with pytest.raises(DeclarationError, match="Album has no source in it"):
        studio.attach(DataProtector(Album()))
    with pytest.raises(DeclarationError, match="int is neither"):
        studio.attach(3)  # type: ignore[type-var]
    camera = studio.attach(Camera())
    assert studio.attach(camera) is camera, "twice is once"
    with pytest.raises(FailedPrecondition, match="already: attach it once, either as protected data or not"):
        studio.attach(DataProtector(camera))
    with pytest.raises(FailedPrecondition, match=r"attached to .* already"):
        Studio().attach(camera)


class Forgetful(Dispatcher):
    def setup(self) -> None:
        self.camera = DataProtector(Camera())


def test_a_forgotten_source_is_noticed() -> None:
    """It would collect, as in a test, what it is to emit, and nobody would ever hear of it."""
    with pytest.raises(RegistrationError, match=r"Forgetful.camera is a source that is not attached.*self.attach"):
        VirtualBackplane(Forgetful()).run_until_idle()


class Broken(Source):
    def begin_emitting(self) -> None:
        raise OSError("no such device")

    def end_emitting(self) -> None:
        raise OSError("still no such device")


def test_a_source_that_does_not_start_keeps_its_component_from_serving() -> None:
    """Or it would be called primary, and never hear a thing. Those that had started are stopped."""

    class Blind(Dispatcher):
        def setup(self) -> None:
            self.camera = self.attach(Camera())
            self.attach(Broken())

    blind = Blind()
    backplane = VirtualBackplane(blind, role=None)
    backplane.move("initializing")
    with pytest.raises(OSError, match="no such device"):
        backplane.move("primary")
    assert blind.state is ModuleState.INITIALIZING
    assert blind.camera.trace == ["begin", "end"]
