"""Extras: checks before a start that the optional packages which the configuration asks for are installed."""

from __future__ import annotations

from appbackplane.runtime import otel

from .. import metrics
from ..configuration.config import Config, ConfigError


def check(config: Config) -> None:
    """Raises `ConfigError` with a remedy for each missing package."""
    if problems := missing(config):
        raise ConfigError(config.file, problems)


def missing(config: Config) -> list[str]:
    """A line for each key whose package is not there."""
    asked = (
        ("system.metrics", config.system.metrics is not None, metrics),
        ("trace", config.trace is not None, otel),
    )
    return [f"{key}: {extra.NEEDS}" for key, is_asked, extra in asked if is_asked and not extra.is_installed()]
