"""requests: shows the request kernels of a system, or sends one a command. `appbackplane requests index workers 4`.

A kernel is recognised by its route for command lines. Its command handler, which may be a user's
(appbackplane.runtime.requests), interprets the words: they are passed on as typed. Where a kernel has replicas, each of them
gets the command.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import click

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from appbackplane.transport.errors import BackplaneError, NotFound

from . import show
from .asking import ask
from .cli import items, output_options
from .completing import ask_quickly
from .quantities import timeout_option
from .systems import check_running, find, system_option

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from appbackplane.transport.discovery import Location

#: Name and summary of the route for a kernel's command lines: requests/operating/command_routes.py, whose import would make a
#: person at a terminal wait (tests/supervisor/test_requests_command.py).
LINE: Final = "command"
SUMMARY: Final = "Run a command, such as `workers 4`; `help` lists all commands."

#: First character of a key that names a backplane (transport/resolver.py).
AT: Final = "@"

#: States of workers that receive requests.
_THERE: Final = frozenset({"rests", "executes", "waits"})

#: A kernel, and a backplane that has it.
Place = tuple[str, str]


def kernels(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Request kernels of the line's system."""
    return items(dict.fromkeys(kernels_of(ask_quickly(ctx, "supervisor.routes") or [])), incomplete)


def command_words(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Commands of the line's kernel; the arguments of a command are not completed."""
    kernel = ctx.params.get("kernel")
    if ctx.params.get("words"):
        return []
    commands = {
        name: entry["signature"]
        for entry in ask_quickly(ctx, "supervisor.routes") or []
        # A command is served while its kernel is initialized, too, and before all other work.
        if entry["component"] == kernel and entry["priority"] == 0 and "initializing" in entry["states"]
        if (name := entry["route"].rpartition(".")[2]) != LINE
    }
    return items(commands, incomplete)


@click.command("requests")
@click.argument("kernel", required=False, shell_complete=kernels)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=command_words)
@system_option
@timeout_option(TIMEOUT_DEFAULT_S, "Seconds to wait for the kernel's answer.", max_s=TIMEOUT_MAX_S)
@output_options
def command(kernel: str | None, words: tuple[str, ...], system: str | None, timeout: float, as_json: bool) -> None:
    """Show the request kernels, or give KERNEL a COMMAND: status, workers 4, lanes on, quiesce, help, ..."""
    location = find(system)
    check_running(location)
    places = _places(location, kernel)
    line = shlex.join(words) or "status"
    answers, problems = _tell(location, places, line, timeout)
    if as_json:
        if answers or not problems:
            told = [{"kernel": name, "backplane": place, "answer": told} for (name, place), told in answers.items()]
            wrong = [
                {"kernel": name, "backplane": place, "error": error.message}
                for (name, place), error in problems.items()
            ]
            show.as_json([*told, *wrong])
    elif not places:
        click.echo(f"system {location.system!r} has no request kernel")
    elif line != "status" or not all(map(_is_status, answers.values())):
        for (_, place), answer in answers.items():
            if len(places) > 1:
                click.echo(f"{place}:")
            show.result(answer)
    elif len(answers) > 1:
        _show_all(answers)
    elif answers:
        _show(*answers.values())
    for error in problems.values():
        raise error


def kernels_of(routes: list[dict[str, Any]]) -> dict[str, dict[str, bool]]:
    """From a reply to `supervisor.routes`: each kernel, its backplanes, and whether it can be called there."""
    return {
        entry["component"]: entry["places"]
        for entry in routes
        if entry["route"] == f"{entry['component']}.{LINE}" and entry["summary"] == SUMMARY
    }


