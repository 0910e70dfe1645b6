"""up: start a system and stay with it; or, with `--detach`, return once it is up, or with the reason why not.

All log lines and output of the backplanes go into the log (`appbackplane logs`), and in the foreground to standard error,
too, each line with its backplane's name. Ctrl-C takes the system down in order; a second one kills it at once.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import FailedPrecondition, Unavailable
from appbackplane.transport.lifeline import find_living

from ..configuration.config import Config, load
from ..logs.collector import folder_of
from ..logs.folder import LAST_WORDS, open_folder
from ..logs.output import Output
from ..processes.run_dir import already_running, running_pid
from . import cluster_store, extras, node_keys, show
from .asking import ask
from .cli import FAILED, is_debug, output_options
from .toml_files import toml_of

if TYPE_CHECKING:
    from ..metrics.port import MetricsPort

#: First line that a detached supervisor sends once the system is up; problems follow. Any other text says why it is not up.
_UP = "up"
#: A longer wait is reported.
_SILENT_MS = 1_000
_STDERR = 2


@click.command("up")
@click.argument("file", required=False)
@click.option("-s", "--system", "named", metavar="TOML", help="The same as FILE.")
@click.option("--detach", is_flag=True, help="Return once the system is up, and leave it running.")
@click.option("--ready-fd", type=int, hidden=True, help="File descriptor to report readiness or errors to.")
@output_options
def command(file: str | None, named: str | None, detach: bool, ready_fd: int | None, as_json: bool) -> None:
    """Start the system of FILE (default: the one TOML in this folder)."""
    path = toml_of(file if named is None else named, "up")
    config = msgspec.structs.replace(load(path), debug=is_debug())
    extras.check(config)
    node_keys.check(config)
    cluster_store.check(config)
    if detach:
        _detached(config, as_json=as_json)
    else:
        _in_foreground(config, ready_fd)


class NotWell(Unavailable):
    """The system is up, with problems: a line each."""

    def __init__(self, problems: list[str]) -> None:
        self.lines = tuple(f"but {problem}" for problem in problems)
        super().__init__("\n".join(self.lines))


def _in_foreground(config: Config, ready_fd: int | None) -> None:
    from ..run import run  # only the supervisor needs it; --detach does not

    def say(text: bytes) -> None:
        nonlocal ready_fd
        if ready_fd is not None:
            with suppress(BrokenPipeError):  # the starting process has not waited
                os.write(ready_fd, text)
            os.close(ready_fd)
            ready_fd = None

    try:
        _check_runs_nowhere_else(config)
        shown = Output(_STDERR) if ready_fd is None else None
        with ExitStack() as stack:
            notices = []
            if config.system.metrics is not None:
                port = _metrics_port(config, config.system.metrics)
                stack.callback(port.close)
                notices.append(f"metrics at {port.url}")
            outcome = run(config, shown, lambda problems: say("\n".join((_UP, *problems)).encode()), notices)
    except FailedPrecondition as error:
        say(error.message.encode())
        raise
    say(outcome.reason.encode())
    if outcome.exit_code:
        click.get_current_context().exit(FAILED)


def _check_runs_nowhere_else(config: Config) -> None:
    """Raises `FailedPrecondition` where cron or a service has started the system, with another run directory."""
    location = Location(Path(config.run_dir), config.system.name, is_given=config.system.run_dir is not None)
    found = find_living(location)
    if found != location:
        raise already_running(found.run_dir, running_pid(found.run_dir))


def _metrics_port(config: Config, address: str) -> MetricsPort:
    from ..metrics.port import MetricsPort  # a web server: a fifth of all imports

    location = Location(Path(config.run_dir), config.system.name, Path(config.file))
    return MetricsPort(address, lambda: ask(location, "supervisor.status", {"buckets": True}))


def _detached(config: Config, *, as_json: bool) -> None:
    _check_runs_nowhere_else(config)
    pid = running_pid(Path(config.run_dir))
    if pid is not None:
        raise already_running(Path(config.run_dir), pid)
    log = folder_of(config)
    last_words_fd = _open_last_words(log)
    ready_fd, their_end_fd = os.pipe2(os.O_CLOEXEC)
    words = [sys.executable, "-P", "-m", "appbackplane.supervisor", "up", config.file]
    words += ["--ready-fd", str(their_end_fd), *(["--debug"] if config.debug else [])]
    supervisor = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=last_words_fd,
        stderr=last_words_fd,
        pass_fds=(their_end_fd,),
        start_new_session=True,
    )
    os.close(their_end_fd)
    os.close(last_words_fd)
    try:
        said = _heard_of(ready_fd, config)
    except KeyboardInterrupt:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait()
        raise KeyboardInterrupt(
            f"interrupted: {config.system.name!r} is taken down again, and no process stays"
        ) from None
    finally:
        os.close(ready_fd)
    first, *problems = said.decode(errors="replace").split("\n")
    if first != _UP:
        supervisor.wait()
        died = f"the supervisor died; its last output is in {log / LAST_WORDS}"
        raise Unavailable(said.decode(errors="replace") or died)
    if as_json:
        answer = {"system": config.system.name, "pid": supervisor.pid, "run_dir": config.run_dir, "log": str(log)}
        show.as_json(answer)
    else:
        click.echo(f"system {config.system.name!r} is up, pid {supervisor.pid}; log: {log}")
    if problems:
        raise NotWell(problems)


def _open_last_words(folder: Path) -> int:
    """File for the supervisor's own output: empty, unless it fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    folder_fd = open_folder(folder)
    try:
        return os.open(LAST_WORDS, flags, 0o600, dir_fd=folder_fd)
    except OSError as error:
        raise FailedPrecondition(f"log folder {folder} cannot be written: {error.strerror}") from error
    finally:
        os.close(folder_fd)


def _heard_of(ready_fd: int, config: Config) -> bytes:
    """Text that the supervisor sends before it closes its end, or dies."""
    waiting = select.poll()
    waiting.register(ready_fd, select.POLLIN)
    if not waiting.poll(_SILENT_MS):
        click.echo(f"waiting for {config.system.name!r} to come up (appbackplane logs shows how it goes)", err=True)
    said = b""
    while more := os.read(ready_fd, 4096):
        said += more
    return said
