"""Registry: routes, topics and timers are known when the components are constructed (law 12)."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec
import pytest

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.objects.component import Component
from appbackplane.runtime.objects.endpoint import Endpoint
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.objects.operation import DeclarationError, every, operation, subscribe
from appbackplane.runtime.objects.registry import Registry


class Shard(AppObject):
    @operation(priority=1, calls=("index.stats",))
    def search(self, text: str) -> str:
        """Find text.

        In all files.
        """
        return text

    @operation(states=("initializing",))
    def load(self) -> None: ...

    @subscribe("files.changed")
    def on_change(self, path: str) -> None: ...

    @subscribe("system.*")
    def on_system(self) -> None: ...

    @every(0.5)
    def sample(self) -> None: ...


class Query(Component):
    depends_on = ("index",)

    @operation()
    def stats(self) -> dict[str, int]: ...


class Late(AppObject):
    @operation()
    def surprise(self) -> None: ...


def registry_of(*components: Component, priorities: int = 8) -> Registry:
    registry = Registry("bp", priorities)
    for component in components:
        registry.add_component(component)
    return registry


def query_with(*objects: AppObject, cls: type[Component] = Query) -> Component:
    query = cls()
    for number, object in enumerate(objects):
        query.add(object, key=f"shard-{number}")
    return query


def test_routes_lead_to_the_objects_that_implement_them() -> None:
    """Law 12. Everything known before anything runs; the component's own methods are operations like any other."""
    one, two = Shard(), Shard()
    query = query_with(one, two)
    registry = registry_of(query)
    assert set(registry.routes) == {"query.stats", "query.search", "query.load"}
    assert registry.routes["query.search"].objects == [one, two]
    assert registry.routes["query.stats"].objects == [query]
    assert registry.by_key("query", "shard-1") is two
    assert registry.by_key("query", "shard-2") is None
    assert registry.by_key("other", "shard-1") is None
    assert [query.name, one.name] == ["bp/query", "bp/query.shard-0"]


def test_objects_without_a_key_are_numbered() -> None:
    """Names stand in logs and in call cycles: two objects of one name would be one culprit."""
    query = Query()
    objects = [query.add(Shard()) for _ in range(3)]
    registry_of(query)
    assert len({object.name for object in objects}) == 3


def test_topics_are_known() -> None:
    """Law 12: the supervisor tells others what to send before the first message is there."""
    shard = Shard()
    query = query_with(shard)
    registry = registry_of(query)
    assert [(each.object, each.spec.attribute) for each in registry.hearers("files.changed")] == [(shard, "on_change")]
    assert [each.spec.attribute for each in registry.hearers("system.directory")] == ["on_system"]
    assert registry.hearers("files.other") == []


@pytest.mark.parametrize("state", ModuleState)
def test_a_route_is_registered_in_the_states_it_names(state: ModuleState) -> None:
    """Law 12. Components register and deregister by system state by themselves."""
    query = query_with(Shard())
    registry = registry_of(query)
    query._module_state = state
    assert registry.routes["query.search"].is_registered == (state in (ModuleState.PRIMARY, ModuleState.SECONDARY))
    assert registry.routes["query.load"].is_registered == (state is ModuleState.INITIALIZING)


def test_the_entry_says_what_the_directory_must_know() -> None:
    """Routes are resolved in the caller: what is not in the entry, nobody can use."""
    (entry,) = registry_of(query_with(Shard(), Shard())).entries()
    assert (entry.name, entry.depends_on, entry.objects_count) == ("query", ("index",), 2)
    assert entry.topics == ("files.changed", "system.*")
    search = next(each for each in entry.operations if each.route == "query.search")
    assert (search.priority, search.signature, search.summary) == (1, "(text: str) -> str", "Find text.")
    assert (search.states, search.calls, search.reentrant) == (("primary", "secondary"), ("index.stats",), False)


def test_no_new_routes_while_running() -> None:
    """Law 12. A route of which nobody has been told would be served to nobody; the error says what to write."""
    query = query_with(Shard())
    registry = registry_of(query)
    registry.is_static = True
    with pytest.raises(
        DeclarationError, match=r"Late brings a new route query.surprise.*list the class in Query.declares"
    ):
        registry.add_object(query, Late())
    another = Shard()
    registry.add_object(query, another)
    assert another in registry.routes["query.search"].objects
    assert "query.surprise" not in registry.routes


def test_declared_classes_are_routes_before_an_object_of_them_is_there() -> None:
    """Objects that come while running can be foreseen."""
    registry = registry_of(type("Wide", (Component,), {"declares": (Late,)})())
    registry.is_static = True
    wide = registry.components["wide"]
    assert registry.routes["wide.surprise"].objects == []
    late = Late()
    registry.add_object(wide, late)
    assert registry.routes["wide.surprise"].objects == [late]


