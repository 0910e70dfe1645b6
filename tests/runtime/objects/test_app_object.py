"""AppObject, Action and Component: what users subclass, before any backplane is there."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.objects.component import Component
from appbackplane.runtime.objects.endpoint import Endpoint, Request
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.objects.operation import DeclarationError, every, operation, subscribe
from appbackplane.runtime.objects.state_machine import StateMachine
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Cancelled


class Forgetful(AppObject):
    def __init__(self, size: int) -> None:  # does not call super().__init__()
        self.size = size


class HTTPGateway(Component):
    def __init__(self) -> None:
        pass


def test_a_subclass_need_not_call_the_constructor_of_its_base() -> None:
    """Users forget; an AttributeError in the scheduler would take the whole backplane along."""
    assert Forgetful(3)._load == 0
    gateway = HTTPGateway()
    assert (gateway.state, gateway.objects) == (ModuleState.START, ())
    gateway.add(Forgetful(1))
    assert HTTPGateway().objects == (), "components do not share their objects"


def test_an_object_itself_owns_no_dictionary() -> None:
    """A dictionary beside 100,000 objects would cost more than the objects."""
    assert not hasattr(AppObject(), "__dict__")
    assert not hasattr(Action(AppObject(), "work", 0), "__dict__")


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (HTTPGateway, "http_gateway"),
        (type("Query", (Component,), {}), "query"),
        (type("IndexV2", (Component,), {}), "index_v2"),
        (type("Named", (Component,), {"component_name": "other"}), "other"),
    ],
)
def test_a_component_is_named_after_its_class(cls: type[Component], name: str) -> None:
    """Section 9: class Query is "query". The name is the first word of its routes; nobody wants to guess it."""
    assert cls.component_name == name


def test_a_subclass_has_a_name_of_its_own() -> None:
    """Inherited, the names of two components of one backplane would clash."""

    class Base(Component):
        component_name = "base"

    class Special(Base):
        pass

    assert Special.component_name == "special"


def test_a_setup_that_would_never_run_is_refused() -> None:
    """Nobody awaits it: the objects that it adds would just not be there."""
    says = r"Eager\.setup is a coroutine: write a plain def, and await in on_initializing or on_primary"
    with pytest.raises(DeclarationError, match=says):

        class Eager(Component):
            async def setup(self) -> None: ...  # type: ignore[override]


def test_an_object_is_in_one_component_only() -> None:
    """In two, it would be served by two throttles and removed from one."""
    first, second, object = HTTPGateway(), HTTPGateway(), AppObject()
    assert first.add(object, key="a") is object
    with pytest.raises(ValueError, match="already in"):
        second.add(object)
    assert (object.key, second.objects) == ("a", ())


def test_a_key_is_text() -> None:
    """On the wire it is; the number would be found by nobody."""
    gateway, number = HTTPGateway(), AppObject()
    wrong: Any = 1
    with pytest.raises(DeclarationError, match=r"HTTPGateway\.add: key=1: expected text, as key='1', got int"):
        gateway.add(number, key=wrong)
    assert gateway.objects == ()
    assert gateway.add(number, key="1").key == "1", "nothing is left of what was refused"


def test_a_delay_is_a_number() -> None:
    """True would be a second."""
    with pytest.raises(TypeError, match=r"after\(True\): expected a number of seconds"):
        AppObject().after(True, print)


def test_what_needs_a_backplane_says_so() -> None:
    """In a test or a constructor there is none yet; the error tells what to do."""
    HTTPGateway().add(added := Forgetful(1))
    for attempt in (
        lambda: added.publish("t"),
        lambda: added.after(1.0, print),
        lambda: AppObject().call("a.b"),
        lambda: AppObject().cast("a.b"),
        lambda: AppObject().publish("t"),
    ):
        says = r"has not been added to a component of a running backplane: do that in on_primary of its component"
        with pytest.raises(RuntimeError, match=says):
            attempt()
    for attempt in (
        lambda: HTTPGateway().post(Action(AppObject(), "work", 0)),
        lambda: HTTPGateway().publish("t"),
    ):
        with pytest.raises(RuntimeError, match=r"HTTPGateway is not running: do that in on_primary of its component"):
            attempt()


def test_what_is_no_object_is_not_added() -> None:
    """A forgotten pair of parentheses, or a forgotten base: said so, and not in words about slots."""
    wrong: Any = AppObject
    with pytest.raises(
        DeclarationError, match=r"HTTPGateway\.add: AppObject is a class: add an object of it, AppObject\(\)"
    ):
        HTTPGateway().add(wrong)
    wrong = object()
    with pytest.raises(DeclarationError, match=r"HTTPGateway\.add: object is not derived from AppObject"):
        HTTPGateway().add(wrong)


class Door(Enum):
    SHUT = "shut"


class Latch(StateMachine):
    initial = Door.SHUT


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Forgetful, "name"),
        (Forgetful, "key"),
        (HTTPGateway, "name"),
        (HTTPGateway, "state"),
        (HTTPGateway, "objects"),
        (HTTPGateway, "cluster_epoch"),
        (Latch, "state"),
    ],
)
def test_an_attribute_of_the_runtime_says_whose_it_is(owner: Any, name: str) -> None:
    """`self.name = name` is what everybody writes first."""
    made = owner(1) if owner is Forgetful else owner()
    says = f"{owner.__name__}.{name} = 'mine': '{name}' belongs to the runtime: choose another name"
    with pytest.raises(AttributeError, match=says):
        setattr(made, name, "mine")


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (AppObject, "call"),
        (AppObject, "name"),
        (AppObject, "_host"),
        (Component, "after"),
        (Latch, "publish"),
        (Latch, "become"),
    ],
)
@pytest.mark.parametrize("mark", [operation(), every(1.0), subscribe("t")])
def test_an_operation_takes_no_name_of_the_runtime(base: type, name: str, mark: Any) -> None:
    """The object's own `self.call` would be the operation from then on."""

    def method(self: Any) -> None: ...

    says = rf"Mine\.{name}: '{name}' belongs to the runtime: choose another name for the method .*@operation\(name='{name}'\)"
    with pytest.raises(DeclarationError, match=says):
        type("Mine", (base,), {name: mark(method)})


