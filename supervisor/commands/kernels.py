"""Kernels: which request kernels a system has, among all that can be called: those with a route for lines of commands."""

from __future__ import annotations

from typing import Any, Final

#: The route of a kernel's lines, below its name, and what it says of itself: runtime/requests/command_routes.py, which a person
#: at a terminal need not wait for (tests/supervisor/test_requests_command.py).
LINE: Final = "command"
SUMMARY: Final = "Do what a line says, as `workers 4`; `help` lists what there is."


def kernels_of(routes: list[dict[str, Any]]) -> dict[str, dict[str, bool]]:
    """Of what `supervisor.routes` says: each kernel, and the backplanes that have it, with whether it can be called there."""
    return {
        entry["component"]: entry["places"]
        for entry in routes
        if entry["route"] == f"{entry['component']}.{LINE}" and entry["summary"] == SUMMARY
    }
