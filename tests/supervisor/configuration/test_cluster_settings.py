"""[cluster]: what is wrong with it is said at once, each with its key and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from appbackplane.supervisor.configuration.config import Config, ConfigError, parse
from appbackplane.supervisor.direction.reconfiguration import plan

NODE = '[node]\nname = "a"\nlisten = "tcp://127.0.0.1:7400"\n'
CLUSTER = '[cluster]\nname = "orders"\nlease = "file:store"\n'
MAIN = '[backplane.main]\ncomponents = ["m:Main"]\n'


def of(text: str) -> Config:
    """A system, at /etc/demo."""
    return parse(f'[system]\nname = "demo"\n{text}{MAIN}', Path("/etc/demo/demo.toml"))


def refused(text: str) -> tuple[str, ...]:
    """What is wrong, a line each."""
    with pytest.raises(ConfigError) as told:
        of(text)
    return told.value.problems


def test_a_cluster_is_read() -> None:
    """Its folder relative to the TOML, as all paths are."""
    config = of(f'{NODE}{CLUSTER}ttl = "2s"\n[backplane.orders]\ncomponents = ["m:Orders"]\nonly_on = "primary"\n')
    assert config.cluster is not None
    assert (config.cluster.name, config.cluster.store) == ("orders", ("file", "/etc/demo/store"))
    assert config.cluster.ttl_ns == 2_000_000_000 and config.backplane["orders"].only_on == "primary"
    assert of(MAIN.replace("main", "other")).cluster is None


KINDS = '"file:FOLDER" or "postgresql://USER@HOST/DATABASE"'
LATE = "with less, one late renewal would cost the node its lease"
NAMES = "a letter or digit and at most 62 more letters, digits, - and _"
ONLY_ON = '[backplane.b]\ncomponents = ["m:B"]\nonly_on = '
WRONG = {
    CLUSTER: 'cluster: expected a table [node] with name = "..." beside it: the primary node is known by its name',
    f'{NODE}{CLUSTER}ttl = "10ms"\n': f"cluster.ttl: expected 1s to 1h, got 10ms: {LATE}",
    f'{NODE}{CLUSTER}ttl = "2h"\n': f"cluster.ttl: expected 1s to 1h, got 2h: {LATE}",
    f'{NODE}[cluster]\nname = "o/o"\nlease = "file:s"\n': f"cluster.name: expected {NAMES}, got 'o/o'",
    f'{NODE}[cluster]\nname = "o"\nlease = "zookeeper:s"\n': f"cluster.lease: expected {KINDS}, got 'zookeeper:s'",
    f'{NODE}[cluster]\nname = "o"\nlease = "store"\n': f"cluster.lease: expected {KINDS}, got 'store'",
    f'{NODE}[cluster]\nname = "o"\nlease = "file:"\n': f"cluster.lease: expected a location, too: {KINDS}, got 'file:'",
    f'{NODE}[cluster]\nname = "o"\n': "cluster.lease: missing: expected a string",
    f'{NODE}{CLUSTER}role = "primary"\n': "cluster.role: unknown key (known here: name, lease, ttl)",
    f'{ONLY_ON}"primary"\n': "backplane.b.only_on: there is no primary node without a table [cluster]: add one, or leave this "
    "out",
    f'{NODE}{CLUSTER}{ONLY_ON}"secondary"\n': "backplane.b.only_on: expected one of 'primary', got 'secondary'",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_what_was_expected(text: str) -> None:
    """In one line each, and nothing else."""
    assert refused(text) == (WRONG[text],)


def test_a_cluster_is_not_changed_while_it_runs() -> None:
    """The other nodes would not know."""
    before, after = of(f"{NODE}{CLUSTER}"), of(f'{NODE}{CLUSTER}ttl = "9s"\n')
    assert plan(before, after).problems() == [
        'cluster.ttl: "5s" cannot become "9s" while the system runs: take it down, and up again'
    ]
    assert plan(before, of(NODE)).problems()


@pytest.mark.parametrize(
    "where", ["u:secret@h/d", "h/d?user=u&password=secret", "u@h/d?Password=secret&sslpassword=secret"]
)
def test_a_password_is_not_shown(where: str) -> None:
    """Wherever libpq takes one."""
    config = of(NODE + CLUSTER.replace("file:store", f"postgresql://{where}"))
    assert config.cluster is not None
    assert "secret" not in config.cluster.shown and "***" in config.cluster.shown and "u" in config.cluster.shown
    problems = plan(config, of(f"{NODE}{CLUSTER}")).problems()
    assert problems and "secret" not in "".join(problems)