def test_a_route_and_a_hook_may_have_such_a_name() -> None:
    """A route is no attribute, and a hook is there to be replaced."""

    class Free(Component):
        @operation(name="call")
        def called(self) -> None: ...

        @operation()
        def on_primary(self) -> None: ...

    assert {spec.name for spec in Free.__operations__.values()} == {"call", "on_primary"}


def test_who_adds_no_objects_may_call_an_operation_add() -> None:
    """`counter.add` is what half of all first components have; with a `setup`, which would call it, it is refused."""

    class Counter(Component):
        @operation()
        def add(self, n: int) -> int:
            return n

    with pytest.raises(DeclarationError, match=r"Store\.add: 'add' belongs to the runtime"):

        class Store(Counter):
            def setup(self) -> None: ...

    assert VirtualBackplane(Counter()).call("counter.add", n=2).result() == 2


def test_subclasses_that_do_not_say_what_they_do_are_told_so() -> None:
    """Silence would look like work that has been done."""

    class Idle(Action):
        pass

    with pytest.raises(NotImplementedError, match=r"Idle has no run\(\): define it"):
        Idle(AppObject(), "idle", 0).run()
    with pytest.raises(NotImplementedError, match=r"define create_action\(\)"):
        Endpoint("raw", priority=1).create_action(Request("a.raw", None, {}, 1, None))


def test_an_action_of_ones_own_runs_and_can_be_refused() -> None:
    """Seed 002, "All operations are Actions": a foreign protocol becomes work by subclassing."""

    class Greet(Action):
        def run(self) -> Outcome:
            self.result = "hello"
            return Outcome.DONE

    action = Greet(AppObject(), "greet", 3)
    assert (action.run(), action.result, action.priority) == (Outcome.DONE, "hello", 3)
    error = Cancelled("taken back")
    action.refuse(error)
    assert action.error is error
