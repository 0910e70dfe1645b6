"""Loading: what is wrong with a component is one line that ends in the user's own file and line."""

from __future__ import annotations

import queue  # as the runtime does, too
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.runtime.loading import DeclarationFault, load_component
from appbackplane.runtime.process import assemble
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.runtime.testing.memory_link import MemoryLink

HEAD = "from appbackplane.runtime import Component, operation\n"
Fails = Callable[[str], str]


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fails]:
    """What is said of the component "mine:A" of a module with this text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    config = ProcessConfig(
        system="s", backplane="b", generation=1, run_dir=str(tmp_path), components=("mine:A",), import_dir=str(tmp_path)
    )

    def fails(text: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        with pytest.raises(DeclarationFault) as raised:
            assemble(config, [load_component("mine:A", config)], MemoryLink(), None)
        return str(raised.value)

    yield fails
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nimport numpyy", "component 'mine:A': No module named 'numpyy' (mine.py:2)"),
        (
            "import sys\n1 / 0",
            "component 'mine:A': importing mine failed: ZeroDivisionError: division by zero (mine.py:2)",
        ),
        ("def f(:", "component 'mine:A': importing mine failed: SyntaxError: invalid syntax (mine.py, line 1)"),
        (
            HEAD + "class A(Component):\n    @operation\n    def f(self): ...",
            "component 'mine:A': importing mine failed: DeclarationError: "
            "A.f: write @operation(), with parentheses (mine.py:3)",
        ),
        (
            HEAD + "class A(Component):\n    def __init__(self):\n        open('/not/there')",
            "component 'mine:A': its constructor failed: FileNotFoundError: "
            "[Errno 2] No such file or directory: '/not/there' (mine.py:4)",
        ),
        (
            HEAD + "class A(Component):\n    def setup(self):\n        raise RuntimeError('no database\\nsecond line')",
            "component 'mine:A': setup failed: RuntimeError: no database ... (mine.py:4)",
        ),
        (
            HEAD + "class A(Component):\n    def setup(self):\n        raise RuntimeError",
            "component 'mine:A': setup failed: RuntimeError (mine.py:4)",
        ),
        (
            HEAD + "class A(Component):\n    def setup(self):\n        self.add(A)",
            "component 'mine:A': setup failed: DeclarationError: A.add: A is a class: add an object of it, A() (mine.py:4)",
        ),
        (
            HEAD + "import json\nclass A(Component):\n    def setup(self):\n        json.loads('x')",
            "component 'mine:A': setup failed: JSONDecodeError: Expecting value: line 1 column 1 (char 0) (mine.py:5)",
        ),
        (
            HEAD + "class A(Component):\n    @operation(priority=9)\n    def f(self): ...",
            "DeclarationError: A.f: priority 9, but the backplane has 0..7",
        ),
        (HEAD, "component 'mine:A': mine has no Component 'A' (it has: none)"),
    ],
)
def test_what_a_users_code_raises_is_one_line_with_its_place(fails: Fails, text: str, said: str) -> None:
    """Nothing else of it is told: without the place a person greps for the words, and the second line alone says nothing."""
    assert fails(text) == said


def test_a_module_that_is_hidden_by_another_is_told(fails: Fails, tmp_path: Path) -> None:
    """`queue.py` beside the TOML: whatever imported the library's before has it for all."""
    own = tmp_path / "queue.py"
    config = ProcessConfig(
        system="s", backplane="b", run_dir=str(tmp_path), components=("queue:Q",), import_dir=str(tmp_path)
    )
    own.write_text(HEAD)
    says = rf"queue has no Component 'Q' .*: it was imported from .*/queue\.py, which hides {re.escape(str(own))}: give"
    with pytest.raises(DeclarationFault, match=says) as raised:
        load_component("queue:Q", config)
    assert str(queue.__file__) in str(raised.value)
    own.unlink()
    with pytest.raises(DeclarationFault, match=r"\(it has: none\)$"):
        load_component("queue:Q", config)
