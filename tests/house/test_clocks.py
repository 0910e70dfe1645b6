"""No test measures the machine: nothing in tests/ compares elapsed real time, sleeps, or tries again until it passes.

A bound on real time fails on a busy machine and says nothing about the code. Durations are asserted under the virtual clock,
or printed by `figures.judge` and judged by `scripts/long` alone. Everything else states an order, a status or a count.

The check reads syntax, one file at a time, including programs that tests keep as strings. It follows a clock's value through
names, attributes, arithmetic, lists and the file's own functions, but not into calls of other files. CPU time may end a
`while` loop: that is how a component under test computes for a stated time.
"""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

TIME, SLEEP, RETRY = "compares real time", "sleeps", "tries again until it passes"
REMEDIES = {
    TIME: "assert an order, a status or a count; or the virtual clock, Limit and Span (tests/waiting.py), steps_of"
    " (tests/steps.py), judge (tests/figures.py)",
    SLEEP: "wait for what happens: an Event, a pipe, signal.pause(), wait_until (tests/waiting.py)",
    RETRY: "let one try decide: hold the order of events, or count them",
}
#: What a file may do all the same, and why.
ALLOWED = {
    ("tests/waiting.py", TIME): "the limit that ends a hang, and the span of a block",
    ("tests/network/forwarder.py", TIME): "it is the network: it carries a frame when its time has come",
    ("tests/network/measuring.py", TIME): "figures; what is judged is judged by scripts/long",
    (
        "tests/network/test_figures.py",
        TIME,
    ): "figures, which scripts/long alone runs: no link is faster than it was told to be",
    (
        "tests/network/test_figures.py",
        RETRY,
    ): "the least of nine looks at what TCP has on its way; scripts/long alone runs it",
    (
        "tests/network/test_hosts.py",
        TIME,
    ): "figures, which scripts/long alone runs: no link is faster than it was told to be",
    ("tests/supervisor/quota.py", TIME): "CPU time against the kernel's own count of periods: the same on any machine",
    ("tests/runtime/execution/test_failures.py", SLEEP): "a user's mistake, which is refused and never sleeps",
    ("tests/runtime/execution/test_stress.py", SLEEP): "an operation that blocks, for a time that the seed draws",
    ("tests/supervisor/test_drain_processes.py", SLEEP): "an operation that blocks, so that calls queue behind it",
    (
        "tests/supervisor/test_health_processes.py",
        SLEEP,
    ): "an operation that blocks until the test says that it is enough",
    ("tests/supervisor/test_late_readers.py", SLEEP): "an operation that takes so long that its answer leaves alone",
    ("tests/system/bulk.py", SLEEP): "a request that takes longer than others take to be posted",
    ("tests/system/cluster/orders.py", SLEEP): "a component that writes a line now and then, until it is stopped",
    (
        "tests/system/desk.py",
        SLEEP,
    ): "operations that block for as long as they are told, as the model of the advice has it",
}

REAL, CPU = "real", "cpu"
#: What reads a clock, by the last two words of its name, to the kind of time that it tells.
CLOCKS = {
    **{
        f"time.{name}{unit}": REAL
        for name in ("monotonic", "perf_counter", "time", "clock_gettime")
        for unit in ("", "_ns")
    },
    **{f"time.{name}_time{unit}": CPU for name in ("process", "thread") for unit in ("", "_ns")},
    **dict.fromkeys(("timeit.timeit", "timeit.repeat", "timeit.Timer", "datetime.now", "datetime.utcnow"), REAL),
    **dict.fromkeys(("Stopwatch", "figures.Stopwatch"), REAL),
}
#: Functions whose result is a time if an argument is one.
TRANSPARENT = {
    "abs",
    "float",
    "int",
    "round",
    "min",
    "max",
    "sum",
    "sorted",
    "list",
    "tuple",
    "approx",
    "mean",
    "median",
}
SLEEPS = ("time.sleep", "asyncio.sleep")
RETRIES = ("any", "min", "max")
NOTHING: frozenset[str] = frozenset()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Found(NamedTuple):
    """A line that measures the machine."""

    line: int
    habit: str


