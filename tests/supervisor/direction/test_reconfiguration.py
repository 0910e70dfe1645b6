"""From one configuration to another: what changes, how each key takes effect, and what cannot be done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.process_config import LiveSettings
from appbackplane.supervisor.configuration.config import BackplaneConfig, Config, Duration, RestartPolicy, SystemConfig
from appbackplane.supervisor.configuration.log_settings import LogSettings, Size
from appbackplane.supervisor.direction.reconfiguration import (
    BACKPLANE_KEYS,
    LOG_KEYS,
    SYSTEM_KEYS,
    Plan,
    Takes,
    needed,
    plain,
    plan,
    shown,
)
from appbackplane.supervisor.processes.spawn import process_config
from appbackplane.transport.directory import ComponentEntry, Registration

NAMES = ("first", "second", "third")
durations = st.integers(1, 10**10).map(Duration)
policies = st.builds(RestartPolicy, max=st.integers(0, 5), type=st.sampled_from(["permanent", "temporary"]))
settings = st.dictionaries(
    st.sampled_from(["Index", "Query"]),
    st.dictionaries(st.sampled_from(["path", "size"]), st.integers(0, 2) | st.lists(st.integers(0, 2)), max_size=2),
    max_size=2,
)
backplanes = st.builds(
    BackplaneConfig,
    components=st.sampled_from([("demo:Index",), ("demo:Query",), ("demo:Index", "demo:Query")]),
    threads=st.integers(1, 3),
    priorities=st.integers(7, 9),
    quotas=st.lists(st.integers(0, 2), max_size=2).map(tuple),
    order=st.sampled_from(["fifo", "deadline"]),
    tick_ns=durations,
    cpu_limit=st.none() | st.integers(1, 2),
    cpu_exempt=st.integers(0, 1),
    max_latency_ns=st.none() | durations,
    slow_action_ns=durations,
    affinity=st.sampled_from([(), (0,)]),
    preempt=st.booleans(),
    restart=policies,
    start_limit_ns=st.none() | durations,
    stop_limit_ns=st.none() | durations,
    settings=settings,
)
logs = st.builds(
    LogSettings,
    level=st.sampled_from(["INFO", "DEBUG"]),
    files=st.integers(1, 2),
    ring=st.sampled_from([Size(1 << 20)]),
)
systems = st.builds(
    SystemConfig,
    name=st.just("demo"),
    role=st.sampled_from(["primary", "secondary"]),
    start_limit_ns=durations,
    restart=policies,
    log=logs,
    nice=st.sampled_from([(), (0, 5)]),
)


def config(system: SystemConfig | None = None, **backplane: BackplaneConfig) -> Config:
    """Of a system `demo`."""
    return Config("demo.toml", system or SystemConfig("demo"), backplane, "/demo", "/demo/run")


configs = st.builds(
    lambda system, found: config(system, **found),
    systems,
    st.dictionaries(st.sampled_from(NAMES), backplanes, min_size=1),
)


def one(**words: Any) -> BackplaneConfig:
    """A backplane with one component."""
    return BackplaneConfig(**{"components": ("demo:Index",), **words})


# A plan leads from one to the other


def done(steps: Plan, old: Config, new: Config) -> Config:
    """What the plan makes of `old`: those that are new it takes from `new`."""
    found = {name: share for name, share in old.backplane.items() if name not in steps.removed}
    found |= {name: new.backplane[name] for name in steps.added}
    system = old.system
    for change in steps.changes:
        if change.backplane is None:
            system = changed(system, change.key.split("."), change.new)
        else:
            found[change.backplane] = changed(found[change.backplane], change.key.split("."), change.new)
    return msgspec.structs.replace(old, system=system, backplane=found)


def changed(value: Any, path: list[str], new: Any) -> Any:
    """With another value at this place."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        if not rest and new is None:
            return {name: found for name, found in value.items() if name != key}
        return {**value, key: changed(value.get(key), rest, new)}
    (name,) = [field.name for field in msgspec.structs.fields(value) if field.encode_name == key]
    return msgspec.structs.replace(value, **{name: changed(getattr(value, name), rest, new)})


@given(configs, configs)
def test_a_plan_leads_from_one_to_the_other(old: Config, new: Config) -> None:
    """Nothing that differs is left out, and nothing else is touched; or what runs is not what was asked for."""
    assert done(plan(old, new), old, new) == new


@given(configs)
def test_the_same_needs_nothing(same: Config) -> None:
    """Who reloads what he has disturbs nobody."""
    assert not plan(same, same)


@given(configs, configs)
def test_restarted_is_who_must_be_and_nobody_else(old: Config, new: Config) -> None:
    """A restart costs its callers something: only for a key that needs it."""
    steps = plan(old, new)
    named = {change.backplane for change in steps.changes if change.takes is Takes.RESTART}
    assert set(steps.restarted) == named - {None}
    for name in set(old.backplane) & set(new.backplane):
        share, other = process_config(old, name), process_config(new, name)
        of_life = dict.fromkeys(LiveSettings.__struct_fields__, 0)
        same_for_life = {**msgspec.structs.asdict(share), **of_life} == {**msgspec.structs.asdict(other), **of_life}
        if name not in steps.restarted and not steps.problems():
            assert same_for_life, "what a process is told at birth, and cannot be told later, has not changed"


# Every key has its place


@pytest.mark.parametrize(
    ("kind", "keys"), [(SystemConfig, SYSTEM_KEYS), (LogSettings, LOG_KEYS), (BackplaneConfig, BACKPLANE_KEYS)]
)
def test_every_key_is_in_one_class(kind: type[msgspec.Struct], keys: dict[str, Takes]) -> None:
    """A new key of the TOML that nobody has thought of would be changed in the file, and nowhere else."""
    known = {field.encode_name for field in msgspec.structs.fields(kind)} - {"log"}
    assert set(keys) == known


