"""The TOML, checked whole: whoever mistypes a key is told the file, the key, what was expected and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.runtime.execution.urgency.board import SLOTS_MAX
from appbackplane.supervisor.configuration import config
from appbackplane.supervisor.configuration.config import ConfigError, parse
from appbackplane.transport.link import PATH_BYTES_MAX

FILE = Path("/etc/demo/demo.toml")
GOOD = '[system]\nname = "demo"\n[backplane.main]\ncomponents = ["demo:Main"]\n'


def problems(text: str) -> list[str]:
    """What is said about a text."""
    with pytest.raises(ConfigError) as caught:
        parse(text, FILE)
    assert caught.value.message == "\n".join(f"{FILE}: {problem}" for problem in caught.value.problems)
    return list(caught.value.problems)


def system(lines: str) -> str:
    """A whole file with these lines in [system]."""
    return f'[system]\nname = "demo"\n{lines}\n[backplane.main]\ncomponents = ["demo:Main"]\n'


def backplane(lines: str) -> str:
    """A whole file with these lines in [backplane.main]."""
    return f"{GOOD}{lines}\n"


RESTART_KEYS = "strategy, type, max, within, backoff, backoff_max, healthy_after, on_give_up"
NAMES = "expected letters, digits, - and _, got "
TABLE = {
    "too many priorities": (
        backplane("priorities = 300"),
        "backplane.main.priorities: expected a whole number <= 255, got 300",
    ),
    "a more urgent priority that is nicer": (
        system("nice = [0, -5]"),
        "system.nice[1]: expected 0 or more, got -5: priority 0 must be at least as urgent as 1",
    ),
    "a mistyped key": (
        backplane('slow_acton = "5ms"'),
        "backplane.main.slow_acton: unknown key (did you mean 'slow_action'?)",
    ),
    "a key of nowhere": (
        system("zzz = 1"),
        "system.zzz: unknown key (known here: name, role, run_dir, local_link, nice, start_limit, stop_limit, drain_limit, "
        "stuck_after, restart, log, metrics, metrics_public)",
    ),
    "a mistyped table": (
        GOOD.replace("[backplane.", "[backplan."),
        "backplan: unknown key (did you mean 'backplane'?)",
    ),
    "records too small for two files": (
        GOOD + '[record]\nsize = "1MiB"\n',
        "record.size: expected 16MiB or more, two segments, got 1MiB",
    ),
    "no collector": (GOOD + "[trace]\n", "trace.otlp: missing: expected a string"),
    "a collector that is no address": (
        GOOD + '[trace]\notlp = "localhost:4318"\n',
        "trace.otlp: expected the address of a collector, such as \"http://localhost:4318\", got 'localhost:4318'",
    ),
    "a collector with a port that is none": (
        GOOD + '[trace]\notlp = "http://localhost:port"\n',
        "trace.otlp: expected the address of a collector, such as \"http://localhost:4318\", got 'http://localhost:port'",
    ),
    "a collector with a password": (
        GOOD + '[trace]\notlp = "http://me:secret@localhost:4318"\n',
        "trace.otlp: a password here would be shown in logs: give it by OTEL_EXPORTER_OTLP_HEADERS in the environment",
    ),
    "more than all traces": (
        GOOD + '[trace]\notlp = "http://localhost:4318"\nsample = 10\n',
        "trace.sample: expected a number <= 1.0, got 10",
    ),
    "a file of records out of bounds": (
        GOOD + '[record]\nsegment = "1KiB"\n',
        "record.segment: expected 640KiB to 1GiB, got 1KiB",
    ),
    "a mistyped key of a topic": (
        GOOD + '[topic."host.sample"]\nrecords = true\n',
        "topic.\"host.sample\".records: unknown key (did you mean 'record'?)",
    ),
    "a topic that is no folder": (
        GOOD + '[topic."../etc"]\nrecord = true\n',
        "topic.\"../etc\": a topic is words joined by dots, such as 'files.changed', got '../etc'",
    ),
    "a topic that is a path": (
        GOOD + '[topic."a/b"]\nrecord = true\n',
        'topic."a/b": its records are kept in a folder of this name: at most 255 bytes, and no /',
    ),
    "a topic whose name is too long for a folder": (
        GOOD + f'[topic."{"x" * 256}"]\nrecord = true\n',
        f"topic.{'x' * 256}: its records are kept in a folder of this name: at most 255 bytes, and no /",
    ),
    "a topic whose folder would be a file of the backplane's": (
        GOOD + '[topic."next.tmp"]\nrecord = true\n',
        'topic."next.tmp": its records are kept in a folder of this name, beside files that end in .actions, .messages, .tmp, '
        ".ledger",
    ),
    "topics that are none": (
        "topic = 3\n" + GOOD,
        'topic: expected tables, [topic."host.sample"] with record = true, got 3',
    ),
    "a word for a number": (
        backplane('threads = "two"'),
        "backplane.main.threads: expected a whole number, got 'two'",
    ),
    "a number for a name": (GOOD.replace('"demo"\n', "7\n", 1), "system.name: expected a string, got 7"),
    "a number out of bounds": (backplane("threads = 0"), "backplane.main.threads: expected a whole number >= 1, got 0"),
    "one of a list": (
        backplane("affinity = [0, -1]"),
        "backplane.main.affinity[1]: expected a whole number >= 0, got -1",
    ),
    "no duration": (
        backplane('tick = "soon"'),
        'backplane.main.tick: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got \'soon\'',
    ),
    "a duration of nothing": (
        backplane("max_latency = 0"),
        'backplane.main.max_latency: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got 0',
    ),
    "no choice": (system('role = "leader"'), "system.role: expected one of 'primary', 'secondary', got 'leader'"),
    "a mistyped key in a table of its own": (
        backplane("restart = { maxx = 1 }"),
        "backplane.main.restart.maxx: unknown key (did you mean 'max'?)",
    ),
    **{
        f"{at}.restart: {key}": (make(f"restart = {{ {key} = {value} }}"), f"{at}.restart.{key}: {said}")
        for at, make in (("system", system), ("backplane.main", backplane))
        for key, value, said in (
            (
                "strategy",
                '"one_for_two"',
                "expected one of 'one_for_one', 'rest_for_one', 'one_for_all', got 'one_for_two'",
            ),
            ("type", '"eternal"', "expected one of 'permanent', 'transient', 'temporary', got 'eternal'"),
            ("type", "1", "expected one of 'permanent', 'transient', 'temporary', got 1"),
            ("max", "-1", "expected a whole number >= 0, got -1"),
            ("max", '"5"', "expected a whole number, got '5'"),
            (
                "within",
                '"a while"',
                'expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got \'a while\'',
            ),
            ("backoff", "0", 'expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got 0'),
            ("backoff_max", '"1ms"', "expected backoff (0.2 s) or more: the wait grows from there, got 0.001 s"),
            ("healthy_after", "-1", 'expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got -1'),
            ("on_give_up", '"panic"', "expected one of 'secondary', 'down', 'shutdown', got 'panic'"),
            (
                "intensity",
                "1",
                f"unknown key (known here: {RESTART_KEYS})",
            ),
        )
    },
    "a restart that is no table": (backplane("restart = 3"), "backplane.main.restart: expected a table, got 3"),
    "a start limit of a backplane": (
        backplane("start_limit = 0"),
        'backplane.main.start_limit: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got 0',
    ),
    "a backplane that is given no time to be slow": (
        backplane('stuck_after = "500ms"'),
        "backplane.main.stuck_after: expected 1s or more, or \"never\", got '500ms': heartbeats come every 250 ms",
    ),
    "a system that is given no time to be slow": (
        system("stuck_after = 0.9"),
        'system.stuck_after: expected 1s or more, or "never", got 0.9: heartbeats come every 250 ms',
    ),
    "a patience that is none": (
        backplane("stuck_after = false"),
        'backplane.main.stuck_after: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, or "never", '
        "got False",
    ),
    "a nice that no kernel knows": (
        system("nice = [-21]"),
        "system.nice[0]: expected a whole number >= -20, got -21",
    ),
    "no component": (
        GOOD.replace('["demo:Main"]', "[]"),
        'backplane.main.components: expected at least one "module:Class"',
    ),
    "components missing": (
        GOOD.replace("components", "component"),
        'backplane.main.components: missing: expected a list such as ["module:Class"]',
    ),
    "a component without a class": (
        GOOD.replace("demo:Main", "demo.Main"),
        "backplane.main.components[0]: expected \"module:Class\", got 'demo.Main'",
    ),
    "a component twice": (
        GOOD.replace('"demo:Main"', '"demo:Main", "demo:Main"'),
        "backplane.main.components[1]: 'demo:Main' is listed twice",
    ),
    "settings of nobody": (
        backplane("[backplane.main.settings.Mian]\nx = 1"),
        "backplane.main.settings.Mian: no component here has this class (did you mean 'Main'?)",
    ),
    "settings that are no table": (
        backplane("[backplane.main.settings]\nMain = 1"),
        "backplane.main.settings.Main: expected a table of keyword arguments, got 1",
    ),
    "more quotas than priorities": (
        backplane("priorities = 2\nquotas = [0, 2, 1]"),
        "backplane.main.quotas: expected at most 2, one a priority, got 3",
    ),
    "a number that no machine word holds": (
        backplane("quotas = [99999999999999999999999]"),
        "backplane.main.quotas[0]: expected a whole number <= 1000000000, got 99999999999999999999999",
    ),
    "a quota below nothing": (
        backplane("quotas = [0, -1]"),
        "backplane.main.quotas[1]: expected a whole number >= 0, got -1",
    ),
    "too many threads": (
        backplane("threads = 10_000"),
        "backplane.main.threads: expected a whole number <= 256, got 10000",
    ),
    "no priorities": (
        backplane("priorities = 0"),
        "backplane.main.priorities: expected a whole number >= 1, got 0",
    ),
    "a limit of nothing": (
        backplane("cpu_limit = 0"),
        "backplane.main.cpu_limit: expected a whole number >= 1, got 0",
    ),
    "a limit below nothing": (
        backplane("cpu_limit = -30"),
        "backplane.main.cpu_limit: expected a whole number >= 1, got -30",
    ),
    "a limit of all machines": (
        backplane("cpu_limit = 9999999999999999999999"),
        "backplane.main.cpu_limit: expected a whole number <= 1000000, got 9999999999999999999999",
    ),
    "a limit in words": (
        backplane('cpu_limit = "50 %"'),
        "backplane.main.cpu_limit: expected a whole number, got '50 %'",
    ),
    "exempt from the limit, all of it": (
        backplane("priorities = 4\ncpu_limit = 50\ncpu_exempt = 4"),
        "backplane.main.cpu_exempt: expected at most 3, or cpu_limit would apply to none of the 4 priorities, got 4",
    ),
    "a tick of nothing": (
        backplane("tick = 0"),
        'backplane.main.tick: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got 0',
    ),
    "a tick shorter than a look": (
        backplane('tick = "1ns"'),
        "backplane.main.tick: expected 1ms or more, got '1ns': a shorter tick would be spent on accounting",
    ),
    "a latency that no thread can keep": (
        backplane('max_latency = "1us"'),
        "backplane.main.max_latency: expected 50us or more, got '1us': threads switch every 1/50 of it, "
        "and Python's shortest switch interval is 1us",
    ),
    "a duration beyond all calendars": (
        system('start_limit = "1000000000h"'),
        "system.start_limit: expected a duration of at most 1000000000 s, got '1000000000h'",
    ),
    "a CPU twice": (backplane("affinity = [0, 0]"), "backplane.main.affinity[1]: 0 is listed twice"),
    "a folder of nobody": (
        system('run_dir = "~nobody-of-that-name/run"'),
        "system.run_dir: no home folder of '~nobody-of-that-name'",
    ),
    "a folder with a hole in it": (system('run_dir = "a\\u0000b"'), "system.run_dir: expected a path, got 'a\\x00b'"),
    "the root folder": (
        system('run_dir = "/"'),
        "system.run_dir: expected a folder of its own, which the root folder is not, got '/'",
    ),
    "the root folder, written otherwise": (
        system('run_dir = "/tmp/.."'),
        "system.run_dir: expected a folder of its own, which the root folder is not, got '/tmp/..'",
    ),
    "a folder of no length": (system('run_dir = ""'), "system.run_dir: expected a path, got ''"),
    "a backplane with the supervisor's name": (
        GOOD.replace("backplane.main", "backplane.supervisor"),
        "backplane.supervisor: the name is the supervisor's own: choose another",
    ),
    "a name that is a path": (GOOD.replace('"demo"', '"../demo"', 1), f"system.name: {NAMES}'../demo'"),
    "a backplane with a dot": (
        GOOD.replace("backplane.main", 'backplane."a.b"'),
        'backplane."a.b": expected a name of letters, digits, - and _, beginning with a letter or digit',
    ),
    "no backplane": (
        '[system]\nname = "demo"\n',
        'backplane: expected at least one table: [backplane.main] with components = ["module:Class"]',
    ),
    "no system": ('[backplane.main]\ncomponents = ["a:B"]\n', "system: missing: expected a table"),
    "a name of several lines": (
        GOOD.replace("backplane.main", 'backplane."a\\n\\u001b[2J"'),
        'backplane."a\\n\\x1b[2J": expected a name of letters, digits, - and _, beginning with a letter or digit',
    ),
    "a size of 400 digits": (
        system(f'log = {{ file_size = "{"9" * 400}MiB" }}'),
        "system.log.file_size: expected 64KiB to 1GiB, got 4294967296GiB",
    ),
    "a balance that is none": (
        backplane('balance = "push"'),
        "backplane.main.balance: expected one of 'turns', 'pull', got 'push'",
    ),
    "shares of nothing": (
        backplane('fair_by = "tenant"'),
        "backplane.main.fair_by: expected 'source', 'principal' or 'arguments.NAME', got 'tenant'",
    ),
    "shares and deadlines": (
        backplane('fair_by = "source"\norder = "deadline"'),
        'backplane.main.fair_by: excludes order = "deadline": either shares or deadlines decide who is next',
    ),
    "weights of nothing": (
        backplane('weights = { "a*" = 2 }'),
        "backplane.main.weights: without fair_by nothing is shared: set fair_by, too",
    ),
    "no weight": (
        backplane('fair_by = "source"\nweights = { "a*" = 0 }'),
        "backplane.main.weights: expected a whole number >= 1, got {'a*': 0}",
    ),
    "an aim that is no time": (
        backplane('admission = { aim = "soon" }'),
        'backplane.main.admission.aim: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got \'soon\'',
    ),
    "no aim": (
        backplane('admission = { aim = "0s" }'),
        'backplane.main.admission.aim: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got \'0s\'',
    ),
    "an aim that all miss": (
        backplane('admission = { aim = "1us" }'),
        "backplane.main.admission.aim: expected 0.1 ms to 1 h, got 1us",
    ),
    "an aim that none misses": (
        backplane('admission = { aim = "100h" }'),
        "backplane.main.admission.aim: expected 0.1 ms to 1 h, got 100h",
    ),
    "a negative aim": (
        backplane("admission = { aim = -0.02 }"),
        'backplane.main.admission.aim: expected a duration above 0: "5ms", "60s", "2m" or a number of seconds, got -0.02',
    ),
    "a number of too many digits": (
        backplane(f"threads = {'9' * 5_000}"),
        "not TOML: a whole number of more than 1,024 bits",
    ),
    "a number that cannot be shown": (
        backplane(f"cpu_exempt = 0x{'f' * 5_000}"),
        "not TOML: a whole number of more than 1,024 bits",
    ),
    "a setting that no message holds": (
        f"{GOOD}\n[backplane.main.settings.Main]\nx = [{{ a = 9223372036854775808 }}]",
        "backplane.main.settings.Main: expected whole numbers of at most 64 bits, got 9223372036854775808",
    ),
    "lists in lists": (f"{GOOD}\nx = {'[' * 5_000}", "not TOML: more than 64 levels of lists and tables"),
    "tables in tables": (
        f"{GOOD}\n[backplane.main.settings.B]\n{'.'.join('a' * 3_000)} = 1",
        "not TOML: more than 64 levels of lists and tables",
    ),
    "not TOML": ("[system", "not TOML: Expected ']' at the end of a table declaration (at end of document)"),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_is_wrong_is_said_with_its_place(case: str) -> None:
    """A limit that is silently not applied is found at night."""
    text, said = TABLE[case]
    assert said in problems(text)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """One error a run is ten runs."""
    assert len(problems(system("zzz = 1\nrole = 2") + "threads = 0\ntick = -1\n")) == 4


def test_a_run_directory_too_long_for_a_socket_is_refused_beforehand() -> None:
    """Bind would refuse it later, with a number instead of a remedy."""
    (problem,) = problems(system(f'run_dir = "/tmp/{"x" * 100}"'))
    assert problem.startswith("system.run_dir: ")
    assert "choose a shorter one" in problem


def test_a_good_file_becomes_what_it_says() -> None:
    """And times are understood here once, so that nobody else has to know how they are written."""
    text = backplane(
        'threads = 2\ntick = 0.5\nmax_latency = "5ms"\nslow_action = "1m"\ncpu_limit = 150\n'
        'restart = { strategy = "one_for_one", max = 2, within = "1.5h" }\n'
        '[backplane.main.settings.Main]\nindex_dir = "x"'
    )
    found = parse(text, FILE)
    main = found.backplane["main"]
    assert (main.tick_ns, main.max_latency_ns, main.slow_action_ns) == (500_000_000, 5_000_000, 60_000_000_000)
    assert (main.restart.max, main.restart.within_ns) == (2, 5_400_000_000_000)
    assert main.settings == {"Main": {"index_dir": "x"}}
    assert (found.import_dir, found.file) == ("/etc/demo", str(FILE))


def test_a_name_too_long_for_a_socket_is_what_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has written no run_dir looks for it in vain."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    long = "x" * 100
    (problem,) = problems(f'[system]\nname = "{long}"\n[backplane.main]\ncomponents = ["demo:Index"]')
    assert problem.startswith("system.name: ") and problem.endswith("choose a shorter one, or a [system] run_dir")
    (problem,) = problems(f'[system]\nname = "demo"\n[backplane.{long}]\ncomponents = ["demo:Index"]')
    assert problem.startswith(f"backplane.{long}: ")


def test_a_run_directory_is_relative_to_the_file() -> None:
    """Not to the folder that the command happened to be typed in: it could not be found again."""
    assert parse(system('run_dir = "run"'), FILE).run_dir == "/etc/demo/run"


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    """With the file's name, which a traceback would hide."""
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        config.load(tmp_path / "none.toml")


