"""`appbackplane` with stand-ins for its backplanes (stand_in.py)."""

from __future__ import annotations

import sys
from pathlib import Path

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.processes import spawn

spawn.COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
main()
