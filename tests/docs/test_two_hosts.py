"""docs/peers.md on two hosts: its steps, typed as they stand there, each on the host that it is for (root only).

Without root test_pages.py runs the page on one host; here the two have a network each, an address that the other reaches, and
no other way to each other. Which host a command is for, its last word that names one says; the addresses of the page stand
for theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.docs.pages import DOCS, blocks, write
from tests.docs.shell import Shell, environment
from tests.network.hosts import Host, Hosts, obstacle

NAMES = ("berlin", "paris")
#: In the page, on one machine.
ADDRESSES = ("127.0.0.2", "127.0.0.3")
COMMAND = """#!/bin/bash
for word; do
    case "$word" in {cases} esac
done
exec $prefix {command} "$@"
"""


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Berlin's and Paris's."""
    if reason := obstacle():
        pytest.skip(reason)
    with Hosts(2) as two:
        yield two


@pytest.fixture
def shell(tmp_path: Path, run_dir: Path, hosts: Hosts) -> Iterator[Shell]:
    """In which `appbackplane` and `python` run on the host that they are for."""
    folder = run_dir / "bin"
    folder.mkdir()
    cases = " ".join(case(name, host) for name, host in zip(NAMES, hosts, strict=True))
    for name, command in (("appbackplane", Path(sys.executable).with_name("appbackplane")), ("python", sys.executable)):
        program = folder / name
        program.write_text(COMMAND.format(cases=cases, command=command))
        program.chmod(0o755)
    variables = environment(run_dir)
    with Shell(tmp_path, variables | {"PATH": f"{folder}:{variables['PATH']}"}) as shell:
        yield shell
    left = shell.left_behind()
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=10)


def case(name: str, host: Host) -> str:
    """What a word says of whom a command is for. The laptop is on the second one's network, and has nothing else of it."""
    words = f"{name}|{name}.toml" + ("|laptop|laptop.py" if name == NAMES[1] else "")
    return f'{words}) prefix="{" ".join(host.prefix)}" ;;'


def test_the_steps_set_up_two_hosts(tmp_path: Path, shell: Shell, hosts: Hosts) -> None:
    """From the keys to the leave; and the two were really on hosts of their own."""
    text = (DOCS / "peers.md").read_text()
    for shown, host in zip(ADDRESSES, hosts, strict=True):
        assert shown in text
        text = text.replace(shown, host.address)
    networks: set[str] = set()
    for block in blocks(text, "docs/peers.md"):
        if block.file is not None:
            write(block, tmp_path)
        elif block.language == "console" and "not-run" not in block.words:
            shell.run(block)
            networks |= {network(process) for process in shell.left_behind()}
    assert len(networks) == 2 and network(psutil.Process()) not in networks
    assert shell.left_behind() == [], "the page does not take down what it brings up"


def network(process: psutil.Process) -> str:
    """In which a process is."""
    return str(Path(f"/proc/{process.pid}/ns/net").readlink())