def test_bounds_are_those_of_board_and_link() -> None:
    """They are repeated in config.py because it may not import what touches the world."""
    assert (config.BACKPLANES_MAX, config.SOCKET_PATH_BYTES_MAX) == (SLOTS_MAX, PATH_BYTES_MAX)


def test_what_the_system_says_of_restarts_holds_for_all_and_a_backplane_goes_before_key_by_key() -> None:
    """Said once; and whoever needs one thing different does not have to say the rest again, or lose it."""
    config = parse(
        """
[system]
name = "demo"
restart = { strategy = "one_for_all", max = 9 }
[backplane.one]
components = ["demo:One"]
[backplane.two]
components = ["demo:Two"]
restart = { type = "transient", max = 1 }
""",
        Path("/demo.toml"),
    )
    one, two = config.backplane["one"].restart, config.backplane["two"].restart
    assert (one.strategy, one.type, one.max) == ("one_for_all", "permanent", 9)
    assert (two.strategy, two.type, two.max) == ("one_for_all", "transient", 1)


def test_a_wrong_restart_of_the_system_is_said_once() -> None:
    """Not again for each backplane that it would have held for."""
    found = problems(GOOD.replace("[backplane", 'restart = { backoff_max = "1ms" }\n[backplane', 1))
    assert len(found) == 1