def found_in(source: str) -> list[Found]:
    """The lines of a file that measure the machine, those of programs in its strings included; of no program: none."""
    try:
        with warnings.catch_warnings(action="ignore"):  # a pattern in a string has escapes that no program has
            tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return []
    found = {*Program(tree).found()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "time" in node.value:
            found |= {Found(node.lineno + line - 1, habit) for line, habit in found_in(node.value)}
    return sorted(found)


class Program:
    """A module's syntax, and which of its names hold a time."""

    def __init__(self, tree: ast.Module) -> None:
        """Follow each time to where it goes."""
        self._tree = tree
        self._imported: dict[str, str] = {}
        self._scope_of: dict[ast.AST, ast.AST] = {}
        #: Kinds of time by name: a variable with its function, ".attribute", "function()".
        self._kinds: dict[str | tuple[ast.AST, str], frozenset[str]] = {}
        self._read_scopes(tree, tree)
        before = None
        while before != self._kinds:
            before = dict(self._kinds)
            for node in ast.walk(tree):
                self._follow(node)

    def found(self) -> Iterator[Found]:
        """All that measures the machine, in any order."""
        work = {
            id(node) for loop in ast.walk(self._tree) if isinstance(loop, ast.While) for node in ast.walk(loop.test)
        }
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
                kinds = NOTHING.union(*(self._kinds_of(each) for each in (node.left, *node.comparators)))
                if REAL in kinds or (CPU in kinds and id(node) not in work):
                    yield Found(node.lineno, TIME)
            elif isinstance(node, ast.Call) and self._name_of(node.func) in SLEEPS and not is_zero(node.args[0]):
                yield Found(node.lineno, SLEEP)
            elif is_retry(node):
                yield Found(node.lineno, RETRY)

    def _read_scopes(self, node: ast.AST, scope: ast.AST) -> None:
        self._scope_of[node] = scope
        if isinstance(node, ast.ImportFrom):
            self._imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            self._imported |= {each.asname: each.name for each in node.names if each.asname}
        for child in ast.iter_child_nodes(node):
            self._read_scopes(child, node if isinstance(node, FUNCTIONS) else scope)

    def _name_of(self, node: ast.expr) -> str:
        """The last two words of a dotted name, imports undone: "time.monotonic", "datetime.now"."""
        if isinstance(node, ast.Name):
            name = self._imported.get(node.id, node.id)
        elif isinstance(node, ast.Attribute):
            name = f"{self._name_of(node.value)}.{node.attr}"
        else:
            name = ""
        return ".".join(name.split(".")[-2:])

    def _follow(self, node: ast.AST) -> None:
        """Note where the times of one statement or expression go."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                self._assign(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._assign(target, value)
            case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[value]):
                self._assign(target, value)
            case ast.Return(value=ast.expr() as value):
                function = self._scope_of[node]
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._add(f"{function.name}()", self._kinds_of(value))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for each, its in zip(target.elts, value.elts, strict=True):
                self._assign(each, its)
            return
        kinds = self._kinds_of(value)
        for node in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(node, ast.Name):
                self._add((self._scope_of[node], node.id), kinds)
            elif isinstance(node, ast.Attribute):
                self._add(f".{node.attr}", kinds)

    def _add(self, name: str | tuple[ast.AST, str], kinds: frozenset[str]) -> None:
        if kinds:
            self._kinds[name] = self._kinds.get(name, NOTHING) | kinds

    def _kinds_of(self, node: ast.expr) -> frozenset[str]:
        """The kinds of time that an expression is made of."""
        parts: list[ast.expr] = []
        kinds = NOTHING
        match node:
            case ast.Name(id=name):
                return self._kinds_of_variable(node, name)
            case ast.Attribute(value=value, attr=attr):
                kinds, parts = self._kinds.get(f".{attr}", NOTHING), [value]
            case ast.Call(func=func, args=arguments):
                name = self._name_of(func)
                last = name.split(".")[-1]
                kinds = self._kinds.get(f"{last}()", NOTHING)
                if name in CLOCKS:
                    kinds |= {CLOCKS[name]}
                parts = arguments if last in TRANSPARENT else [func.value] if isinstance(func, ast.Attribute) else []
            case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
                parts = [left, right]
            case ast.UnaryOp(operand=value) | ast.Starred(value=value) | ast.Subscript(value=value):
                parts = [value]
            case ast.NamedExpr(value=value) | ast.ListComp(elt=value) | ast.GeneratorExp(elt=value):
                parts = [value]
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.BoolOp(values=elements):
                parts = elements
        return kinds.union(*(self._kinds_of(each) for each in parts))

    def _kinds_of_variable(self, node: ast.AST, name: str) -> frozenset[str]:
        scope = self._scope_of[node]
        while (scope, name) not in self._kinds and scope is not self._scope_of[scope]:
            scope = self._scope_of[scope]
        return self._kinds.get((scope, name), NOTHING)


def is_zero(node: ast.expr) -> bool:
    """Whether it is the number 0: a sleep of none only lets others run."""
    return isinstance(node, ast.Constant) and node.value == 0


def is_retry(node: ast.AST) -> bool:
    """Whether one success out of several tries is enough: the loop counts them, and no try differs from another."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RETRIES:
        match node.args:
            case [ast.GeneratorExp(elt=elt, generators=[ast.comprehension(target=ast.Name(id=name), iter=ast.Call())])]:
                return name.startswith("_") and any(isinstance(each, ast.Call) for each in ast.walk(elt))
    if isinstance(node, ast.For | ast.While):
        caught = (each.type for step in node.body if isinstance(step, ast.Try) for each in step.handlers)
        return any("AssertionError" in ast.unparse(kind) for kind in caught if kind is not None)
    return False


@pytest.fixture(scope="module")
def measured(root: Path, tracked: list[Path]) -> dict[tuple[str, str], list[int]]:
    """Lines of tests/ that measure the machine, by file and habit."""
    found: dict[tuple[str, str], list[int]] = {}
    for path in tracked:
        if path.parts[0] == "tests" and path.suffix == ".py" and path.name != Path(__file__).name:
            for line, habit in found_in((root / path).read_text()):
                found.setdefault((path.as_posix(), habit), []).append(line)
    return found


def test_no_test_measures_the_machine(measured: dict[tuple[str, str], list[int]]) -> None:
    """On a busy machine it fails for nothing, and its next failure is taken for nothing, too."""
    refused = {key: lines for key, lines in measured.items() if key not in ALLOWED}
    said = [f"{path}:{line}: {habit}: {REMEDIES[habit]}" for (path, habit), lines in refused.items() for line in lines]
    assert not said, "\n".join(said)


def test_what_is_allowed_is_still_done(measured: dict[tuple[str, str], list[int]]) -> None:
    """An entry that is not needed any more would let the next offender in."""
    assert set(ALLOWED) <= set(measured)


@pytest.mark.parametrize(
    ("source", "habit"),
    [
        ("assert time.monotonic() - began_s < 5", TIME),
        ("from time import perf_counter as now\nassert now() == 3", TIME),
        ("watch = Stopwatch()\nact()\nassert watch.taken_s < 5", TIME),
        ("from tests import figures\nwatch = figures.Stopwatch()\nassert watch.taken_s < 5", TIME),
        ("began = time.time_ns()\nact()\ntook = (time.time_ns() - began) / 1e9\nassert 1 < round(took, 3) < 2", TIME),
        ("took = [time.perf_counter()]\nassert sorted(took)[0] == pytest.approx(5)", TIME),
        ("took = []\nfor _ in range(9):\n  took.append(time.perf_counter())\nassert min(took) < 5", TIME),
        ("assert min(timeit.repeat(act)) < 5", TIME),
        ("assert (datetime.now() - began).total_seconds() < 5", TIME),
        ("import datetime\nassert datetime.datetime.now() < end", TIME),
        ("class A:\n  def f(self): self.end = time.monotonic()\n  def g(self): return self.end > 3", TIME),
        ("def took(): return time.monotonic() - 1\ndef test(): assert took() < 5", TIME),
        ("def f():\n  end_s = time.monotonic()\n  wait(lambda: end_s > 3)", TIME),
        ("end_s = time.monotonic() + 5\nwhile time.monotonic() < end_s: pass", TIME),
        ("assert time.thread_time() - began_s < 2", TIME),
        ("PROGRAM = '''\n  import time\n  assert time.time() < 5\n'''", TIME),
        ("time.sleep(0.1)", SLEEP),
        ("from time import sleep\nsleep(seconds)", SLEEP),
        ("async def f(): await asyncio.sleep(1)", SLEEP),
        ("run([sys.executable, '-c', 'import time; time.sleep(600)'])", SLEEP),
        ("assert any(is_quick() for _ in range(20))", RETRY),
        ("best = max(rate() for _ in range(3))", RETRY),
        ("for n in range(3):\n  try:\n    check()\n    break\n  except AssertionError: pass", RETRY),
    ],
)
def test_what_measures_the_machine_is_seen(source: str, habit: str) -> None:
    """The check above would pass for ever if it saw nothing."""
    assert [found.habit for found in found_in(source)] == [habit]


def test_the_line_is_named() -> None:
    """Also of a program that a test keeps as a string."""
    source = 'import time\nPROGRAM = """\nimport time\ntime.sleep(1)\n"""\ntime.sleep(1)\n'
    assert found_in(source) == [Found(4, SLEEP), Found(6, SLEEP)]


@pytest.mark.parametrize(
    "source",
    [
        "assert backplane.clock.now_ns() - began_ns == 5",
        "assert control.turn(time.monotonic_ns()) == []",
        "watch = Stopwatch()\njudge('a call', watch.taken_s, 5.0)",
        "end = time.thread_time() + seconds\nwhile time.thread_time() < end: pass",
        "limit = Limit()\nwhile not is_so(): limit.check()",
        "with Span() as span: ask()\nassert asked_ns in span",
        "time.sleep(0)",
        "async def f(): await asyncio.sleep(0)",
        "backplane.clock.sleep(1.0)",
        "def f():\n  now = time.time()\ndef g(now): return now < 3",
        "assert any(found(n) for n in range(20))",
        "assert all(call.result() for _ in range(20))",
        "'It takes time; do not time.sleep(1) here'",
    ],
)
def test_what_does_not_measure_the_machine_is_left_alone(source: str) -> None:
    """A check that cries for nothing is turned off."""
    assert found_in(source) == []
