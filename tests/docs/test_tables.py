"""The tables of the pages say what the code says: quotas, statuses, states, keys of the TOML, verbs, operations.

A default that has been changed in one place only is believed where it is read, which is on the page.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import msgspec
import pytest

from appbackplane.runtime.backplane_operations import BackplaneOperations
from appbackplane.runtime.execution.intake.idempotency_cache import NOT_NOW
from appbackplane.runtime.objects.module_state import MOVES, ModuleState
from appbackplane.runtime.objects.operation import PRIORITY_DEFAULT, operation
from appbackplane.runtime.objects.registry import DRIVERS
from appbackplane.runtime.observation.log_line import LogLine
from appbackplane.runtime.observation.statistics import OperationStatistics
from appbackplane.runtime.observation.waiting import Because
from appbackplane.runtime.permissions.permission_file import Permissions
from appbackplane.runtime.requests import CommandHandler, Context, KernelPolicy, Rejoin, Resource, State
from appbackplane.runtime.requests.executing.priority_mapping import backplane_priority
from appbackplane.runtime.requests.instrumentation.interval import IntervalRecord
from appbackplane.runtime.requests.ledger.lanes import shares
from appbackplane.runtime.requests.optimiser import OptimiserPolicy
from appbackplane.runtime.scheduling.quotas import UNLIMITED, default_quotas
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.supervisor.commands import main, peers
from appbackplane.supervisor.commands.cli import VERBS
from appbackplane.supervisor.configuration.cluster_settings import ClusterSettings
from appbackplane.supervisor.configuration.config import (
    AdmissionSettings,
    BackplaneConfig,
    Duration,
    ReplaySettings,
    RestartPolicy,
    SystemConfig,
)
from appbackplane.supervisor.configuration.log_settings import LogSettings, Size, in_words
from appbackplane.supervisor.configuration.node_settings import SEEDS_MAX, NodeSettings
from appbackplane.supervisor.configuration.reader import Patience
from appbackplane.supervisor.configuration.record_settings import RecordSettings, TopicSettings
from appbackplane.supervisor.direction.health import Health
from appbackplane.transport.errors import Status, error_from
from appbackplane.transport.peers.effects import PeerState as PeerState
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.retrying import RETRIED, is_retryable
from tests.docs.pages import DOCS, ROOT, table


def page(name: str) -> str:
    """A concept page."""
    return (DOCS / "concepts" / f"{name}.md").read_text()


def choices(kind: type[msgspec.Struct], key: str) -> list[str]:
    """What a key of the TOML may be, as the page quotes it."""
    (found,) = [field for field in msgspec.structs.fields(kind) if field.encode_name == key]
    return [quoted(choice) for choice in get_args(found.type)]


@pytest.mark.parametrize(
    ("heading", "key"),
    [
        ("Whether it is restarted", "type"),
        ("Which other backplanes restart", "strategy"),
        ("When it is given up", "on_give_up"),
    ],
)
def test_every_choice_of_a_restart(heading: str, key: str) -> None:
    """restarts.md; each with what it means."""
    assert [row[0] for row in table(page("restarts"), heading)] == choices(RestartPolicy, key)


def test_who_drives_a_component() -> None:
    """states.md."""
    text = page("states").replace("\n| `driven_by` |", "\n# drivers\n| `driven_by` |")
    assert [row[0] for row in table(text, "drivers")] == [quoted(driver) for driver in DRIVERS]


def test_default_quotas() -> None:
    """priorities_and_quotas.md; seed 002's rule, for the default eight."""
    quotas = default_quotas(BackplaneConfig(components=()).priorities)
    expected = [(str(n), "unlimited" if quota == UNLIMITED else str(quota)) for n, quota in enumerate(quotas)]
    assert table(page("priorities_and_quotas"), "Quotas") == expected


def test_statuses() -> None:
    """errors.md; all but OK, with what each is raised as."""
    expected = []
    for status in Status:
        if status is not Status.OK:
            kind = type(error_from(status, ""))
            expected.append((status.name, str(int(status)), kind.__name__, kind.__mro__[1].__name__))
    rows = table(page("errors"), "Errors")
    assert [row[:4] for row in rows] == expected
    assert {row[0] for row in rows if row[5] != "no"} == {status.name for status in RETRIED}


