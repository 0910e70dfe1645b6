"""Walls that layers cannot express: who may touch the world outside, who may know ZeroMQ, and how a wall is crossed.

The layers of folders and storeys are import-linter's (pyproject.toml, scripts/check). Here each file's imports are read
from its syntax tree, so nothing is imported and a module that does not exist yet breaks nothing. What is imported for
types alone is not counted, for it is not there when the program runs; except in circles, since a reader has to follow it.
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
    "supervisor.configuration.*",
    "supervisor.processes.cgroup_layout",
    "supervisor.direction.*",
    "supervisor.logs.watch",
    "supervisor.logs.filter",
    "supervisor.logs.text",
    "runtime.observation.log_line",
    "runtime.requests.optimiser.*",
    "supervisor.control.status",
    "supervisor.doctor.checkup",
    "supervisor.metrics.exposition",
    "runtime.requests.instrumentation.described",
    "runtime.requests.instrumentation.interval",
    "supervisor.live.*",
    "runtime.things.mashups.checks",
    "runtime.things.mashups.deciding",
    "runtime.things.mashups.hops",
    "runtime.things.mashups.rule",
    "runtime.things.mashups.run_log",
)
#: The ones in those rooms that do: few and dull.
DOERS = (
    "transport.link", "transport.local_links", "transport.unix_link", "transport.uncopied", "transport.accept_gate",
    "transport.lifeline", "transport.descriptors",
    "transport.waiting",
    "transport.waitables",
    "transport.calling", "transport.client", "transport.client_spans", "transport.handles", "transport.async_client",
    "transport.async_subscription", "transport.async_stream", "transport.async_sending", "transport.async_pending_call",
    "transport.security.folder", "transport.security.keyring", "transport.security.gatekeeper", "transport.security.links",
    "transport.security.roll", "transport.security.doorstep", "transport.peers.lines", "transport.peers.line",
    "transport.security.headroom", "transport.ways", "transport.remote.remote_link",
    "transport.remote.target", "transport.remote.visitors",
)  # fmt: skip

#: Threads, sockets, processes and clocks. (What only computes is fine: os.path, re, heapq.)
WORLD = (
    "asyncio", "concurrent", "ctypes", "fcntl", "mmap", "multiprocessing", "psutil", "queue", "random", "resource",
    "select", "selectors", "sched", "signal", "socket", "socketserver", "subprocess", "threading", "time", "zmq",
)  # fmt: skip
#: The only files that know ZeroMQ: whoever replaces it, replaces these.
KNOW_ZMQ = (
    "transport.link", "transport.uncopied", "transport.security.keyring", "transport.security.gatekeeper",
    "transport.security.links",
    "transport.security.roll", "transport.security.doorstep", "transport.peers.lines", "transport.peers.line",
    "transport.remote.remote_link", "transport.remote.visitors",
)  # fmt: skip
#: What Spark's side may know of runtime: the layout of the records, and the port behind which requests are executed, with
#: what passes it.
KNOWN_TO_SPARK = (
    "runtime.observation.segments", "runtime.requests.ledger.element", "runtime.requests.executing.executor",
    "runtime.requests.executing.failures", "runtime.requests.runnable", "runtime.requests.executing.thread_resources",
)  # fmt: skip
#: What the replay alone may know beside that: it simulates the workers, but the scheduler is the real one.
KNOWN_TO_REPLAY = ("runtime.objects", "runtime.scheduling")
OURS = ("transport", "runtime", "supervisor", "spark")
#: The most files of a folder that may import each other in a circle, imports for types included: whoever wants to understand
#: one of them has to read all of them.
CIRCLE_MAX = {
    "transport": 6,
    "runtime": 6,
    "supervisor": 1,
    "spark": 1,
}


class Imports:
    """Who imports what, directly, in the four folders: "runtime.worker" to (imported module, line)."""

    def __init__(self, sources: Mapping[str, tuple[str, bool]], *, with_types: bool = False) -> None:
        """`sources`: module to (text, whether it is a package). `with_types`: count what is imported for types alone."""
        self.known = set(sources)
        self.written: dict[str, list[tuple[str, int, int]]] = {}
        for module, (text, is_package) in sources.items():
            self.written[module] = list(
                written_imports(ast.parse(text), module, is_package=is_package, with_types=with_types)
            )

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

    def circles(self) -> list[list[str]]:
        """The groups of modules, of two or more, of which each imports each, at however many removes."""
        targets = {module: set(self.ours(module)) for module in self.known}
        reached = {module: _all_from(module, targets) for module in self.known}
        groups = {tuple(sorted(a for a in reached[b] if b in reached[a])) for b in self.known}
        return sorted((list(group) for group in groups if len(group) > 1), key=len, reverse=True)


def _all_from(module: str, targets: Mapping[str, set[str]]) -> set[str]:
    """What a module imports, directly or not; itself only where it is in a circle."""
    found: set[str] = set()
    ahead = [module]
    while ahead:
        news = targets[ahead.pop()] - found
        found |= news
        ahead += news
    return found


def written_imports(
    tree: ast.AST, module: str, *, is_package: bool, with_types: bool = False
) -> Iterator[tuple[str, int, int]]:
    """(absolute name, line, level of dots) of each import below a node that is there when the program runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") and not with_types:
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
            yield from written_imports(node, module, is_package=is_package, with_types=with_types)


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
    found = []
    for module in sorted(imports.known):
        known = KNOWN_TO_SPARK + (KNOWN_TO_REPLAY if module.startswith("spark.replay.") else ())
        for name, line in imports.of(module):
            is_inside = name.split(".")[0] == "runtime" and not any(f"{name}.".startswith(f"{each}.") for each in known)
            if module.split(".")[0] == "spark" and is_inside:
                found.append(f"{module}:{line}: {name}")
    return found


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


def large_circles(sources: Mapping[str, tuple[str, bool]]) -> list[list[str]]:
    """The circles of files that are larger than their folder allows."""
    circles = Imports(sources, with_types=True).circles()
    return [circle for circle in circles if len(circle) > min(CIRCLE_MAX[module.split(".")[0]] for module in circle)]


def test_few_files_have_to_be_read_together(modules: dict[str, Path]) -> None:
    """Files in a circle are one file, cut into pieces."""
    sources = {name: (path.read_text(), path.name == "__init__.py") for name, path in modules.items()}
    assert large_circles(sources) == [], "give a part the few callables that it needs, or a protocol beside it"


def test_a_large_circle_is_seen() -> None:
    """The test above would pass for ever if it saw nothing."""
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .{} import x"
    ring = {f"transport.m{n}": (types.format(f"m{(n + 1) % 7}"), False) for n in range(7)}
    assert large_circles(ring) == [sorted(ring)]
    assert not large_circles({**ring, "transport.m6": ("", False)})
    pair = {"spark.a": (types.format("b"), False), "spark.b": ("from .a import x", False)}
    assert large_circles(pair) == [["spark.a", "spark.b"]]


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
    "spark in the works": (
        known_to_spark,
        {"spark.jobs.a": "from appbackplane.runtime.requests.ledger.ledger import Ledger"},
    ),
    "spark at the scheduler": (
        known_to_spark,
        {"spark.advice.a": "from appbackplane.runtime.scheduling.scheduler import Scheduler"},
    ),
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
