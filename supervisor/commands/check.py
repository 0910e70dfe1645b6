"""check: would this system come up? Each backplane constructs its components, describes them and ends; none is started.

Found before anything runs: keys and values of the TOML, folders that cannot be used, components that cannot be imported or
constructed, missing and circular dependencies, routes served twice, and declared calls that would wait for themselves
(A -> B -> A), or for each other.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from appbackplane.transport.directory import Registration
from appbackplane.transport.errors import FailedPrecondition

from ..configuration.config import Config, ConfigError, load
from ..direction import plan
from ..logs import collector
from ..processes import run_dir
from ..processes.description import Undescribed, registration_of
from ..processes.spawn import start, to_describe
from . import cluster_store, extras, node_keys, show
from .cli import is_debug, output_options
from .toml_files import toml_of


@click.command("check")
@click.argument("file", required=False)
@output_options
def command(file: str | None, as_json: bool) -> None:
    """Check the system of FILE (default: the one TOML in this folder) without starting it.

    Its components are imported and constructed, so their code runs: check only what you would start.
    """
    config = msgspec.structs.replace(load(toml_of(file, "check")), debug=is_debug())
    run_dir.check(Path(config.run_dir))
    collector.check_folder(config)
    registrations, warnings = tried(config)
    order = plan.order(registrations)
    if as_json:
        show.as_json({"system": config.system.name, "order": order, "warnings": warnings, **_sizes(registrations)})
        return
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    sizes = _sizes(registrations)
    click.echo(
        f"{config.file}: {show.counted(sizes['backplanes'], 'backplane')}, {show.counted(sizes['routes'], 'route')}; "
        f"comes up as {', '.join(order)}"
    )


def tried(config: Config) -> tuple[list[Registration], list[str]]:
    """Registrations of all backplanes, and warnings about them. Raises as `describe`, and `ConfigError` for every problem."""
    registrations, problems = describe(config)
    findings = plan.find(registrations, config.replica_of, has_node=config.node is not None) if not problems else []
    problems += [finding.text for finding in findings if finding.is_error]
    if problems:
        raise ConfigError(config.file, problems)
    return registrations, [finding.text for finding in findings]


def describe(config: Config) -> tuple[list[Registration], list[str]]:
    """Registrations of all backplanes, and a problem for each that has none; of replicas the first is tried for all.

    Raises `ConfigError` where the node's keys are missing, `FailedPrecondition` if no process can be started.
    """
    node_keys.check(config)
    cluster_store.check(config, waits=False)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    registrations: list[Registration] = []
    problems = extras.missing(config)
    try:
        others = {name for alike in config.replicas.values() for name in alike[1:]}
        for name in config.backplane:
            if name in others:
                continue
            processes[name] = start(to_describe(config, name))
        end_s = time.monotonic() + config.system.start_limit_ns / 1e9
        for name, process in processes.items():
            try:
                printed, errors = process.communicate(timeout=max(0.0, end_s - time.monotonic()))
                if config.debug and process.returncode:
                    click.echo(errors, nl=False, err=True)
                described = registration_of(process.returncode, printed, errors)
                alike = config.replicas.get(config.replica_of.get(name, ""), (name,))
                registrations += [msgspec.structs.replace(described, backplane=each) for each in alike]
            except subprocess.TimeoutExpired:
                problems.append(f"backplane.{name}: not constructed within {config.system.start_limit_ns / 1e9:g} s")
            except Undescribed as error:
                problems.append(f"backplane.{name}: {error}")
    except OSError as error:
        raise FailedPrecondition(f"no process could be started: {error.strerror}") from error
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return registrations, problems


def _sizes(registrations: list[Registration]) -> dict[str, Any]:
    return {
        "backplanes": len(registrations),
        "routes": len({one.route for r in registrations for component in r.components for one in component.operations}),
    }
