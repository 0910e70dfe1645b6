"""OpenTelemetry: whether the extra `[otel]` is installed, checked before a start, without importing it."""

import importlib.util

#: Stands after the name of the key in the TOML.
NEEDS = "needs OpenTelemetry: pip install 'appbackplane[otel]'"


def is_installed() -> bool:
    """Whether spans can be exported (execution/records/span_export.py)."""
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False
