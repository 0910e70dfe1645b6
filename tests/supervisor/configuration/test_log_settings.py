"""`[system] log`: what it may cost is checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.runtime.execution.logs import log_ring
from appbackplane.supervisor.configuration import log_settings
from appbackplane.supervisor.configuration.config import ConfigError, parse
from appbackplane.supervisor.configuration.log_settings import LogSettings, size_bytes

TOML = '[system]\nname = "demo"\nlog = {}\n[backplane.main]\ncomponents = ["demo:Main"]\n'


def settings(text: str) -> LogSettings:
    """As `up` understands it."""
    return parse(TOML.replace("{}", text), Path("/demo.toml")).system.log


def test_defaults_and_all_that_can_be_said() -> None:
    """A system that says nothing keeps 80 MiB."""
    assert settings("{}") == LogSettings() == LogSettings("INFO", None, 16 << 20, 5, 1 << 20, "lose")  # type: ignore[arg-type]
    told = settings(
        '{ level = "DEBUG", dir = "log", file_size = "1.5MiB", files = 2, ring = 200000, when_full = "wait" }'
    )
    assert (told.level, told.dir, told.file_size, told.files, told.ring) == ("DEBUG", "log", 1_572_864, 2, 200_000)
    assert told.when_full == "wait"


WRONG = {
    '{ level = "LOUD" }': "system.log.level: expected one of 'DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'",
    "{ files = 0 }": "system.log.files: expected",
    '{ file_size = "much" }': 'system.log.file_size: expected a size above 0: "16MiB"',
    "{ file_size = 1 }": "system.log.file_size: expected 64KiB to 1GiB, got 1B",
    '{ ring = "2GiB" }': "system.log.ring: expected 128KiB to 1GiB, got 2GiB",
    "{ ring = true }": "system.log.ring: expected a size",
    '{ when_full = "block" }': "system.log.when_full: expected one of 'lose', 'wait'",
    '{ dir = "" }': "system.log.dir: expected a path",
    "{ size = 1 }": "system.log.size: unknown key",
    '"INFO"': "system.log: expected a table, got 'INFO'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_its_key(text: str) -> None:
    """A log that is silently not kept is missed when it is needed."""
    with pytest.raises(ConfigError) as raised:
        settings(text)
    assert any(problem.startswith(WRONG[text]) for problem in raised.value.problems), raised.value.problems


@pytest.mark.parametrize(("text", "size"), [("1B", 1), ("2 KB", 2_000), ("0.5KiB", 512), (" 3GiB ", 3 << 30), (77, 77)])
def test_sizes_are_written_as_people_do(text: str | int, size: int) -> None:
    """Decimal and binary units are not the same."""
    assert size_bytes(text) == size


def test_bounds_are_those_of_the_ring() -> None:
    """Two numbers for one thing would drift apart."""
    assert (log_settings.RING_BYTES_MIN, log_settings.RING_BYTES_MAX) == (
        log_ring.RING_BYTES_MIN,
        log_ring.RING_BYTES_MAX,
    )
