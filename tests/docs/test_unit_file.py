"""The unit file for systemd is one that systemd takes, and says what the page says it does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS

UNIT = DOCS / "appbackplane@.service"
#: What the supervisor relies on; anything else there is taste.
RELIED_ON = {
    "Type": "notify",  # READY=1
    "NotifyAccess": "main",  # no backplane speaks for it
    "KillMode": "mixed",  # backplanes go in order, not all at once
    "Restart": "on-failure",
    "RestartPreventExitStatus": "2",  # a wrong TOML
    "OOMPolicy": "continue",  # a backplane that died is started again by the supervisor
    "Delegate": "cpu",  # cpu_limit by cgroups
    "Environment": "XDG_RUNTIME_DIR=%t XDG_STATE_HOME=%S",
}


def keys(text: str) -> dict[str, str]:
    """All settings of a unit file."""
    return dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE))


def test_it_says_what_the_supervisor_relies_on() -> None:
    """Where there is no systemd to ask."""
    found = keys(UNIT.read_text())
    assert {key: found.get(key) for key in RELIED_ON} == RELIED_ON
    assert found["ExecStart"].split()[1:] == ["up", "%E/appbackplane/%i.toml"], "in the foreground"
    assert float(found["TimeoutStopSec"]) > 60, "longer than `down` waits"


def verify(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What systemd says of it."""
    program = shutil.which("appbackplane", path=str(Path(sys.executable).parent)) or sys.executable
    unit = folder / UNIT.name.replace("@", "@shop")
    (folder / UNIT.name).write_text(text.replace("/usr/local/bin/appbackplane", f'"{program}"'))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_takes_it(tmp_path: Path) -> None:
    """An unknown key is ignored with a line that nobody reads."""
    good = verify(UNIT.read_text(), tmp_path)
    assert (good.returncode, said_of_ours(good)) == (0, [])
    bad = verify(UNIT.read_text().replace("KillMode=mixed", "KillMode=mixt"), tmp_path)
    assert said_of_ours(bad) != [], "this test would see a mistake"


def said_of_ours(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Lines about our unit; those about the machine's own are not our affair."""
    return [line for line in done.stderr.splitlines() if "appbackplane@" in line]
