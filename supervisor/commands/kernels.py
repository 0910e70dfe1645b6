"""Kernels: finds the request kernels of a system, by their route for command lines."""

from __future__ import annotations

from typing import Any, Final

#: Name and summary of the route for a kernel's command lines: runtime/requests/command_routes.py, whose import would make a
#: person at a terminal wait (tests/supervisor/test_requests_command.py).
LINE: Final = "command"
SUMMARY: Final = "Run a command, such as `workers 4`; `help` lists all commands."


def kernels_of(routes: list[dict[str, Any]]) -> dict[str, dict[str, bool]]:
    """From a reply to `supervisor.routes`: each kernel, its backplanes, and whether it can be called there."""
    return {
        entry["component"]: entry["places"]
        for entry in routes
        if entry["route"] == f"{entry['component']}.{LINE}" and entry["summary"] == SUMMARY
    }
