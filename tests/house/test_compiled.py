"""What setup.py compiles: that it is there, that a C compiler can name it, and that compiled it does what it did.

mypyc refuses most of what it cannot do, and says why. Here is what it takes without a word (docs/decisions/compiled.md),
read from the syntax trees: nothing is compiled, so it is told before minutes have been spent on it.
"""

import ast
import importlib.util
import os
import pty
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest


def load(root: Path) -> ModuleType:
    """setup.py, which does nothing when it is imported."""
    spec = importlib.util.spec_from_file_location("setup", root / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def compiled(root: Path) -> dict[str, ast.Module]:
    """The modules that are compiled, by their files."""
    files = [file.removeprefix("appbackplane/") for file in load(root).compiled_modules()]
    assert len(set(files)) == len(files) > 30
    assert [file for file in files if not (root / file).is_file()] == [], "listed in setup.py, and not there"
    return {file: ast.parse((root / file).read_text()) for file in files}


def names_of_fields(tree: ast.AST) -> set[str]:
    """Whatever may become a field of a struct: attributes, and variables that an inner function shares."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def refused_by_c(names: set[str], folder: Path) -> list[str]:
    """Those that mypyc's name for the field, `_NAME`, makes a word or a macro of the compiler's own."""
    source = folder / "fields.c"
    ordered = sorted(names)
    source.write_text(
        "#include <Python.h>\nstruct fields {\n" + "".join(f"    int _{name};\n" for name in ordered) + "};\n"
    )
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    options = [f"-I{sysconfig.get_path('include')}", "-fsyntax-only", str(source)]
    said = subprocess.run([*compiler, *options], capture_output=True, text=True, check=False).stderr
    wrong = {
        int(line.split(":")[1]) for line in said.splitlines() if line.startswith(f"{source}:") and "error:" in line
    }
    return [name for number, name in enumerate(ordered, 3) if number in wrong]


def attributes_of_classes(tree: ast.AST) -> Iterator[str]:
    """Class attributes with a value that are neither ClassVar nor Final: compiled they are instances' alone."""
    for cls in ast.walk(tree):
        if not isinstance(cls, ast.ClassDef) or any(is_not_native(base) for base in cls.bases):
            continue
        for node in cls.body:
            if isinstance(node, ast.AnnAssign) and node.value and not is_of_class(node.annotation):
                yield f"{cls.name}.{ast.unparse(node.target)}, line {node.lineno}"
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) not in ("__slots__", "__hash__"):
                yield f"{cls.name}.{ast.unparse(node.targets[0])}, line {node.lineno}"


def is_not_native(base: ast.expr) -> bool:
    """Whether a class with this base stays a Python class even where it is compiled."""
    return ast.unparse(base).split("[")[0].split(".")[-1] in (
        "Enum",
        "IntEnum",
        "Struct",
        "NamedTuple",
        "Protocol",
        "Exception",
    )


def is_of_class(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).split("[")[0].split(".")[-1] in ("ClassVar", "Final")


