"""Metrics: the figures for Prometheus. `exposition` selects them, `port` serves them.

Whether the extra `[metrics]` is installed is checked before a start, without importing it.
"""

import importlib.util

#: Stands after the name of the key.
NEEDS = "needs prometheus-client: pip install 'appbackplane[metrics]'"


def is_installed() -> bool:
    """Whether prometheus-client is there, so that a port can be opened."""
    return importlib.util.find_spec("prometheus_client") is not None