def test_what_is_made_again() -> None:
    """retries.md; and what is kept of a call with a key."""
    rows = table(page("retries"), "What is made again")
    assert {row[0] for row in rows[:-1]} == {status.name for status in RETRIED} and rows[-1][1:] == ("no", "no")
    for name, if_harmless, else_ in rows[:-1]:
        refused, begun = (error_from(int(Status[name]), "", 0.1, is_refused=is_refused) for is_refused in (True, False))
        assert is_retryable(begun, is_repeatable=True) == (if_harmless == "yes")
        assert not is_retryable(begun, is_repeatable=False)
        assert is_retryable(refused, is_repeatable=False) or else_.startswith("no")
    not_now = next(row[0] for row in table(page("retries"), "Done once") if row[1].startswith("the work done: "))
    assert {status.name for status in Status if status.name in not_now} == {status.name for status in NOT_NOW}


def test_healths() -> None:
    """health.md; from good to bad."""
    assert [row[0] for row in table(page("health"), "Health")] == [health.value for health in Health]


def test_moves_of_components() -> None:
    """states.md; the table of the module state machine."""
    rows = table(page("states"), "The state of a component")
    assert [row[0] for row in rows] == [state.value for state in ModuleState]
    assert {ModuleState(row[0]): {ModuleState(to) for to in row[1].split(", ")} for row in rows} == MOVES


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("[system]", SystemConfig),
        ("log", LogSettings),
        ("[backplane.NAME]", BackplaneConfig),
        ("restart", RestartPolicy),
        ("replay", ReplaySettings),
        ("admission", AdmissionSettings),
        ("[record]", RecordSettings),
        ("[topic.NAME]", TopicSettings),
        ("[node]", NodeSettings),
        ("[cluster]", ClusterSettings),
        ("Policy of a request kernel", KernelPolicy),
        ("optimiser", OptimiserPolicy),
    ],
)
def test_every_key_of_the_toml(heading: str, kind: type[msgspec.Struct]) -> None:
    """configuration.md; name, type and default of each, in the order of the code."""
    expected = [
        (field.encode_name, type_in_words(field.type, field.encode_name), default_in_words(field))
        for field in msgspec.structs.fields(kind)
    ]
    assert [row[:3] for row in table(page("configuration"), heading)] == expected


def test_how_many_peers() -> None:
    """configuration.md."""
    assert f"`[peers]` has up to {SEEDS_MAX} addresses" in page("configuration")


