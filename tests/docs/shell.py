"""Shell: a page's consoles, typed into one shell, and what it says compared with what the page shows.

One shell a page, so that `cd` and variables last from block to block, as they do for a reader. Nobody is at the keyboard
and no terminal is there; tables are therefore padded with blanks, and runs of blanks count as one, because a column is
as wide as what stands in it. `...` stands for anything within a line; on a line of its own for any lines.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

import psutil

from tests.waiting import EVERY_S, Limit

from .pages import ROOT, Block

#: Of one command. The longest brings up five systems, one after the other, in some ten seconds: beside twenty busy programs
#: a minute was too short.
LIMIT_S = 300.0
#: How a command passes the time on a slow machine; where it is quick, nothing is said.
_WAITING = re.compile(r"^waiting for .*\n", re.MULTILINE)
#: Commands that look, and change nothing, are typed until they show what the page shows: a log line, an account, or the state
#: of a neighbour comes a moment behind the answer of the command before; and completion has half a second.
_LOOK = re.compile(r"appbackplane (logs|status|peers|top)\b|COMP_WORDS=")
_END = "\x01end of command\x01"


class Command(NamedTuple):
    """One line that is typed, and what the page shows of its output; "" if nothing."""

    line: str
    shown: str


class Said(NamedTuple):
    """Output and exit status of a command."""

    output: str
    status: int


def commands(block: Block) -> list[Command]:
    """The commands of a console. A line that begins with `$ ` is typed, what follows is shown."""
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
        else:
            assert found, f"{block.place}: a console begins with a command: $ ..."
            found[-1] = Command(found[-1].line, f"{found[-1].shown}{line}\n")
    return found


def is_as_shown(shown: str, output: str) -> bool:
    """Whether `output` is what the page shows."""
    pattern = ""
    for line in shown.rstrip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in _plain(line).split("...")) + r"\n"
    return re.fullmatch(pattern, "".join(f"{_plain(line)}\n" for line in output.rstrip().splitlines())) is not None


class Shell:
    """A bash in a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=self._environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._type("_end() { return $_status; }")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, block: Block) -> None:
        """Type a console's commands. Fails where the output is not as shown, or a command fails without a word of it."""
        typed = commands(block)
        for number, command in enumerate(typed):
            # A page that shows how something is refused shows the error's line, or asks for the exit code.
            is_asked = number + 1 < len(typed) and typed[number + 1].line == "echo $?"
            problem, limit = self._problem(command, is_asked=is_asked), Limit()
            while problem and _LOOK.match(command.line) and limit.left_s:
                limit.check(pause_s=10 * EVERY_S)
                problem = self._problem(command, is_asked=is_asked)
            assert not problem, f"{block.place}: {problem}"

    def _problem(self, command: Command, *, is_asked: bool) -> str:
        """Type a command. What is not as the page shows; "": nothing."""
        said = self._type(command.line)
        about = f"$ {command.line}\n{said.output}"
        is_failure_shown = command.shown.startswith("appbackplane: ")
        if not is_asked and bool(said.status) is not is_failure_shown:
            return f"{about}exit code {said.status}"
        outputs = said.output, _WAITING.sub("", said.output)
        if command.shown and not any(is_as_shown(command.shown, each) for each in outputs):
            return f"{about}The page shows:\n{command.shown}"
        return ""

    def left_behind(self) -> list[psutil.Process]:
        """What still runs of all that was started here, the shell itself not among it."""
        run_dir = self._environment["XDG_RUNTIME_DIR"]
        return [
            process
            for process in psutil.process_iter(["environ"])
            if (process.info["environ"] or {}).get("XDG_RUNTIME_DIR") == run_dir and process.pid != self._process.pid
        ]

    def _type(self, line: str) -> Said:
        assert self._process.stdin is not None and self._process.stdout is not None
        # Commands read no input of ours; and $? is for the next command what this one left. No subshell for that: one
        # that is just ending would be found by `left_behind`.
        typed = f"{{ {line}\n}} </dev/null; _status=$?; printf '%s%d\\n' '{_END}' $_status; _end\n"
        self._process.stdin.write(typed.encode())
        self._process.stdin.flush()
        fd, output, limit = self._process.stdout.fileno(), b"", Limit(LIMIT_S)
        while not (found := re.search(rf"{_END}(\d+)\n$", output.decode(errors="replace"))):
            assert select.select([fd], [], [], limit.left_s)[0], f"$ {line}: still runs"
            more = os.read(fd, 65_536)
            assert more, f"$ {line}: the shell has ended: {output.decode(errors='replace')}"
            output += more
        return Said(output.decode(errors="replace")[: found.start()], int(found[1]))


def environment(run_dir: Path, *folders: Path) -> dict[str, str]:
    """What a reader's shell has: the environment's own programs first, but for those of `folders`; its own run directories."""
    kept = {name: value for name, value in os.environ.items() if name not in ("APPBACKPLANE_SYSTEM", "PYTHONPATH")}
    return {
        **kept,
        "PATH": os.pathsep.join([*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "XDG_RUNTIME_DIR": str(run_dir),
        "XDG_STATE_HOME": str(run_dir / "state"),
        "XDG_CONFIG_HOME": str(run_dir / "config"),
        "CHECKOUT": str(ROOT),
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }


def _plain(line: str) -> str:
    return re.sub(r" +", " ", line.rstrip())
