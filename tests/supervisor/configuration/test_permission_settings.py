"""[permissions] of the TOML: who may do everything, and which nodes say on whose behalf they call."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.supervisor.configuration.config import Config, ConfigError, parse

MAIN = '[backplane.main]\ncomponents = ["m:Main"]\n'


def of(text: str) -> Config:
    """The configuration."""
    return parse(f'[system]\nname = "s"\n{MAIN}{text}', Path("/srv/s.toml"))


def test_what_is_said_and_what_is_not() -> None:
    """By default no node speaks for users."""
    assert of("").permissions is None
    settings = of("[permissions]\n").permissions
    assert settings is not None and (settings.operators, settings.nodes) == (("local",), ())
    settings = of('[permissions]\nfile = "p.json"\nnodes = ["berlin"]\n').permissions
    assert settings is not None and settings.nodes == ("berlin",)
    assert (settings.file, settings.audit) == ("/srv/p.json", "/srv/p.json.audit")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('nodes = [""]', "permissions.nodes[0]: expected the name of a trusted key"),
        ('nodes = "berlin"', "permissions.nodes: expected"),
        ('operators = [""]', "permissions.operators[0]: expected a principal"),
        ('file = ""', "permissions.file: expected the path of a file"),
    ],
)
def test_wrong_settings_are_named(text: str, words: str) -> None:
    """With the key and the remedy."""
    with pytest.raises(ConfigError) as caught:
        of(f"[permissions]\n{text}\n")
    assert words in str(caught.value)
