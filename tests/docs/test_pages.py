"""Every page of docs/ does what it says: its files are written, its programs and commands run, its output compared.

A page whose examples have stopped working costs a newcomer an afternoon and us their trust; nobody who knows the
project reads it again to find out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from appbackplane.supervisor.configuration import config
from tests.docs.pages import DOCS, PAGES, Block, blocks, run_python, write
from tests.docs.shell import Shell, commands, is_as_shown
from tests.network.hosts import obstacle

#: What a block may be; anything else is a typing error, and would silently not be run.
LANGUAGES = {"python", "toml", "console", "text", ""}
#: Where readers begin: there each command is an interpreter of its own, as theirs is; elsewhere a fork (forked.py).
TYPED = {"tutorial.md"}
#: Words beside the language.
WORDS = {"not-run"}


def name_of(page: Path) -> str:
    """As it is called from the root."""
    return str(page.relative_to(DOCS.parent))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_page_does_what_it_says(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, as a reader would, from an empty folder, from which its files can be imported."""
    if page.name == "peers.md" and obstacle() is None:
        pytest.skip("it is run on two hosts: test_two_hosts.py")
    monkeypatch.syspath_prepend(tmp_path)
    found = blocks(page.read_text(), name_of(page))
    shell: Shell | None = None
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in found:
        assert block.language in LANGUAGES and set(block.words) <= WORDS, (
            f"{block.place}: {block.language} {block.words}"
        )
        if "not-run" in block.words:
            continue
        if block.file is not None:
            write(block, tmp_path)
        elif block.language == "python":
            run_python(block, namespace)
        elif block.language == "toml":
            check_toml(block)
        elif block.language == "console":
            shell = shell or request.getfixturevalue("own_shell" if page.name in TYPED else "shell")
            shell.run(block)
    for name in {block.file.removesuffix(".py") for block in found if block.file is not None}:
        sys.modules.pop(name, None)
    assert shell is None or shell.left_behind() == [], "the page does not take down what it brings up"
    for path in tmp_path.glob("*.toml"):
        config.load(path)


def check_toml(block: Block) -> None:
    """A whole system, or a part of one: what is missing around it is put there."""
    text = block.text
    if "[system]" not in text:
        text = f'[system]\nname = "page"\n{text}'
    if "[backplane" not in text:
        text = f'{text}\n[backplane.main]\ncomponents = ["page:Page"]\n'
    config.parse(text, Path(f"/{block.place}"))


# The tests above would pass for ever if these did not see anything.


def test_blocks_are_found() -> None:
    """With the line on which they begin."""
    page = "a\n```python\nx = 1\n```\n\n```console not-run\n$ ls\n```\n```toml\n# a.toml, continued\n[system]\n```\n"
    assert blocks(page, "p") == [
        Block("p", 3, "python", (), "x = 1\n"),
        Block("p", 7, "console", ("not-run",), "$ ls\n"),
        Block("p", 10, "toml", (), "# a.toml, continued\n[system]\n"),
    ]
    assert [(block.file, block.is_continued) for block in blocks(page, "p")] == [
        (None, False), (None, False), ("a.toml", True),
    ]  # fmt: skip


def test_a_wrong_result_is_seen() -> None:
    """In a dialogue; and one that is right passes."""
    namespace: dict[str, object] = {}
    run_python(Block("p", 1, "python", (), ">>> x = 2\n>>> x + 2\n4\n"), namespace)
    assert namespace["x"] == 2, "later blocks go on with it"
    with pytest.raises(AssertionError, match="Expected:\n    5"):
        run_python(Block("p", 1, "python", (), ">>> x + 2\n5\n"), namespace)


def test_a_failing_program_names_its_line() -> None:
    """Or nobody would find it in a page of prose."""
    with pytest.raises(ZeroDivisionError) as raised:
        run_python(Block("p.md", 7, "python", (), "x = 1\n1 / 0\n"), {})
    assert raised.traceback[-1].lineno + 1 == 8


def test_wrong_toml_is_seen() -> None:
    """A key that does not exist is worse than none."""
    check_toml(Block("p", 1, "toml", (), '[backplane.a]\ncomponents = ["a:A"]\n'))
    with pytest.raises(config.ConfigError, match="unknown key"):
        check_toml(Block("p", 1, "toml", (), '[backplane.a]\ncomponents = ["a:A"]\nthread = 2\n'))


@pytest.mark.parametrize(
    ("shown", "output", "is_same"),
    [
        ("a  b\n", "a b   \n", True),
        ("a\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("pid ..., for ... s\n", "pid 12, for 0.3 s\n", True),
        ("a...\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\n", "b\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared(shown: str, output: str, is_same: bool) -> None:
    """Blanks count once, `...` is anything in its line, or any lines where it is alone; all else is meant."""
    assert is_as_shown(shown, output) is is_same


def test_a_console_is_typed_command_by_command(shell: Shell) -> None:
    """Variables last; a failure fails, unless its exit code is asked for."""
    block = Block("p", 1, "console", (), "$ x=1\n$ echo $x\n1\n$ false\n$ echo $?\n1\n")
    assert [command.line for command in commands(block)] == ["x=1", "echo $x", "false", "echo $?"]
    shell.run(block)
    shell.run(Block("p", 1, "console", (), "$ echo $x\n1\n"))
    for shown in ("b\n", "waiting for a to finish\nb\n"):
        shell.run(Block("p", 1, "console", (), f"$ echo waiting for a to finish; echo b\n{shown}"))
    with pytest.raises(AssertionError, match="exit code 1"):
        shell.run(Block("p", 1, "console", (), "$ false\n"))
    with pytest.raises(AssertionError, match="The page shows"):
        shell.run(Block("p", 1, "console", (), "$ echo a\nb\n"))


def test_a_look_is_typed_until_it_shows_what_is_to_be_seen(shell: Shell) -> None:
    """A log line may come behind the answer; whatever does something is typed once."""
    shell.run(Block("p", 1, "console", (), "$ appbackplane() { cat told 2>/dev/null; echo b >>told; }\n"))
    shell.run(Block("p", 1, "console", (), "$ appbackplane logs\nb\nb\n"))
    with pytest.raises(AssertionError, match="The page shows"):
        shell.run(Block("p", 1, "console", (), "$ appbackplane call\nb\nb\nb\nb\n"))
    shell.run(Block("p", 1, "console", (), "$ wc -l <told\n4\n"))
