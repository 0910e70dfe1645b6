"""The supervisor's own urgency: raised where it is alone in its group, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from appbackplane.supervisor.processes.urgency import NICE

SOURCE = """
import sys
from pathlib import Path
from appbackplane.supervisor.processes.urgency import raise_own
told = raise_own(is_alone=sys.argv[1] == "alone")
group = Path("/proc/self/autogroup").read_text().split()  # empty where nobody has ever made a session
print(told, group[-1] if group else 0)
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists() or os.geteuid() != 0, reason="autogroups and the right to raise them"
)


@pytest.mark.parametrize(
    ("who", "leads", "expected"),
    [("alone", True, f"True {NICE}"), ("with backplanes", True, "False 0"), ("alone", False, "False")],
)
def test_only_a_group_of_its_own_is_raised(who: str, leads: bool, expected: str) -> None:
    """A terminal whose jobs are raised with it, or backplanes that are, would take the machine from everybody else."""
    told = subprocess.run(
        [sys.executable, "-c", SOURCE, who], capture_output=True, text=True, check=True, start_new_session=leads
    )
    assert told.stdout.strip().startswith(expected)