def test_who_hangs_is_replaced_as_the_backplane_says_and_otherwise_the_system() -> None:
    """A minute where nobody says anything; "never" is a word, not a number that happens to be large."""
    config = parse(
        """
[system]
name = "demo"
stuck_after = "5m"
[backplane.main]
components = ["demo:Main"]
[backplane.batch]
components = ["demo:Batch"]
stuck_after = "never"
""",
        FILE,
    )
    assert (config.stuck_after_ns("main"), config.stuck_after_ns("batch")) == (300 * 10**9, 0)
    assert parse(GOOD, FILE).stuck_after_ns("main") == 60 * 10**9
    config = parse(GOOD.replace("[backplane", 'stuck_after = "never"\n[backplane') + 'stuck_after = "2s"\n', FILE)
    assert config.stuck_after_ns("main") == 2 * 10**9


def test_replicas_are_backplanes_with_numbers_and_the_same_settings() -> None:
    """Each is a process with limits of its own; one alone keeps the name of its table."""
    found = parse(backplane("replicas = 3\ncpu_limit = 50"), FILE)
    assert list(found.backplane) == ["main-1", "main-2", "main-3"]
    assert {backplane.cpu_limit for backplane in found.backplane.values()} == {50}
    assert found.replicas == {"main": ("main-1", "main-2", "main-3")}
    assert found.replica_of == {"main-1": "main", "main-2": "main", "main-3": "main"}
    one = parse(backplane("replicas = 1"), FILE)
    assert (list(one.backplane), one.replicas) == (["main"], {})


