"""Servers of things by others are measured where they are installed, and each other has a line that says how to get it."""

from __future__ import annotations

import importlib.util
import shutil

import pytest
from bench_cases.peers.things_servers import thing_servers


def test_what_is_not_installed_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with thing_servers(0.02) as found:
        assert not found
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["node-wot", "webthing-python"]
    assert "npm install" in lines[0] and "pip install" in lines[1]
