"""Cli: the group of all verbs, and what becomes of an error.

Every error of ours ends here, as one line and an exit code; what is not ours is a bug and says so. Nothing is printed of a
bug's traceback unless `--debug` asks for it, but its type and place in one line are.
"""

from __future__ import annotations

import errno
import importlib
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from appbackplane.transport.errors import BackplaneError

from ..config import ConfigError

#: In the order in which a person needs them.
VERBS = (
    *("up", "down", "status", "top", "logs", "move", "restart", "why", "call", "publish", "listen", "routes"),
    *("check", "doctor", "new"),
)
FAILED, WRONG_USAGE = 1, 2

Function = TypeVar("Function", bound=Callable[..., Any])


class Verbs(click.Group):
    """Imports a verb when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One verb, from its file."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __package__).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs, without importing them for their help: whoever presses TAB waits for each import."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(verb) for verb in VERBS if verb.startswith(incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; every error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            verb = error.ctx.command_path if error.ctx is not None else ctx.command_path
            message = " ".join(error.format_message().split())  # click lists choices a line each
            _fail(ctx, error, f"{message} (see {verb} --help)", WRONG_USAGE)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except BackplaneError as error:
            _fail(ctx, error, error.message, WRONG_USAGE if isinstance(error, ConfigError) else FAILED)
        except Exception as error:
            if (
                isinstance(error, OSError) and error.errno == errno.EPIPE
            ):  # `appbackplane routes | head`: click's affair
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {last.name}, line {last.lineno} of {last.filename}"
            _fail(ctx, error, f"a bug of ours: {where}: {error} (--debug shows the traceback)", FAILED)


def _tell_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib import metadata  # a person waits for each import: only where it is asked for

        from appbackplane.runtime.build import BUILD

        click.echo(f"appbackplane, version {metadata.version('appbackplane')}, {BUILD}")
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_tell_version, help="Show the version."
)
def main() -> None:
    """Bring up, ask and take down systems of backplanes."""


def debug_option(function: Function) -> Function:
    """`--debug` on a verb; `is_debug` tells."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.find_root().meta["appbackplane.debug"] = True

    text = "Show tracebacks, the remote ones too."
    return click.option("--debug", is_flag=True, expose_value=False, callback=note, help=text)(function)


def json_option(function: Function) -> Function:
    """`--json` on a verb, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def is_debug() -> bool:
    """Whether the person asked for tracebacks."""
    return bool(click.get_current_context().find_root().meta.get("appbackplane.debug"))


def _fail(ctx: click.Context, error: BaseException, message: str, code: int) -> NoReturn:
    if ctx.find_root().meta.get("appbackplane.debug"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
        if isinstance(error, BackplaneError) and error.trace:
            click.echo(f"remote traceback:\n{error.trace}", err=True)
    for line in message.split("\n"):
        click.echo(f"appbackplane: {line}", err=True)
    ctx.exit(code)
