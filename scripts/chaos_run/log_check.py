"""Log check: what the system said that no chaos explains. Pure but for the reading.

Of the supervisor, an error that a death, or an order to restart, does not explain; of anybody, a traceback, and a line that
begins with BROKEN: that is what components say when a promise was not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from .components import HOOK_FAILED

#: Of the supervisor: deaths that the moves bring about, and what follows from them.
EXPLAINED: Final = re.compile(
    r"backplane '\w+': (killed by signal (9|15)|exited with 0|killed by SIGKILL|closed its control link|unknown: no heartbeat"
    rf"|component '\w+' did not become \w+: .*({HOOK_FAILED}|its process (has died|cannot be reached))"
    r"|draining stopped: '\w+' died"
    r"|drained, but (result of draining unknown: .*its process (has died|cannot be reached)))"
)
#: Of a backplane, the end of a traceback: whom it has called, and nobody waits for its answer who could be told.
REFUSED: Final = re.compile(r"appbackplane\.transport\.errors\.(PeerDown|Unavailable|Busy): ")
#: The same in one line: an error that nobody waits for and that is no bug.
TOLD: Final = re.compile(
    r"\S+ on \S+ failed: .*(the process that held the call died|is not served while|made room for more urgent work)"
)
#: Of the same: a hook of ours.
FAILED: Final = re.compile(rf"RuntimeError: {HOOK_FAILED}")
#: Kept: the first ones are those to look at.
LINES_MAX: Final = 20


def unexplained(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those that nobody expected, as they would be shown."""
    found = []
    for line in lines:
        if is_odd(line) and len(found) < LINES_MAX:
            who = f"{line['backplane']}-{line.get('generation', 0)}"
            found.append(f"{who} {line['level']}: {line['message']} {line.get('error', '')}")
    return found


def is_odd(line: Mapping[str, Any]) -> bool:
    """Whether no chaos explains it."""
    said, error = line["message"], line.get("error", "").strip()
    if "BROKEN" in said or "Traceback" in said:
        return True
    if line["level"] not in ("ERROR", "CRITICAL"):
        return False
    if line["backplane"] == "supervisor":
        return bool(error) or not EXPLAINED.match(said)
    last = error.rpartition("\n")[2]
    return not (TOLD.match(said) or REFUSED.match(last) or FAILED.match(last))


def read(folder: Path) -> list[dict[str, Any]]:
    """All lines of the log in it."""
    return [json.loads(line) for file in sorted(folder.rglob("*.jsonl")) for line in file.read_text().splitlines()]