def _places(location: Location, kernel: str | None) -> list[Place]:
    """Each kernel, or the named one, in each backplane where it serves. Raises `NotFound`."""
    found: dict[str, list[str]] = {}
    for name, places in kernels_of(ask(location, "supervisor.routes")).items():
        up = [place for place, is_up in places.items() if is_up]
        found[name] = sorted(up or places)
    if kernel is not None and kernel not in found:
        import difflib  # only for a mistyped name

        close = difflib.get_close_matches(kernel, found, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else f": there is {', '.join(sorted(found))}" if found else ""
        raise NotFound(f"no request kernel {kernel!r} in system {location.system!r}{hint}")
    return [(name, place) for name in sorted(found) if kernel in (None, name) for place in found[name]]


def _tell(
    location: Location, places: list[Place], line: str, timeout: float
) -> tuple[dict[Place, Any], dict[Place, BackplaneError]]:
    """Answers and errors by place. All are called at once: a stuck one holds up no other."""
    answers: dict[Place, Any] = {}
    problems: dict[Place, BackplaneError] = {}
    if not places:
        return answers, problems
    from appbackplane.transport import connect

    with connect(location.run_dir) as client:
        asked: dict[Place, Any] = {}
        for name, place in places:
            try:
                asked[name, place] = client.submit(
                    f"{name}.{LINE}", key=f"{AT}{place}", timeout=timeout, arguments={"line": line}, retry=False
                )
            except BackplaneError as error:
                problems[name, place] = error
        for which, pending in asked.items():
            try:
                answers[which] = pending.result()
            except BackplaneError as error:
                problems[which] = error
    return answers, problems


def _is_status(answer: Any) -> bool:
    """Whether the answer is a status: a user's handler may return something else."""
    return isinstance(answer, dict) and {"state", "lanes", "workers", "rates", "policy"} <= set(answer)


def _show_all(answers: dict[Place, Any]) -> None:
    show.table(
        (
            *("KERNEL", "BACKPLANE", "STATE", "WORKERS", "EXECUTING", "READY", "REJOINABLE", "POSTING", "OLDEST"),
            *("PER SECOND", "BUSY"),
        ),
        [
            (
                name,
                place,
                _state(told),
                f"{_workers(told)} {told['kind']}",
                str(told["executing"]),
                f"{told['ready']} of {told['ready_max']}",
                f"{told['rejoinable']} of {told['rejoinable_max']}",
                str(told["posting"]),
                show.duration(told["oldest_ms"], 1e3),
                _rate(told, "ended_per_s"),
                _rate(told, "busy_percent", " %"),
            )
            for (name, place), told in answers.items()
        ],
    )
    for told in answers.values():
        if told["stall"]:
            click.echo(f"{told['kernel']}: no request can make progress: {told['stall']}")
        if told.get("shortage"):
            click.echo(f"{told['kernel']}: {told['shortage']}")


def _show(told: dict[str, Any]) -> None:
    policy = told["policy"]
    rates = f"{_rate(told, 'ended_per_s')} requests a second, {_rate(told, 'busy_percent', ' %')} busy"
    workers = f"{_workers(told)} workers ({told['kind']}), {told['executing']} executing"
    click.echo(f"{told['kernel']}: {_state(told)}, {workers}, {rates}")
    show.table(
        ("POOL", "USED", "OF"),
        [
            ("ready", str(told["ready"]), str(told["ready_max"])),
            ("rejoin", str(told["rejoinable"]), str(told["rejoinable_max"])),
        ],
    )
    show.table(
        ("LANE", "READY", "AT MOST", "OLDEST", "EXECUTING", "AT MOST", "REJOINABLE"),
        [
            (
                str(lane["lane"]),
                str(lane["ready"]),
                _most(lane["ready_max"]),
                show.duration(lane["oldest_ms"], 1e3),
                str(lane["executing"]),
                _most(lane["executing_max"]),
                str(lane["rejoinable"]),
            )
            for lane in told["lanes"]
        ],
    )
    show.table(
        ("WORKER", "STATE", "ENDED", "RUN", "HOLDS", "EXECUTING", "FOR"),
        [
            (
                worker["name"],
                worker["state"],
                str(worker["ended"]),
                show.duration(worker["run_ms"], 1e3),
                str(worker["holds"]),
                worker["executing"] or "-",
                show.duration(worker["for_ms"], 1e3),
            )
            for worker in told["workers"]
        ],
    )
    lanes = "/".join(map(str, policy["lanes"])) + " %" if policy["mode"] == "lanes" else "off"
    ageing = f"every {policy['interval']:g} s" if policy["ageing"] else "off"
    totals = ", ".join(f"{count:,} {name}" for name, count in told["totals"].items() if count)
    remarks = [f"lanes {lanes}; ageing {ageing}; boost {policy['boost']}; so far {totals or 'nothing'}"]
    if told["posting"]:
        waiting = "1 poster waits" if told["posting"] == 1 else f"{told['posting']} posters wait"
        is_full = told["rejoinable"] >= told["rejoinable_max"]
        why = ": the rejoin pool is full until ended requests are rejoined" if is_full else ""
        remarks.append(f"{waiting} for an entry{why}")
    if told["stall"]:
        remarks.append(f"no request can make progress: {told['stall']}")
    if told.get("shortage"):
        remarks.append(told["shortage"])
    remarks += [f"scheduled, {when}: {line}" for when, line in told["schedule"]]
    for remark in remarks:
        click.echo(remark)


def _state(told: dict[str, Any]) -> str:
    return f"{told['state']}, held" if told["held"] and told["state"] != "held" else str(told["state"])


def _workers(told: dict[str, Any]) -> str:
    """Configured number of workers, and the present number if that is lower."""
    there = sum(worker["state"] in _THERE for worker in told["workers"])
    return f"{there} of {told['workers_max']}" if there < told["workers_max"] else str(told["workers_max"])


def _rate(told: dict[str, Any], name: str, unit: str = "") -> str:
    rates = told["rates"]
    return "-" if rates is None else f"{rates[name]:,.1f}{unit}"


def _most(limit: int | None) -> str:
    return "-" if limit is None else str(limit)
