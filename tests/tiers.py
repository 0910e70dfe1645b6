"""Tiers: which file of tests runs in which part of `scripts/test`.

checks    what a machine can tell without running the program: layout, walls, types
pieces    pure logic, in one process, and no other is started (tests/conftest.py refuses it)
systems   real processes and sockets; the command line is mostly a fork that has been imported before (launcher.py)
calm      what takes a JVM, a page of the docs or an example, and says nothing about time

The longest path that a file begins with decides. Files that start processes belong to the systems, wherever they lie; in a
file of pieces, the mark `systems` moves a single test there (such files are listed in MIXED).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TIERS = ("checks", "pieces", "systems", "calm")

#: Folders and files, relative to the root, to their tier.
TIER_OF = {
    "tests": "pieces",
    "tests/house": "checks",
    "tests/house/test_wheel.py": "calm",
    "tests/mutation": "checks",
    "tests/typing": "checks",
    "tests/system": "systems",
    "tests/network": "systems",
    "tests/chaos": "systems",
    "tests/bench/test_cases.py": "systems",
    "tests/bench/test_charts.py": "systems",
    "tests/runtime/execution/test_os_priority.py": "systems",
    "tests/runtime/execution/test_signals.py": "systems",
    "tests/supervisor/doctor/test_checkup.py": "systems",
    "tests/supervisor/live/test_window.py": "systems",
    "tests/supervisor/metrics/test_metrics.py": "systems",
    "tests/supervisor/processes": "systems",
    "tests/supervisor/test_bad_input.py": "systems",
    "tests/supervisor/test_commands.py": "systems",
    "tests/supervisor/test_completing.py": "systems",
    "tests/supervisor/test_drain_processes.py": "systems",
    "tests/supervisor/test_folders.py": "systems",
    "tests/supervisor/test_health_processes.py": "systems",
    "tests/supervisor/test_interrupts.py": "systems",
    "tests/supervisor/test_late_readers.py": "systems",
    "tests/supervisor/test_limits.py": "systems",
    "tests/supervisor/test_move_command.py": "systems",
    "tests/supervisor/test_new.py": "systems",
    "tests/supervisor/test_order_of_moves.py": "systems",
    "tests/supervisor/test_reload.py": "systems",
    "tests/supervisor/test_restart_processes.py": "systems",
    "tests/supervisor/test_system.py": "systems",
    "tests/supervisor/test_top.py": "systems",
    "tests/supervisor/test_trials.py": "systems",
    "tests/transport/test_accept_gate.py": "systems",
    "tests/transport/test_exports.py": "systems",
    "tests/transport/test_link_left_behind.py": "systems",
    "tests/docs": "calm",
    "tests/examples": "calm",
    "tests/spark": "calm",
    "tests/spark/replay": "pieces",
}

#: Files of pieces in which some tests bear the mark `systems`.
MIXED = (
    "tests/runtime/dispatcher/sources/test_blocks.py",
    "tests/runtime/execution/test_log_handler.py",
    "tests/runtime/execution/test_log_ring.py",
    "tests/supervisor/cluster/test_file_store.py",
    "tests/supervisor/configuration/test_node_settings.py",
    "tests/transport/peers/test_lines.py",
    "tests/transport/remote/test_remote_link.py",
    "tests/transport/security/test_keyring.py",
    "tests/transport/security/test_links.py",
    "tests/transport/test_async_client.py",
    "tests/transport/test_client.py",
    "tests/transport/test_lifeline.py",
    "tests/transport/test_uncopied.py",
)

#: Folders of pieces: those that import a compiled module run a second time, with the compiled package (compiled_pieces.py).
COMPILED = ("tests/laws", "tests/runtime", "tests/spark/replay", "tests/transport")


@cache
def tier_of(path: Path) -> str:
    """The tier of a file or folder of tests."""
    relative = path.relative_to(ROOT)
    for each in (relative, *relative.parents):
        if tier := TIER_OF.get(each.as_posix()):
            return tier
    raise ValueError(f"{path} is no part of tests/")


def has_tests_of(path: Path, tier: str) -> bool:
    """Whether a file or folder may hold tests of a tier."""
    name = path.relative_to(ROOT).as_posix()
    inside = {tier_of(path)} | {TIER_OF[each] for each in TIER_OF if each.startswith(f"{name}/")}
    if any(each == name or each.startswith(f"{name}/") for each in MIXED):
        inside.add("systems")
    return tier in inside
