"""Streamed arguments between processes: each call ends exactly once, whoever dies, and never with a list that looks whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from appbackplane.transport import stream

from .conftest import System, Up

TILL = """
[backplane.tables]
components = ["loaded:Store"]
restart = { max = 1000, backoff = "5ms", backoff_max = "10ms" }
"""


@pytest.fixture
def system(folder: Path, up: Up) -> System:
    shutil.copy(Path(__file__).with_name("loaded.py"), folder)
    return up(TILL)


@pytest.mark.parametrize("window", [1, 7, 1024])
@pytest.mark.parametrize("route", ["store.load", "store.load_plainly"])
def test_all_items_come_in_order(system: System, route: str, window: int) -> None:
    """From a list, and from a generator."""
    with system.connect() as client:
        assert client.call(route, rows=stream(range(3000), window=window)) == [3000, 4_498_500]
        assert client.call(route, rows=stream((n for n in range(300)), window=window)) == [300, 44_850]
        assert client.call(route, rows=stream([], window=window)) == [0, 0]
