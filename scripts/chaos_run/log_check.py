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

#: Of the supervisor: deaths that the moves bring about, and what follows from them.
EXPLAINED: Final = re.compile(
    r"backplane '\w+': (killed by signal 9|killed by SIGKILL|closed its control link"
    r"|component '\w+' did not become \w+: .*its process (has died|cannot be reached))"
)
#: Kept: the first ones are those to look at.
LINES_MAX: Final = 20


def unexplained(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those that nobody expected, as they would be shown."""
    found = []
    for line in lines:
        said = line["message"]
        is_error = line["level"] in ("ERROR", "CRITICAL")
        is_odd = (
            "BROKEN" in said
            or "Traceback" in said
            or (line.get("error") and is_error)
            or (line["backplane"] == "supervisor" and is_error and not EXPLAINED.match(said))
        )
        if is_odd and len(found) < LINES_MAX:
            found.append(
                f"{line['backplane']}-{line.get('generation', 0)} {line['level']}: {said} {line.get('error', '')}"
            )
    return found


def read(folder: Path) -> list[dict[str, Any]]:
    """All lines of the log in it."""
    return [json.loads(line) for file in sorted(folder.rglob("*.jsonl")) for line in file.read_text().splitlines()]
