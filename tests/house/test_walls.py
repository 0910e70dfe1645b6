"""Walls that layers cannot express: who may touch the world outside, who may know ZeroMQ, and how a wall is crossed.

The layers of folders and storeys are import-linter's (pyproject.toml, scripts/check). Here each file's imports are read
from its syntax tree, so nothing is imported and a module that does not exist yet breaks nothing. What is imported for
types alone is not counted: it is not there when the program runs.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest

#: Modules that decide: facts and `now_ns` come in, effects go out. In these rooms every new file is one.
DECIDERS = (
    "transport.*",
    "runtime.objects.*",
    "runtime.scheduling.*",
    "supervisor.config",
    "supervisor.config_reader",
    "supervisor.processes.cgroup_layout",
    "supervisor.direction.*",
    "supervisor.logs.settings",
    "supervisor.logs.watch",
    "supervisor.logs.filter",
    "supervisor.logs.text",
    "runtime.observation.log_line",
    "runtime.requests.optimiser.*",
    "supervisor.control.status",
    "supervisor.doctor.checkup",
    "supervisor.metrics.exposition",
    "supervisor.metrics.metric",
    "supervisor.metrics.request_metrics",
    "runtime.requests.instrumentation.described",
    "runtime.requests.instrumentation.interval",
    "supervisor.live.*",
)
#: The ones in those rooms that do: few and dull.
DOERS = (
    "transport.link", "transport.accept_gate", "transport.lifeline", "transport.descriptors", "transport.waiting",
    "transport.waitables",
    "transport.calling", "transport.room", "transport.client", "transport.handles", "transport.async_client",
    "transport.async_connecting",
    "transport.async_subscription", "transport.async_room", "transport.connecting",
    "transport.security.folder", "transport.security.keyring", "transport.security.gatekeeper", "transport.security.links",
    "transport.security.roll", "transport.security.doorstep", "transport.peers.lines", "transport.peers.line",
    "transport.security.headroom", "transport.ways", "transport.remote.remote_link",
    "transport.remote.target", "transport.remote.visitors", "supervisor.live.window",
)  # fmt: skip

#: Threads, sockets, processes and clocks. (What only computes is fine: os.path, re, heapq.)
WORLD = (
    "asyncio", "concurrent", "ctypes", "fcntl", "mmap", "multiprocessing", "psutil", "queue", "random", "resource",
    "select", "selectors", "sched", "signal", "socket", "socketserver", "subprocess", "threading", "time", "zmq",
)  # fmt: skip
#: The only files that know ZeroMQ: whoever replaces it, replaces these.
KNOW_ZMQ = (
    "transport.link", "transport.security.keyring", "transport.security.gatekeeper", "transport.security.links",
    "transport.security.roll", "transport.security.doorstep", "transport.peers.lines", "transport.peers.line",
    "transport.remote.remote_link", "transport.remote.visitors",
)  # fmt: skip
#: What Spark's side may know of runtime: the layout of the records, the replay, and the port behind which requests are
#: executed, with what passes it.
KNOWN_TO_SPARK = (
    "runtime.observation.segments", "runtime.replay", "runtime.requests.element", "runtime.requests.executor",
    "runtime.requests.failures", "runtime.requests.runnable", "runtime.requests.thread_resources",
)  # fmt: skip
OURS = ("transport", "runtime", "supervisor", "spark")


class Imports:
    """Who imports what, directly, in the four folders: "runtime.worker" to (imported module, line)."""

    def __init__(self, sources: Mapping[str, tuple[str, bool]]) -> None:
        """`sources`: module to (text, whether it is a package)."""
        self.known = set(sources)
        self.written: dict[str, list[tuple[str, int, int]]] = {}
        for module, (text, is_package) in sources.items():
            self.written[module] = list(written_imports(ast.parse(text), module, is_package=is_package))

    def of(self, module: str) -> Iterator[tuple[str, int]]:
        """What a module imports, our own under their short names: `runtime.objects.action`."""
        for name, line, _level in self.written.get(module, ()):
            yield name.removeprefix("appbackplane."), line

    def ours(self, module: str) -> Iterator[str]:
        """Our modules that it imports. `from .x import name` may mean the module x.name or a name in x."""
        for name, _line in self.of(module):
            target = name if name in self.known else name.rpartition(".")[0]
            if target in self.known and target != module:
                yield target

    def way_to(self, module: str, outside: Iterable[str]) -> list[str] | None:
        """The shortest chain of imports from `module` to something outside, or None.

        Through a package's `__init__` only where it is what was asked for: it gathers names for users.
        """
        queue, seen = [[module]], {module}
        while queue:
            way = queue.pop(0)
            for name, line in self.of(way[-1]):
                if name.split(".")[0] in outside:
                    return [*way[:-1], f"{way[-1]}:{line}", name]
            for target in self.ours(way[-1]):
                if target not in seen:
                    seen.add(target)
                    queue.append([*way, target])
        return None

    def cycle(self) -> list[str] | None:
        """Modules that import each other in a ring, or None."""
        done: set[str] = set()

        def walk(module: str, way: list[str]) -> list[str] | None:
            if module in way:
                return [*way[way.index(module) :], module]
            if module not in done:
                for target in self.ours(module):
                    if ring := walk(target, [*way, module]):
                        return ring
                done.add(module)
            return None

        return next((ring for module in sorted(self.known) if (ring := walk(module, []))), None)


def written_imports(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[str, int, int]]:
    """(absolute name, line, level of dots) of each import below a node that is there when the program runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for other in node.orelse:
                yield from written_imports(ast.Module([other], []), module, is_package=is_package)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = ["appbackplane", *module.split("."), *([""] if is_package else [])]
            base = ".".join(parts[: len(parts) - node.level]) if node.level else ""
            start = ".".join(filter(None, (base, node.module)))
            yield from ((f"{start}.{alias.name}", node.lineno, node.level) for alias in node.names)
        else:
            yield from written_imports(node, module, is_package=is_package)