def coroutines(tree: ast.AST) -> Iterator[str]:
    """`async def`: compiled, what it returns can be awaited, but neither asyncio nor inspect take it for a coroutine."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            yield f"async def {node.name}, line {node.lineno}"


def recursions(tree: ast.AST) -> Iterator[str]:
    """Functions that call themselves: compiled, no RecursionError stops them before the stack is at its end."""
    for owner in ast.walk(tree):
        for node in ast.iter_child_nodes(owner):
            if isinstance(node, ast.FunctionDef):
                own = f"self.{node.name}" if isinstance(owner, ast.ClassDef) else node.name
                if own in {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}:
                    yield f"{node.name}, line {node.lineno}"


#: Recursions that are known to end: how deep, and why.
BOUNDED = {
    "transport/unpacking.py: as_key": "as deep as msgpack lets a frame be: 1024",
    "runtime/execution/intake/idempotency_cache.py: _ordered": "as deep as msgpack lets a frame be: 1024",
    "transport/waiting.py: _take_back": "once for each exception that strikes while it waits for a lock",
    "runtime/observation/statistics.py: of": "once: the account of all others is always there",
}
RULES: dict[str, Callable[[ast.AST], Iterator[str]]] = {
    "class attributes": attributes_of_classes,
    "coroutines": coroutines,
    "recursions": recursions,
}


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_compiled_that_would_do_something_else(compiled: dict[str, ast.Module], rule: str) -> None:
    """What differs without a word is found by whoever installs the package, and by nobody here."""
    found = [f"{file}: {what}" for file, tree in compiled.items() for what in RULES[rule](tree)]
    assert [each for each in found if each.split(", line")[0] not in BOUNDED] == [], RULES[rule].__doc__


BROKEN = {
    "a value on the class": ("class attributes", "class A:\n    limit: int = 3"),
    "a function on the class": ("class attributes", "class A:\n    now = staticmethod(clock)"),
    "a coroutine": ("coroutines", "class A:\n    async def f(self): ..."),
    "a recursion": ("recursions", "def f(n):\n    return f(n - 1)"),
    "a method that calls itself": ("recursions", "class A:\n    def f(self):\n        self.f()"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_would_do_something_else_is_seen(name: str) -> None:
    """The test above would pass for ever if it saw nothing."""
    rule, source = BROKEN[name]
    assert list(RULES[rule](ast.parse(source)))


def test_what_does_the_same_passes() -> None:
    """Constants of the class, enums and structs, slots."""
    source = "class A:\n    __slots__ = ('x',)\n    limit: ClassVar[int] = 3\n    x: int\nclass B(Enum):\n    C = 1\n"
    assert not [what for rule in RULES.values() for what in rule(ast.parse(source))]


@pytest.fixture(scope="module")
def compiler(root: Path) -> None:
    """There is one, and it works."""
    if obstacle := load(root).what_is_in_the_way():
        pytest.skip(obstacle)


@pytest.mark.usefixtures("compiler")
def test_no_field_is_a_word_of_c(compiled: dict[str, ast.Module], tmp_path: Path) -> None:
    """`self._thread` is the field `__thread`, a keyword of gcc: its error names a line of generated C, and nothing else."""
    names = {name for tree in compiled.values() for name in names_of_fields(tree)}
    assert refused_by_c(names, tmp_path) == [], "give it another name"


@pytest.mark.usefixtures("compiler")
def test_a_word_of_c_is_seen(tmp_path: Path) -> None:
    """A keyword of C, one of gcc, and a macro; not what only looks like one."""
    tree = ast.parse("self._thread = self.Bool = self._linux = self._threads = bool = int = 0")
    assert refused_by_c(names_of_fields(tree), tmp_path) == ["Bool", "_linux", "_thread"]


def test_one_module_speaks_for_all(compiled: dict[str, ast.Module]) -> None:
    """runtime/build.py asks the file of this one whether the package is compiled."""
    assert "transport/envelope.py" in compiled


def test_what_scripts_build_with_is_what_builds_the_package(root: Path) -> None:
    """Two lists of the same: the compiled package that is tested here would be another than the one that is installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    own = {*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["build"]}
    assert set(project["build-system"]["requires"]) <= own


@pytest.mark.parametrize(
    ("asked", "exit_code", "said"),
    [
        ("", 0, "not compiled (there is no C compiler (no-such-cc)): it works, at half the speed"),
        ("auto", 0, "not compiled"),
        ("0", 0, ""),
        ("1", 1, "APPBACKPLANE_COMPILE=1, but there is no C compiler (no-such-cc): install"),
        ("yes", 1, "APPBACKPLANE_COMPILE=yes: expected 0, 1 or auto"),
    ],
)
def test_without_a_compiler_it_is_said(root: Path, asked: str, exit_code: int, said: str) -> None:
    """It installs all the same, unless the person who installs it wants it compiled."""
    run = subprocess.run(
        [sys.executable, "-B", "-c", "import setup; assert not setup.is_wanted()"],
        cwd=root, env=os.environ | {"APPBACKPLANE_COMPILE": asked, "CC": "no-such-cc"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == exit_code, run.stderr
    assert said in run.stdout + run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.usefixtures("compiler")
def test_a_compiler_that_does_not_work_is_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that has gcc and no C library: `pip install` would fail where it could have gone on."""
    works = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    monkeypatch.setenv("CC", f"{works} -nostdinc")
    assert "does not work" in load(root).what_is_in_the_way()


#: A build of one module whose C takes no time to write, until two lines of progress have been said.
COMPILES = """
import sys, threading
import setup
said, enough, say = [], threading.Event(), setup.say
def tell(line):
    say(line)
    said.append(line)
    if sum("so far" in each for each in said) == 2:
        enough.set()
setup.say, setup.PROGRESS_EVERY_S = tell, 0.01
progress = setup.Progress(1)
progress.expect_compiler()
enough.wait()
progress.end()
"""


def test_compiling_is_said_to_pip_and_to_the_terminal(root: Path, tmp_path: Path) -> None:
    """pip hides what a build says: for minutes nobody would know that it has not hung, nor how to do without."""
    command = [sys.executable, "-B", "-c", COMPILES]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(root)
        os.dup2(os.open(tmp_path / "stderr", os.O_CREAT | os.O_WRONLY), 2)
        os.execv(command[0], command)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the program has ended
            break
    assert os.waitpid(pid, 0)[1] == 0, (tmp_path / "stderr").read_text()
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert "compiling 1 modules" in lines[0] and "APPBACKPLANE_COMPILE=0 leaves it out" in lines[0]
    assert "in all it takes about" in lines[1]
    assert "so far" in lines[2] and "so far" in lines[3]
    assert "compiled 1 modules in" in lines[-1]
    assert [line.strip() for line in shown.decode().splitlines() if line.strip()] == lines
