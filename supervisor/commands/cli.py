"""Cli: the group of all verbs, and the handling of errors.

Every error of ours ends here, as one line and an exit code; any other exception is reported as a bug. Of a bug, one line
gives type and place; the traceback is printed only under `--debug`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.decorators import FC

from appbackplane.transport.errors import BackplaneError, InternalError

from . import streams

#: In the order in which a person needs them.
VERBS = (
    *("up", "down", "list", "status", "top", "logs", "move", "restart", "reload", "scale"),
    *("why", "requests", "call", "publish", "listen", "routes", "things", "peers"),
    *("report", "replay", "pipeline"),
    *("check", "doctor", "new", "keys"),
)
FAILED, WRONG_USAGE = 1, 2
#: Exit code that shells give a program ended by SIGINT: 128 and its number.
INTERRUPTED = 130
#: Longest error text: a screen of 80 columns is 1,920 characters.
LINE_LENGTH_MAX = 1_600

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verbs(click.Group):
    """The group of verbs; imports a verb when it is used."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line. Without arguments it is the program itself, and ends the process."""
        streams.hold_standard_ones()
        if args or extra:
            return super().main(*args, **extra)
        try:
            return super().main()
        except SystemExit as end:
            streams.end_process(end.code)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the options before the verb."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            _say(f"{_in_one_line(error)} (see appbackplane --help)")
            raise click.exceptions.Exit(WRONG_USAGE) from error
        except OSError as error:
            raise click.exceptions.Exit(_after_output(error)) from error
        except KeyboardInterrupt as interrupt:
            raise click.exceptions.Exit(_after_interrupt(interrupt)) from interrupt

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb and its arguments; a mistyped verb gets a suggestion."""
        if args[0] not in VERBS and not args[0].startswith("-"):
            import difflib  # only for a mistyped verb

            close = difflib.get_close_matches(args[0], VERBS, n=1)
            raise click.UsageError(f"no command {args[0]!r}" + (f" (did you mean {close[0]!r}?)" if close else ""), ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of `VERBS`."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One verb, imported from its file; None: there is no such verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __package__).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs, without their help: importing it would make the user wait at each TAB."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return items(dict.fromkeys(VERBS), incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; every error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            verb = error.ctx.command_path if error.ctx is not None else ctx.command_path
            _fail(ctx, error, f"{_in_one_line(error)} (see {verb} --help)", WRONG_USAGE)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt as interrupt:
            ctx.exit(_after_interrupt(interrupt))
        except BackplaneError as error:
            _fail(ctx, error, error.message, WRONG_USAGE if is_about_configuration(error) else FAILED)
        except Exception as error:
            if isinstance(error, OSError) and streams.is_about_output(error):
                ctx.exit(_after_output(error))
            import traceback  # 5 ms, only for a bug

            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {last.name}, line {last.lineno} of {last.filename}"
            _fail(ctx, error, f"internal error: {where}: {error} (--debug shows the traceback)", FAILED)


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
    """Start, query and stop systems of backplanes."""


def output_options(function: FC) -> FC:
    """Add `--json` to a verb, as parameter `as_json`, and `--debug`, which `is_debug` reads."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.find_root().meta["appbackplane.debug"] = True

    text = "Show tracebacks, the remote ones too."
    function = click.option("--debug", is_flag=True, expose_value=False, callback=note, help=text)(function)
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def items(offered: Mapping[str, str | None], incomplete: str) -> list[CompletionItem]:
    """The names that begin with `incomplete`, each with its help, for shell completion."""
    from click.shell_completion import CompletionItem  # only for shell completion

    return [CompletionItem(name, help=help) for name, help in offered.items() if name.startswith(incomplete)]


def is_debug() -> bool:
    """Whether `--debug` was given, which shows tracebacks."""
    return bool(click.get_current_context().find_root().meta.get("appbackplane.debug"))


def is_about_configuration(error: BackplaneError) -> bool:
    """Whether the TOML is at fault."""
    from ..configuration.config import ConfigError  # 10 ms, only for verbs that read one

    return isinstance(error, ConfigError)


def _fail(ctx: click.Context, error: BaseException, message: str, code: int) -> NoReturn:
    is_config = isinstance(error, BackplaneError) and is_about_configuration(error)
    if ctx.find_root().meta.get("appbackplane.debug") and not is_config:  # our traceback does not help a TOML's author
        _show_traceback(error)
    for line in getattr(error, "lines", (message,)):  # some errors carry several problems
        _say(line)
    ctx.exit(code)


def _show_traceback(error: BaseException) -> None:
    import traceback

    # An error of ours that was raised again, with a hint or after a second attempt, would be shown twice.
    is_told_again = isinstance(error, BackplaneError) and isinstance(
        error.__cause__ or error.__context__, BackplaneError
    )
    lines = "".join(traceback.format_exception(error, chain=not is_told_again))
    remote = error.trace if isinstance(error, BackplaneError) else None
    if remote:
        lines += f"remote traceback:\n{remote}\n"
    click.echo("\n".join(map(_escaped, lines.split("\n"))), err=True, nl=False)
    if isinstance(error, InternalError) and not remote:
        _say("no remote traceback: see the log (appbackplane logs); systems started with up --debug send tracebacks")


def _say(line: str) -> None:
    """Print an error line; a text that would fill the screen keeps its begin and its end."""
    shown = _escaped(line)
    if len(shown) > LINE_LENGTH_MAX:
        shown = f"{shown[: LINE_LENGTH_MAX // 2]} ... {shown[-LINE_LENGTH_MAX // 2 :]}"
    click.echo(f"appbackplane: {shown}", err=True)


def _escaped(line: str) -> str:
    """With control characters escaped: names, files and remote tracebacks come from anywhere, and would steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _in_one_line(error: click.UsageError) -> str:
    """The message on one line, without click's line for each choice and its full stop."""
    return " ".join(error.format_message().split()).removesuffix(".")


def _after_output(error: OSError) -> int:
    """The exit code when standard output could not be written: its reader has gone, or the disk is full."""
    is_broken = isinstance(error, BrokenPipeError)
    if not is_broken:
        _say(f"standard output cannot be written: {error.strerror or os.strerror(error.errno or 0)}")
    streams.write_nothing_more()
    return 0 if is_broken else FAILED


def _after_interrupt(interrupt: KeyboardInterrupt) -> int:
    """The exit code after Ctrl-C. A verb names in the interrupt anything that it leaves behind."""
    if sys.stderr.isatty():
        click.echo(err=True)  # the terminal has written ^C
    _say(str(interrupt) or "interrupted")
    return INTERRUPTED