def test_what_a_backplane_can_be_told_is_what_the_table_says() -> None:
    """The table promises, `LiveSettings` keeps it: a key in one of them only is a promise broken or never made."""
    told = {
        field.encode_name
        for field in msgspec.structs.fields(BackplaneConfig)
        if field.name in LiveSettings.__struct_fields__
    }
    assert told == {key for key, takes in BACKPLANE_KEYS.items() if takes is Takes.BACKPLANE}
    assert set(LiveSettings.__struct_fields__) - {field.name for field in msgspec.structs.fields(BackplaneConfig)} == {
        "log_level"
    }, "of [system], where `level` is the one key of that class"
    assert [key for key, takes in {**SYSTEM_KEYS, **LOG_KEYS}.items() if takes is Takes.BACKPLANE] == ["level"]


# What is said


def test_every_difference_is_named_as_in_the_file() -> None:
    """Who reads the plan finds the line that he has changed."""
    old = config(index=one(settings={"Index": {"path": "a", "size": 1}}), query=one())
    new = config(
        SystemConfig("demo", restart=RestartPolicy(max=7), log=LogSettings(level="DEBUG")),
        index=one(settings={"Index": {"path": "b", "size": 1}}, tick_ns=Duration(5_000_000)),
        extra=one(),
    )
    steps = plan(old, new)
    assert [(change.name, shown(change.old), shown(change.new), change.takes.value) for change in steps.changes] == [
        ("system.restart.max", "5", "7", "supervisor"),
        ("system.log.level", '"INFO"', '"DEBUG"', "backplane"),
        ("backplane.index.tick", '"1s"', '"5ms"', "backplane"),
        ("backplane.index.settings.Index.path", '"a"', '"b"', "restart"),
    ]
    assert (steps.restarted, steps.added, steps.removed) == (("index",), ("extra",), ("query",))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(Duration(90 * 10**9), "90s"), (Duration(120 * 10**9), "2m"), (Duration(1_500), "1500ns"), (Size(1 << 20), "1MiB"),
     ((0, 7), [0, 7]), (None, None), ({"a": (1,)}, {"a": [1]})],
)  # fmt: skip
def test_values_are_shown_as_they_are_written(value: Any, expected: Any) -> None:
    """Nanoseconds are what nobody has typed."""
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (SystemConfig("other"), "system.name: \"demo\" cannot become \"other\" while the system runs"),
        (SystemConfig("demo", nice=(0, 5)), "system.nice: [] cannot become [0, 5] while the system runs"),
        (SystemConfig("demo", metrics="127.0.0.1:0"), "system.metrics: none cannot become"),
        (SystemConfig("demo", log=LogSettings(dir="logs")), "system.log.dir: none cannot become"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(new: SystemConfig, said: str) -> None:
    """And what to do instead; nothing else of the plan is done either."""
    (problem,) = plan(config(index=one()), config(new, index=one(threads=2))).problems()
    assert problem.startswith(said)
    assert problem.endswith("take it down, and up again")


def test_another_folder_is_another_system() -> None:
    """Components are imported from beside the TOML: those that run were imported from elsewhere."""
    old = config(index=one())
    (problem,) = plan(old, msgspec.structs.replace(old, import_dir="/elsewhere")).problems()
    assert problem.startswith('system.import_dir: "/demo" cannot become "/elsewhere"')


def test_a_ring_of_another_size_is_a_matter_of_every_process() -> None:
    """It is inherited at birth."""
    new = config(SystemConfig("demo", log=LogSettings(ring=Size(1 << 21))), index=one(), query=one())
    assert plan(config(index=one(), query=one()), new).restarted == ("index", "query")


# Who is needed stays


def registration(backplane: str, component: str, *depends_on: str) -> Registration:
    """Of one component."""
    return Registration(backplane, 1, 1, "", (ComponentEntry(component, depends_on),))


def test_who_is_needed_is_not_removed() -> None:
    """Those that stay as they are would wait for it for ever."""
    running = config(index=one(), query=one(), till=one())
    found = [registration("index", "a"), registration("query", "b", "a"), registration("till", "c", "b")]
    without = msgspec.structs.replace(running, backplane={"query": one(), "till": one()})
    assert needed(plan(running, without), found) == ["backplane.index: cannot be removed: query depends on it"]
    both = msgspec.structs.replace(running, backplane={"till": one()})
    assert needed(plan(running, both), found) == ["backplane.query: cannot be removed: till depends on it"]
    assert needed(plan(running, config(index=one(), query=one())), found) == []


def test_a_replica_is_not_needed_while_another_one_stays() -> None:
    """Fewer of them serve the same; the last one is needed."""
    running = config(**{"web-1": one(), "web-2": one(), "till": one()})
    found = [registration("web-1", "a"), registration("web-2", "a"), registration("till", "b", "a")]
    fewer = msgspec.structs.replace(running, backplane={"web-1": one(), "till": one()})
    assert needed(plan(running, fewer), found) == []
    none = msgspec.structs.replace(running, backplane={"till": one()})
    assert needed(plan(running, none), found) == [
        "backplane.web-1: cannot be removed: till depends on it",
        "backplane.web-2: cannot be removed: till depends on it",
    ]


def test_who_starts_again_may_have_let_go() -> None:
    """What its components need now is known when they have been constructed: `reload` does that before."""
    found = [registration("index", "a"), registration("query", "b", "a")]
    steps = plan(config(index=one(), query=one()), config(query=one(components=("demo:Other",))))
    assert needed(steps, found) == []