def test_removing_an_object_leaves_nothing_behind() -> None:
    """A route that still leads to it would run work on something that is gone."""
    one, two = Shard(), Shard()
    query = query_with(one, two)
    registry = registry_of(query)
    one._component = query
    registry.remove_object(one)
    assert registry.routes["query.search"].objects == [two]
    assert registry.by_key("query", "shard-0") is None
    assert [each.object for each in registry.hearers("files.changed")] == [two]
    assert query.objects == (two,)
    again = Shard()
    again._key = "shard-0"
    registry.add_object(query, again)
    assert registry.by_key("query", "shard-0") is again


def test_what_is_refused_leaves_nothing_behind() -> None:
    """A failed `add` that keeps the key would make the repaired one fail too."""

    class Wrong(AppObject):
        @operation(priority=6)
        def search(self) -> None: ...

    query = query_with(Shard())
    registry = registry_of(query, priorities=5)
    registry.is_static = True
    wrong = Wrong()
    wrong._key = "mine"
    with pytest.raises(DeclarationError, match=r"priority 6, but the backplane has 0\.\.4"):
        registry.add_object(query, wrong)
    assert registry.by_key("query", "mine") is None
    assert wrong not in registry.routes["query.search"].objects


@pytest.mark.parametrize("priority", [-1, 5, "high", 1.0])
def test_what_an_object_lends_is_a_priority_of_this_backplane(priority: Any) -> None:
    """Found when it is added, and not by whatever compares it first."""
    shard = Shard()
    shard.lends = priority
    with pytest.raises(DeclarationError, match=r"Shard\.lends: priority .*, but the backplane has 0\.\.4"):
        registry_of(query_with(shard), priorities=5)


class Raw(Endpoint):
    pass


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: (Query(), Query()), "two components are named 'query'"),
        (lambda: (_keyed_twice(),), "already has an object with key 'k'"),
        (lambda: (_exposing("raw", "raw"),), r"two endpoints serve 'query\.raw'"),
        (lambda: (_exposing("stats"),), r"two endpoints serve 'query\.stats'"),
        (lambda: (_with(operation(priority=8)),), r"Odd\.odd: priority 8, but the backplane has 0\.\.7"),
        (lambda: (_with(operation(priority=-1)),), "priority -1"),
        (lambda: (_with(subscribe("t", priority=9)),), "priority 9"),
        (lambda: (_with(operation(digest="finder")),), "digest='finder' is no method of Query"),
        (lambda: (_with(operation(accepted_in=())),), "accepted_in is for a StateMachine"),
    ],
)
def test_contradictions_are_found_before_anything_runs(build: Any, says: str) -> None:
    """Law 12. At the first call it would be a stranger who finds out."""
    with pytest.raises(DeclarationError, match=says):
        registry_of(*build())


class Takes(AppObject):
    @operation()
    def find(self, text: str, limit: int = 20) -> str: ...


class TakesAlike(AppObject):
    @operation()
    def find(self, text: Any, *, limit: int = 5) -> list[str]: ...


class TakesLess(AppObject):
    @operation()
    def find(self, text: str) -> str: ...


class TakesOther(AppObject):
    @operation()
    def find(self, text: int, limit: int = 20) -> str: ...


class TakesFew(AppObject):
    @operation()
    def find(self, text: str, limit: Annotated[int, msgspec.Meta(le=10)] = 5) -> str: ...


@pytest.mark.parametrize("other", [TakesLess, TakesOther, TakesFew])
def test_a_route_has_one_signature(other: type[AppObject]) -> None:
    """A call goes to the least busy: it worked only every second time."""
    component = Query()
    component.add(Takes())
    component.add(other(), key="b")
    says = (
        rf"query\.find has two signatures: Takes takes \(text: str, limit: int = 20\) -> str, {other.__name__} \(text"
    )
    with pytest.raises(DeclarationError, match=says):
        registry_of(component)


def test_a_route_has_signatures_where_each_object_is_called_by_its_key() -> None:
    """Then it is known which of them takes the call; and what differs in no argument differs for no caller."""
    registry_of(query_with(Takes(), TakesLess(), TakesOther()))
    alike = Query()
    alike.add(Takes())
    alike.add(TakesAlike())
    registry_of(alike)


def _keyed_twice() -> Component:
    query = Query()
    for _ in range(2):
        query.add(Shard(), key="k")
    return query


def _exposing(*names: str) -> Component:
    query = Query()
    for name in names:
        query.expose(Raw(name, priority=1))
    return query


def _with(marker: Any) -> Component:
    def odd(self: AppObject) -> None: ...

    return query_with(type("Odd", (AppObject,), {"odd": marker(odd)})())


@dataclasses.dataclass
class Alike(AppObject):
    """Equal to all of its kind, and unhashable."""

    size: int = 0

    @operation()
    def grow(self) -> None: ...

    @subscribe("rain")
    def on_rain(self) -> None: ...