def is_one_of(module: str, patterns: Iterable[str]) -> bool:
    """Whether a module is named by one of the patterns."""
    return any(fnmatch(module, pattern) for pattern in patterns)


def touched_by_deciders(imports: Imports) -> list[str]:
    """Ways by which a module that decides reaches the world outside."""
    deciders = [m for m in sorted(imports.known) if is_one_of(m, DECIDERS) and not is_one_of(m, DOERS)]
    ways = [imports.way_to(module, WORLD) for module in deciders]
    return [" -> ".join(way) for way in ways if way]


def strangers_to_zmq(imports: Imports) -> list[str]:
    """Imports of ZeroMQ outside its files."""
    return [
        f"{module}:{line}"
        for module in sorted(imports.known)
        if not is_one_of(module, KNOW_ZMQ)
        for name, line in imports.of(module)
        if name.split(".")[0] == "zmq"
    ]


def known_to_spark(imports: Imports) -> list[str]:
    """Imports of runtime's inside by spark."""
    return [
        f"{module}:{line}: {name}"
        for module in sorted(imports.known)
        if module.split(".")[0] == "spark"
        for name, line in imports.of(module)
        if name.split(".")[0] == "runtime" and not any((name + ".").startswith(known + ".") for known in KNOWN_TO_SPARK)
    ]


def badly_crossed(imports: Imports) -> list[str]:
    """Imports that hide a wall, or that show one where there is none."""
    found = []
    for module, written in imports.written.items():
        home = f"appbackplane.{module.split('.')[0]}"
        for name, line, level in written:
            if name.split(".")[0] in OURS and not level:
                found.append(f"{module}:{line}: {name} belongs to others: write appbackplane.{name}")
            elif level and not (name + ".").startswith(home + "."):
                found.append(f"{module}:{line}: leaves its folder: write from {name.rpartition('.')[0]} import …")
            elif not level and (name + ".").startswith(home + "."):
                found.append(f"{module}:{line}: stays in its folder: import {name} relatively")
    return found


@pytest.fixture(scope="module")
def imports(modules: dict[str, Path]) -> Imports:
    """The imports of the four folders as they are."""
    return Imports({name: (path.read_text(), path.name == "__init__.py") for name, path in modules.items()})


def test_those_who_decide_touch_nothing_outside(imports: Imports) -> None:
    """A decision that reads a clock or a socket cannot be tested in every small case, nor replayed from a seed."""
    assert touched_by_deciders(imports) == [], (
        "hand it the fact instead (or, if it is a doer by design, add it to DOERS)"
    )


def test_zeromq_is_known_to_its_own_files_only(imports: Imports) -> None:
    """Its traps are handled in one place; a second place would fall into them again."""
    assert strangers_to_zmq(imports) == [], "use appbackplane.transport.link"


def test_spark_knows_what_is_recorded_and_a_port_and_no_more_of_runtime(imports: Imports) -> None:
    """It is to run where no backplane does, and to stay as it is whatever becomes of the scheduler."""
    assert known_to_spark(imports) == []


def test_a_reader_sees_every_wall_being_crossed(imports: Imports) -> None:
    """Inside a folder imports are relatives, across folders absolute."""
    assert badly_crossed(imports) == []


def test_no_modules_import_each_other_in_a_ring(imports: Imports) -> None:
    """Two files in a ring are one file that is hard to read."""
    assert imports.cycle() is None


BROKEN = {
    "a decider reads a clock": (touched_by_deciders, {"transport.calls": "import time"}),
    "in a function": (touched_by_deciders, {"runtime.scheduling.ticks": "def f():\n    from time import monotonic_ns"}),
    "by way of another": (
        touched_by_deciders,
        {"supervisor.direction.plan": "from ..cgroups import x", "supervisor.cgroups": "import psutil"},
    ),
    "across folders": (
        touched_by_deciders,
        {"runtime.objects.a": "from appbackplane.transport import link", "transport.link": "import zmq"},
    ),
    "a second place for ZeroMQ": (strangers_to_zmq, {"runtime.worker": "import zmq.asyncio"}),
    "spark in the works": (known_to_spark, {"spark.jobs.a": "from appbackplane.runtime.requests.ledger import Ledger"}),
    "a bare name": (badly_crossed, {"runtime.worker": "from transport.link import Link"}),
    "dots over a wall": (badly_crossed, {"runtime.worker": "from ..transport import link"}),
    "a long way home": (badly_crossed, {"runtime.worker": "from appbackplane.runtime.clock import now"}),
    "a ring": (Imports.cycle, {"spark.a": "from . import b", "spark.b": "from .a import x"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_wall_is_seen(name: str) -> None:
    """The tests above would pass for ever if they saw nothing."""
    check, sources = BROKEN[name]
    assert check(Imports({module: (text, False) for module, text in sources.items()}))


def test_what_is_allowed_passes() -> None:
    """Types alone, the doers themselves, and what only computes."""
    source = "import heapq, os\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import threading\n"
    imports = Imports(
        {"transport.calls": (source, False), "transport.link": ("import zmq\nfrom .calls import x", False)}
    )
    assert not (touched_by_deciders(imports) or strangers_to_zmq(imports) or badly_crossed(imports) or imports.cycle())
