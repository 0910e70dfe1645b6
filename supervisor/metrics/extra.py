"""The extra `[metrics]`: whether a metrics port's packages are installed. Checked before a start, without importing them."""

from __future__ import annotations

import importlib.util

#: Stands after the name of the key.
NEEDS = "needs prometheus-client: pip install 'appbackplane[metrics]'"


def is_installed() -> bool:
    """Whether prometheus-client is there, so that a port can be opened."""
    return importlib.util.find_spec("prometheus_client") is not None
