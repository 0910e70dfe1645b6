"""The extra `[metrics]`: whether what a metrics port needs is installed. Asked before anything starts, without importing it."""

from __future__ import annotations

import importlib.util

#: After the name of the key.
NEEDS = "needs prometheus-client: pip install 'appbackplane[metrics]'"


def is_installed() -> bool:
    """Whether a metrics port could be opened."""
    return importlib.util.find_spec("prometheus_client") is not None