def type_in_words(kind: Any, name: str = "") -> str:
    """As a person who writes TOML would say it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return type_in_words(parts[0])  # the other is None: the key is left out
    if origin is tuple and parts[-1] is not Ellipsis:
        return f"list of {len(parts)} {type_in_words(parts[0])}s"
    if kind is float:
        return "number" if name == "significance" else "seconds"
    if origin is tuple:
        of, *bounds = type_in_words(parts[0]).split(", ")
        return ", ".join([f"list of {of}s", *bounds])
    if origin is Literal:
        return " or ".join(f'"{choice}"' for choice in parts)
    if origin is Annotated:
        least, most = parts[1].ge, parts[1].le
        return f"{type_in_words(parts[0])}, {f'{least} or more' if most is None else f'{least} to {most:,}'}"
    if origin is dict or issubclass(kind, msgspec.Struct):
        return "table"
    if kind is Patience:
        return 'duration or "never"'
    return {str: "text", int: "whole number", bool: "true or false", Duration: "duration", Size: "size"}[kind]


def default_in_words(field: msgspec.structs.FieldInfo) -> str:
    """What holds where the key is left out."""
    if field.required:
        return "required"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(default, Duration):
        return f"{default // 1_000_000_000}s" if default >= 1_000_000_000 else f"{default // 1_000_000}ms"
    if isinstance(default, Size):
        return in_words(default)
    if isinstance(default, msgspec.Struct):
        return "see below"
    if isinstance(default, tuple) and default:
        return str(list(default))
    if default is None or default == () or default == {}:
        return "none" if default is None else "empty"
    return {True: "true", False: "false"}[default] if isinstance(default, bool) else quoted(default)


def quoted(value: Any) -> str:
    """As in TOML."""
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_verbs_and_options() -> None:
    """command_line.md; each with the words of its `--help`. Those that nearly all have are said once, below the table."""
    expected = []
    for verb, command in commands():
        context = click.Context(command, info_name=verb)
        arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
        expected.append((" ".join([verb, *arguments]), "", " ".join((command.help or "").split())))
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden and not is_everywhere(option, verb):
                expected.append(("", *option_in_words(option, context)))
    assert table(page("command_line"), "Command line") == expected


def commands() -> Iterator[tuple[str, click.Command]]:
    """All verbs; of one that is a group, those in it."""
    for verb in VERBS:
        command = main.get_command(click.Context(main), verb)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", each) for name, each in command.commands.items())
        else:
            yield verb, command


#: Verbs that are not about a running system.
WITHOUT_A_SYSTEM = ("up", "list", "check", "doctor", "new", "keys")


def is_everywhere(option: click.Option, verb: str) -> bool:
    """Whether the sentence below the table speaks of it."""
    return option.opts[0] in ("--json", "--debug") or (
        option.opts[0] == "-s" and verb.split()[0] not in WITHOUT_A_SYSTEM
    )


def test_what_all_verbs_have() -> None:
    """That sentence."""
    for verb, command in commands():
        options = {name for parameter in command.params for name in parameter.opts}
        assert {"--json", "--debug"} <= options
        assert verb.split()[0] in WITHOUT_A_SYSTEM or "-s" in options


def option_in_words(option: click.Option, context: click.Context) -> tuple[str, str]:
    """Its names, and its help with the default."""
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    default = f" Default: {option.default:g}." if option.show_default else ""
    return ", ".join(option.opts) + metavar, f"{option.help}{default}"


def test_operations_of_a_backplane() -> None:
    """command_line.md; each with the first line of its docstring."""
    rows = table(page("command_line").split("on routes `backplane.NAME.…`")[1].replace("\n", "\n# x\n", 1), "x")
    expected = {
        spec.name: (inspect.getdoc(spec.function) or "").partition("\n")[0].replace("`", "")
        for spec in BackplaneOperations.__operations__.values()
    }
    assert dict(rows) == expected


def test_keywords_of_an_operation() -> None:
    """actions_and_objects.md."""
    rows = table(page("actions_and_objects"), "What an operation declares")
    parameters = inspect.signature(operation).parameters.values()
    named = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert {word for row in rows for word in row[0].split(", ")} == named
    assert dict((row[0], row[2]) for row in rows)["priority"] == str(PRIORITY_DEFAULT)


def test_methods_of_the_virtual_backplane() -> None:
    """testing.md; the public ones and the options."""
    words = [re.sub(r"\(.*?\)", "", row[0]) for row in table(page("testing"), "What the test can do")]
    public = {name for name in vars(VirtualBackplane) if not name.startswith("_")}
    said = {name.removeprefix("backplane.") for word in words for name in word.split(", ")}
    assert said == public - {"hear", "hear_call", "collect"}, "those speak envelopes: for tests of this project"


def test_figures_of_an_operation() -> None:
    """statistics.md."""
    assert [row[0] for row in table(page("statistics"), "An operation")] == list(OperationStatistics().snapshot())


def test_fields_of_a_line_of_the_log() -> None:
    """logs.md; in the order in which they are written."""
    assert [row[0] for row in table(page("logs"), "What is in a line")] == list(LogLine.__struct_fields__)


def test_reasons() -> None:
    """why.md; those that a backplane gives, in the order of the code, and the three of who asks on."""
    known = [because.value for because in Because]
    assert [row[0] for row in table(page("why"), "Reasons")] == [*known, "down", "no_answer", "bound"]


def test_every_architecture_is_on_its_page() -> None:
    """architectures.md; each TOML of examples/architectures."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples" / "architectures").rglob("*.toml"))
    text = page("architectures")
    assert [name for name in files if name not in text] == []


def test_what_a_request_is_posted_with() -> None:
    """requests.md; name and default of each."""
    parameters = inspect.signature(Context.post).parameters
    expected = [(name, words_of(parameters[name])) for name in parameters if name != "self"]
    assert [row[:2] for row in table(page("requests"), "Post")] == expected


def words_of(parameter: inspect.Parameter) -> str:
    """Its default, as the page says it."""
    if parameter.default is None:
        return {"owner": "the request or operation that posts", "timeout": "none"}[parameter.name]
    return "" if parameter.default is inspect.Parameter.empty else str(parameter.default)


def test_ways_to_post_and_rejoin() -> None:
    """requests.md; each has its row, and its twin."""
    text = page("requests")
    public = {name for name in vars(Context) if not name.startswith("_")} - {"should_stop", "element", "resources"}
    assert [name for name in public if f"{name}(" not in text] == []