def test_objects_that_are_equal_are_not_the_same() -> None:
    """A dataclass. The second one never heard its topic, and whoever was removed, it was the first that went."""
    first, second, third = Alike(), Alike(), Alike()
    query = query_with(first, second, third)
    registry = registry_of(query)

    def who(objects: list[AppObject]) -> list[str]:
        return [object.name.rpartition("-")[2] for object in objects]

    def hearers() -> list[str]:
        return who([each.object for each in registry.hearers("rain")])

    assert hearers() == ["0", "1", "2"]
    registry.remove_object(second)
    assert hearers() == ["0", "2"]
    assert who(registry.routes["query.grow"].objects) == ["0", "2"]
    assert who(query._objects) == ["0", "2"]


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("driven_by", "itself", 'Odd.driven_by: expected "system" or "backplane", got \'itself\''),
        ("driven_by", None, 'Odd.driven_by: expected "system" or "backplane", got None'),
        ("depends_on", "index", "Odd.depends_on: expected names of components, as (\"index\",), got 'index'"),
        ("depends_on", (Shard,), "Odd.depends_on: expected names of components"),
        ("exported_topics", "files", "Odd.exported_topics: expected topics, as (\"prices.*\",), got 'files'"),
        ("declares", Shard, "Odd.declares: expected classes of objects, as (Shard,), got <class"),
        ("declares", ("Shard",), "Odd.declares: expected classes of objects, as (Shard,), got ('Shard',)"),
        ("exported_topics", ("*",), "Odd.exported_topics: subscribe to a topic such as 'files.changed'"),
    ],
)
def test_how_a_component_wants_to_be_moved_is_checked(attribute: str, value: object, said: str) -> None:
    """A forgotten comma makes five dependencies of "index", none of which there is."""
    odd = type("Odd", (Component,), {attribute: value})()
    with pytest.raises(DeclarationError) as raised:
        Registry("main", 8).add_component(odd)
    assert said in str(raised.value)


def test_a_list_will_do_for_a_tuple() -> None:
    """Interpreted or compiled: compiled code takes a list for no tuple, in words that name nothing."""
    given = {"depends_on": ["index"], "declares": [Late], "exported_topics": ["prices.*"]}
    wide = type("Wide", (Component,), given)()
    wide.expose(Raw("raw", priority=1, states=["primary"]))
    registry = registry_of(wide)
    (entry,) = registry.entries()
    assert (entry.depends_on, entry.exported_topics) == (("index",), ("prices.*",))
    assert {each.route: each.states for each in entry.operations}["wide.raw"] == ("primary",)
    assert "wide.surprise" in registry.routes


def test_who_drives_a_component_is_in_its_entry() -> None:
    """The supervisor has to know; by default it is the system."""
    registry = Registry("main", 8)
    registry.add_component(type("Plain", (Component,), {})())
    registry.add_component(type("Own", (Component,), {"driven_by": "backplane"})())
    assert {entry.name: entry.driven_by for entry in registry.entries()} == {"plain": "system", "own": "backplane"}


class Giving(AppObject):
    @operation(export=True)
    def both(self) -> None: ...

    @operation(export=True)
    def one(self) -> None: ...

    @subscribe("files.sent", export=True)
    def on_sent(self) -> None: ...

    @subscribe("files.kept")
    def on_kept(self) -> None: ...


class Keeping(AppObject):
    @operation(export=True)
    def both(self) -> None: ...

    @operation()
    def one(self) -> None: ...

    @subscribe("files.sent")
    def on_sent(self) -> None: ...


class Door(Endpoint):
    def create_action(self, request: Any) -> Any: ...


def test_what_other_nodes_may_use_is_in_the_registration() -> None:
    """A route leads to any of its objects, so that all have to agree; a topic is heard by those who say so."""
    query = query_with(Giving(), Keeping())
    query._endpoints = [
        Door("open", priority=1, topic="door.open", export=True),
        Door("shut", priority=1, topic="door.shut"),
    ]
    (entry,) = registry_of(query).entries()
    assert {one.route for one in entry.operations if one.export} == {"query.both", "query.open"}
    assert entry.exported_topics == ("door.open", "files.sent")
    assert entry.topics == ("door.open", "door.shut", "files.kept", "files.sent")


class Careful(AppObject):
    @operation(priority=6, calls=("index.read", "index.stats"), idempotent=True, reentrant=True)
    def search(self, text: str) -> str: ...


def test_a_route_is_described_by_all_classes_that_serve_it() -> None:
    """The class that was registered first spoke for all: a call that must not be repeated was retried."""
    registry = registry_of(query_with(Careful(), Shard()))
    found = {entry.route: entry for entry in registry.entries()[0].operations}["query.search"]
    assert (found.priority, found.idempotent, found.reentrant) == (1, False, False)
    assert found.calls == ("index.read", "index.stats")


class Early(AppObject):
    @operation(states=("initializing", "primary"))
    def search(self, text: str) -> str: ...


class Digested(AppObject):
    @operation(digest="whose")
    def search(self, text: str) -> str: ...


@pytest.mark.parametrize(
    ("other", "what"), [(Early, "states=('initializing', 'primary')"), (Digested, "digest='whose'")]
)
def test_a_route_is_served_in_the_same_states_by_all_classes(other: type[AppObject], what: str) -> None:
    """What is decided before a call has a target cannot be declared by the target's class."""
    with pytest.raises(DeclarationError) as caught:
        registry_of(query_with(Shard(), other()))
    assert f"{other.__name__} {what}" in str(caught.value)
    assert "query.search: Shard declares" in str(caught.value)
