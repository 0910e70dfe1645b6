"""up: start a system and stay with it; or, with `--detach`, come back once it is up, or with the reason why not.

In the foreground everything that the backplanes print goes to standard error, each line with its backplane's name.
Ctrl-C takes the system down in order; a second one kills it at once. Detached, the lines go to a file beside the run
directory (`NAME.log`, and one predecessor), which stays when the system has gone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec

from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import FailedPrecondition, Unavailable

from ..config import Config, load
from ..metrics_port import PATH, MetricsPort
from ..output import Output, open_log
from ..run_dir import running_pid
from . import show
from .asking import ask
from .cli import FAILED, debug_option, is_debug, json_option
from .systems import toml_here

#: What a detached supervisor says once the system is up; anything else is why it is not.
_UP = b"up"
#: Progress is shown for whatever takes longer.
_SILENT_MS = 1_000
_STDERR = 2


@click.command("up")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("-s", "--system", "named", metavar="TOML", type=click.Path(path_type=Path), help="The same as FILE.")
@click.option("--detach", is_flag=True, help="Return once the system is up, and leave it running.")
@click.option("--ready-fd", type=int, hidden=True, help="Say there that the system is up, or why not.")
@json_option
@debug_option
def command(file: Path | None, named: Path | None, detach: bool, ready_fd: int | None, as_json: bool) -> None:
    """Start the system of FILE (default: the one TOML in this folder)."""
    path = file or named or toml_here()
    if path is None:
        raise click.UsageError("which system? There is not exactly one TOML of a system here: appbackplane up FILE")
    config = msgspec.structs.replace(load(path), debug=is_debug())
    if detach:
        _detached(config, as_json=as_json)
    else:
        _in_foreground(config, ready_fd)


def log_path(config: Config) -> Path:
    """Where a detached system's lines go: beside its run directory, which vanishes with it."""
    run_dir = Path(config.run_dir)
    return run_dir.with_name(run_dir.name + ".log")


def _in_foreground(config: Config, ready_fd: int | None) -> None:
    from ..run import run  # what only the supervisor needs; --detach does not

    output = Output(_STDERR, log_path(config) if ready_fd is not None else None)

    def say(text: bytes) -> None:
        nonlocal ready_fd
        if ready_fd is not None:
            try:
                os.write(ready_fd, text)
            except BrokenPipeError:
                output.say("whoever started this system has not waited for it")
            os.close(ready_fd)
            ready_fd = None

    try:
        with ExitStack() as stack:
            if config.system.metrics is not None:
                port = _metrics_port(config, config.system.metrics)
                stack.callback(port.close)
                output.say(f"metrics at http://{port.address}{PATH}")
            outcome = run(config, output, lambda: say(_UP))
    except FailedPrecondition as error:
        say(error.message.encode())
        raise
    say(outcome.reason.encode())
    if outcome.exit_code:
        click.get_current_context().exit(FAILED)


def _metrics_port(config: Config, address: str) -> MetricsPort:
    location = Location(Path(config.run_dir), config.system.name, Path(config.file))
    return MetricsPort(address, lambda: ask(location, "supervisor.status", {"buckets": True}))


def _detached(config: Config, *, as_json: bool) -> None:
    pid = running_pid(Path(config.run_dir))
    if pid is not None:
        raise FailedPrecondition(f"already running, pid {pid} (run directory {config.run_dir})")
    log = log_path(config)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready_fd, their_end_fd = os.pipe2(os.O_CLOEXEC)
    log_fd = open_log(log)
    words = [sys.executable, "-P", "-m", "appbackplane.supervisor", "up", config.file]
    words += ["--ready-fd", str(their_end_fd), *(["--debug"] if config.debug else [])]
    supervisor = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=log_fd, stderr=log_fd, pass_fds=(their_end_fd,), start_new_session=True
    )
    os.close(their_end_fd)
    os.close(log_fd)
    try:
        said = _heard_of(ready_fd, config, log)
    except KeyboardInterrupt:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait()
        raise
    finally:
        os.close(ready_fd)
    if said != _UP:
        supervisor.wait()
        raise Unavailable(said.decode(errors="replace") or f"the supervisor died; its last words are in {log}")
    if as_json:
        answer = {"system": config.system.name, "pid": supervisor.pid, "run_dir": config.run_dir, "log": str(log)}
        show.as_json(answer)
    else:
        click.echo(f"system {config.system.name!r} is up, pid {supervisor.pid}; log: {log}")


def _heard_of(ready_fd: int, config: Config, log: Path) -> bytes:
    """What the supervisor says before it closes its end, which its death does too."""
    waiting = select.poll()
    waiting.register(ready_fd, select.POLLIN)
    if not waiting.poll(_SILENT_MS):
        click.echo(f"waiting for {config.system.name!r} to come up (log: {log})", err=True)
    said = b""
    while more := os.read(ready_fd, 4096):
        said += more
    return said