BOTH = "backplane.main.replicas: 'main-2' would be one of them, and is the name of"


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"main": 2, "main-2": 1}, f"{BOTH} [backplane.main-2]"),
        ({"main-2": 1, "main": 2}, f"{BOTH} [backplane.main-2]"),
        ({"main": 2, "main-2": 2}, f"{BOTH} [backplane.main-2]"),
        ({"a": 200, "b": 57}, "backplane: 257 backplanes, at most 256 fit on a board"),
        ({"main": 0}, "backplane.main.replicas: expected a whole number >= 1, got 0"),
        ({"main": 257}, "backplane.main.replicas: expected a whole number <= 256, got 257"),
        ({"main": '"x"'}, "backplane.main.replicas: expected a whole number, got 'x'"),
        ({"main": "true"}, "backplane.main.replicas: expected a whole number, got True"),
    ],
)  # fmt: skip
def test_names_and_places_of_replicas_are_checked_with_all_others(tables: dict[str, object], problem: str) -> None:
    """Two processes of one name would share a socket, a slot and a log."""
    text = '[system]\nname = "demo"\n' + "".join(
        f'[backplane.{name}]\ncomponents = ["demo:Main"]\nreplicas = {count}\n' for name, count in tables.items()
    )
    assert any(found.startswith(problem) for found in problems(text)), problems(text)


def test_the_path_of_each_replica_has_to_fit() -> None:
    """The last of a hundred has two digits more than the table's name."""
    room = config.SOCKET_PATH_BYTES_MAX - len("//main-999999.sock")
    text = f'run_dir = "/{"x" * room}"'
    assert parse(system(text), FILE)
    (problem,) = problems(system(text).replace("[backplane.main]", "[backplane.main]\nreplicas = 100"))
    assert "main-1-999999.sock is longer" in problem