def test_states_of_a_request() -> None:
    """requests.md; and what `rejoin` may say."""
    assert [row[0] for row in table(page("requests"), "States")] == [state.name for state in State]
    text = page("requests").split("# Rejoin\n")[1].replace("\n| | |", "\n# said\n| | |", 1)
    assert [row[0] for row in table(text, "said")] == [f"Rejoin.{each.name}" for each in Rejoin]


def test_priorities_of_requests_in_a_backplane() -> None:
    """requests.md; by the one function that says so."""
    (mapped,) = table(page("requests").split("With the default policy and eight priorities")[1].replace(
        "\n| priority of the request", "\n# x\n|h|\n|---|\n| priority of the request", 1), "x")[1:]  # fmt: skip
    (asked,) = (
        line.strip("| \n").split(" | ")
        for line in page("requests").splitlines()
        if "priority of the request, with" in line
    )
    expected = [str(backplane_priority(int(priority), KernelPolicy(), 8)) for priority in asked[1:]]
    assert list(mapped[1:]) == expected


def test_the_most_of_each_lane() -> None:
    """lanes.md; the source's example, 10 workers and 100 entries."""
    percents = KernelPolicy().lanes
    workers, entries = (*shares(percents, 10), 10), (*shares(percents, 100), 100)
    rows = table(page("lanes"), "The most at a time")
    assert [tuple(map(int, row[:3])) for row in rows] == list(zip(range(4), workers, entries, strict=True))


def test_commands_of_a_kernel() -> None:
    """kernel_commands.md; name, arguments, and the first line of the docstring."""
    expected = [
        (
            spec.name,
            ", ".join(list(inspect.signature(getattr(CommandHandler, name)).parameters)[1:]),
            plain(spec.summary),
        )
        for name, spec in CommandHandler.__commands__.items()
    ]
    assert table(page("kernel_commands"), "Commands that every kernel has") == expected


def plain(text: str) -> str:
    """As `table` gives it."""
    return text.replace("`", "")


def test_fields_of_an_interval() -> None:
    """instrumentation.md."""
    rows = table(page("instrumentation"), "A record")
    assert sorted(name for row in rows for name in row[0].split(", ")) == sorted(IntervalRecord.__struct_fields__)


def test_what_a_resource_is_made_of() -> None:
    """request_workers.md."""
    text = page("request_workers").replace("\n| of `Resource(…)` |", "\n# x\n| of `Resource(…)` |")
    assert [row[0] for row in table(text, "x")] == list(inspect.signature(Resource).parameters)


def of_policy(name: str, value: int) -> str:
    """As the page writes a default."""
    if not name.endswith(("_ns", "_ns_max")):
        return str(value)
    if value >= 86_400 * 1_000_000_000:
        return f"{value / 86_400e9:g} d"
    return f"{value / 1e9:g} s" if value >= 1_000_000_000 else f"{value / 1e6:g} ms"


def test_times_of_membership() -> None:
    """membership.md: the policy, and what follows from it."""
    policy = MembershipPolicy()
    fields = [(each.name, of_policy(each.name, each.default)) for each in dataclasses.fields(policy)]
    assert [row[:2] for row in table(page("membership"), "The times")] == fields
    promised = dict(
        table(page("membership").split("The guarantees that follow")[1].replace("\n| event |", "\n# x\n| event |"), "x")
    )
    stated = [f"{ns / 1e9:g} s" for ns in (policy.death_ns_max, policy.cut_ns_max, policy.heal_ns_max)]
    assert list(promised.values()) == [*stated, "10 s"]


def test_columns_of_peers() -> None:
    """peers.md; those that say what they are need no words."""
    text = (DOCS / "peers.md").read_text().replace("\n| column |", "\n# columns\n| column |")
    names = [name for row in table(text, "columns") for name in row[0].split(", ")]
    assert names == [name for name in peers.COLUMNS if name not in ("NODE", "ADDRESS")]


def test_states_of_a_peer() -> None:
    """membership.md."""
    assert [row[0] for row in table(page("membership"), "What is thought of a peer")] == [
        str(state) for state in PeerState
    ]


def test_the_file_of_permissions_on_the_page_is_valid() -> None:
    """permissions.md."""
    (text,) = [part.partition("```")[0] for part in page("permissions").split("```text\n")[1:]]
    contents = msgspec.json.decode(text, type=Permissions)
    contents.check()
    assert [each.id for each in contents.permissions] == ["1", "2"]
