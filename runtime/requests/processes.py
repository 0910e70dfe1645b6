"""Processes: placeholder replaced below."""

from __future__ import annotations


class ProcessExecutor:
    pass
