"""status: the state of each backplane and of each component, and the reason if it is not the wanted one."""

from __future__ import annotations

import time
from typing import Any

import click

from ..direction.reconfiguration import in_json
from . import show
from .asking import ask
from .cli import output_options
from .systems import find, system_option

#: Actions that run longer are named: somebody waits, or will.
LONG_S = 2.0
#: Failures of a timer in a row, from which on it is named; the board counts them (runtime/execution/actions/completion.py).
FAILING_MIN = 3
#: Time-out for the names: a sentinel answers in 10 ms, unless an action holds the interpreter lock; then they are left out.
NAMED_LIMIT_S = 0.2


@click.command("status")
@system_option
@click.option("--stats", is_flag=True, help="Also show each operation: counts, durations and outcomes.")
@output_options
def command(system: str | None, stats: bool, as_json: bool) -> None:
    """Show the system."""
    location = find(system)
    answer = ask(location, "supervisor.status", {"statistics": stats})
    if not stats and not as_json and any(map(_is_to_be_named, answer["backplanes"])):
        answer = ask(location, "supervisor.status", {"statistics": True, "limit": NAMED_LIMIT_S})
    if as_json:
        show.as_json(answer)
        return
    uptime = show.duration(answer["uptime"])
    click.echo(f"system {answer['system']!r}: {_state(answer)}, pid {answer['pid']}, for {uptime}, {answer['build']}")
    if answer.get("cluster"):
        click.echo(cluster_line(answer["cluster"]))
    show.table(
        (
            "BACKPLANE",
            "STATE",
            "PID",
            "RESTARTS",
            "FOR",
            "HEALTH",
            "QUEUED",
            "CPU",
            "LIMIT",
            "OS PRIORITY",
            "COMPONENTS",
        ),
        [_row(backplane) for backplane in answer["backplanes"]],
        less=("OS PRIORITY", "LIMIT", "CPU", "RESTARTS", "PID"),
    )
    for line in [*_remarks(answer), *_remarks_on_what_runs(answer), *_remarks_on_timers(answer)]:
        click.echo(line)
    if stats:
        for backplane in answer["backplanes"]:
            _show_statistics(backplane)


def cluster_line(cluster: dict[str, Any]) -> str:
    """The primary, since when it has the lease, and any problem with it."""
    words = [f"cluster {cluster['name']!r}: this node, {cluster['node']!r}, is {cluster['role']}"]
    if cluster["primary"] is None:
        words.append("no node has the lease")
    else:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(cluster["since"]))
        holder = (
            "its lease" if cluster["primary"] == cluster["node"] else f"{cluster['primary']!r} is primary; its lease"
        )
        words.append(f"{holder} has epoch {cluster['epoch']}, since {since}")
    if cluster["next"]:
        words.append(f"to be handed to {cluster['next']!r}")
    if cluster["problem"]:
        words.append(cluster["problem"])
    return "; ".join(words)


def _row(backplane: dict[str, Any]) -> tuple[str, ...]:
    board = backplane["board"] or {}
    return (
        backplane["name"],
        backplane["state"],
        str(backplane["pid"] or "-"),
        str(backplane["restarts"]),
        show.duration(backplane["since"]),
        backplane["health"],
        str(board.get("queued", "-")),
        show.duration(board.get("cpu")),
        _limit(backplane["cpu_limit"]),
        backplane["os_priority"]["by"] or "-",
        ", ".join(f"{name}={state}" for name, state in backplane["components"].items()) or "-",
    )


def _state(answer: dict[str, Any]) -> str:
    return answer["state"] if answer["role"] == "primary" else f"{answer['state']} ({answer['role']})"


def _limit(limit: dict[str, Any]) -> str:
    return "-" if limit["percent"] is None else f"{limit['percent']} % {limit['by']}"


def _failure(backplane: str, component: str, failure: dict[str, Any], role: str) -> str:
    again = f"given up (appbackplane move {role} {component} tries it again)"
    then = [again] if failure["is_given_up"] else []
    if failure["retry_in"] is not None:
        then.append(f"tried again in {show.duration(failure['retry_in'])}")
    if failure["holds_up"]:
        then.append(f"waiting for it: {', '.join(failure['holds_up'])}")
    words = [f"{backplane}: {component} did not become {failure['to']}: {failure['reason']}", *then]
    return "; ".join(words)


def _remarks(answer: dict[str, Any]) -> list[str]:
    remarks = [f"going down: {answer['reason']}"] if answer["state"] == "stopping" else []
    for backplane in answer["backplanes"]:
        if backplane["reason"]:
            before = "its last process: " if backplane["state"] in ("up", "starting") else ""
            after = (
                f" (appbackplane restart {backplane['name']} starts it again)" if backplane["state"] == "failed" else ""
            )
            remarks.append(f"{backplane['name']}: {before}{backplane['reason']}{after}")
        failed = backplane["failed"].items()
        remarks += [_failure(backplane["name"], name, failure, answer["role"]) for name, failure in failed]
        for component, to in backplane["wanted"].items():
            if to != answer["role"]:
                remarks.append(f"{backplane['name']}: {component} is ordered to be {to} (appbackplane move)")
        for component, dependencies in backplane["waits_for"].items():
            if dependencies:
                remarks.append(f"{backplane['name']}: {component} waits for {', '.join(dependencies)}")
    reasons: dict[str, list[str]] = {}
    for backplane in answer["backplanes"]:
        if because := backplane["os_priority"]["because"]:
            reasons.setdefault(because, []).append(backplane["name"])
    remarks += [f"OS priority of {', '.join(names)}: {because}" for because, names in reasons.items()]
    for backplane in answer["backplanes"]:
        if because := backplane["cpu_limit"].get("because"):
            remarks.append(f"cpu_limit of {backplane['name']}: {because}")
    for name, values in answer["config"]["differs"].items():
        subject = name.removeprefix("backplane.").replace(".", ": ", 1)
        running, said = in_json(values["running"]), in_json(values["file"])
        remarks.append(f"{subject} = {running}, not {said} as {answer['config']['file']} says (appbackplane scale)")
    return remarks + _remarks_on_log(answer)


def _running_s(backplane: dict[str, Any]) -> float:
    """For how long the longest action has run."""
    return (backplane["board"] or {}).get("running_for") or 0.0


def _is_to_be_named(backplane: dict[str, Any]) -> bool:
    """Whether the backplane needs a remark that only its statistics can give."""
    return _running_s(backplane) >= LONG_S or _failing_count(backplane) > 0


def _failing_count(backplane: dict[str, Any]) -> int:
    return int((backplane["board"] or {}).get("failing", 0))


def _remarks_on_timers(answer: dict[str, Any]) -> list[str]:
    """Timers that fail each time: they have no caller to be told."""
    remarks = []
    for backplane in answer["backplanes"]:
        told = backplane.get("statistics") or {"operations": {}}
        found = [
            f"{backplane['name']}: {name} has failed {account['failing']} times in a row"
            for name, account in told["operations"].items()
            if account.get("failing", 0) >= FAILING_MIN
        ]
        if not found and (count := _failing_count(backplane)):
            found = [f"{backplane['name']}: {show.counted(count, 'timer')} failing each time"]
        remarks += [f"{line} (appbackplane logs --backplane {backplane['name']})" for line in found]
    return remarks


def _remarks_on_what_runs(answer: dict[str, Any]) -> list[str]:
    """Actions that run for long, by name where the backplane has answered in time."""
    remarks = []
    for backplane in answer["backplanes"]:
        told = backplane.get("statistics")
        if told is None and (seconds := _running_s(backplane)) >= LONG_S:
            remarks.append(
                f"{backplane['name']}: an action has run for {show.duration(seconds)} (the backplane did not name it in time)"
            )
        for one in () if told is None else told["running"]:
            if one["running_ms"] >= LONG_S * 1e3:
                remarks.append(
                    f"{backplane['name']}: {one['route']} on {one['object']} has run for "
                    f"{show.duration(one['running_ms'], 1e3)} (appbackplane why {one['route']})"
                )
    return remarks


def _remarks_on_log(answer: dict[str, Any]) -> list[str]:
    """Lines that the log lacks, and why."""
    remarks = []
    for backplane in answer["backplanes"]:
        written, lost = backplane["log"]["lines"], backplane["log"]["lost"]
        if lost:
            remarks.append(
                f"log: {lost:,} of {written + lost:,} lines of {backplane['name']} were lost: too many at a time"
            )
    if unwritten := answer["log"]["unwritten"]:
        remarks.append(f"log: {show.counted(unwritten, 'line')} could not be written: {answer['log']['problem']}")
    return remarks


def _show_statistics(backplane: dict[str, Any]) -> None:
    statistics = backplane.get("statistics")
    click.echo(f"\n{backplane['name']}:" + ("" if statistics else " no statistics (it did not answer)"))
    if statistics:
        _show_queues(statistics)
        _show_admission(statistics.get("admission", {}))
        if refused := statistics.get("links", {}).get("refused_here"):
            click.echo(f"refused here, for overloaded services: {show.counted(refused, 'call')} of its objects")
        _show_requests(statistics)
        _show_traces(statistics.get("traces"))
    operations = (statistics or {}).get("operations", {})
    if operations:
        show.table(
            ("OPERATION", "COUNT", "ERRORS", "REFUSED", "EXPIRED", "SLOW", "CPU", "WAIT P50", "P99", "RUN P50", "P99"),
            [_operation_row(name, account) for name, account in operations.items()],
        )


def _show_queues(statistics: dict[str, Any]) -> None:
    queues = statistics.get("queues", {})
    rows = [
        (str(priority), str(depth), show.duration(oldest_ms, 1e3))
        for priority, (depth, oldest_ms) in enumerate(
            zip(queues.get("ready", ()), queues.get("oldest_ms", ()), strict=True)
        )
        if depth
    ]
    if rows:
        show.table(("READY QUEUE", "OBJECTS", "OLDEST"), rows)
    oldest = statistics.get("oldest", {})
    if oldest.get("objects"):
        show.table(
            ("OBJECT", "STATE", "OUTSTANDING", "OLDEST", "FIRST"),
            [
                (
                    one["object"],
                    one["state"],
                    str(one["outstanding"]),
                    show.duration(one["oldest_ms"], 1e3),
                    one["first"],
                )
                for one in oldest["objects"]
            ],
        )
    if oldest.get("calls"):
        rows = [(one["call"], one["route"], one["object"]) for one in oldest["calls"]]
        show.table(("OLDEST CALL", "ROUTE", "OBJECT"), rows)


def _show_admission(limits: dict[str, Any]) -> None:
    rows = [
        (
            route or "(the others)",
            show.duration(limit["aim_ms"], 1e3),
            f"{limit['rate']:,.0f}/s" if limit["rate"] else "-",
            *(f"{limit[key]:,}" for key in ("outstanding", "refused_early", "refused_late")),
        )
        for route, limit in limits.items()
    ]
    if rows:
        show.table(("ADMISSION OF", "AIM", "SERVES", "OUTSTANDING", "REFUSED AT ONCE", "AFTER QUEUEING"), rows)


def _show_traces(traces: dict[str, Any] | None) -> None:
    if traces is not None:
        problem = f": {traces['problem']}" if traces["problem"] else ""
        click.echo(f"traces: {traces['exported']:,} spans exported, {traces['lost']:,} lost{problem}")


def _show_requests(statistics: dict[str, Any]) -> None:
    rows = [
        (
            component,
            f"{sum(kernel['ready'])} of {kernel['limits']['ready']}",
            f"{sum(kernel['executing'])} of {kernel['limits']['workers']}",
            str(kernel["blocked"]),
            str(kernel["posting"]),
            f"{sum(kernel['rejoinable'])} of {kernel['limits']['rejoin']}",
            *(str(kernel[total]) for total in ("ended", "failed", "lost")),
        )
        for component, kernel in statistics.get("requests", {}).items()
    ]
    if rows:
        show.table(
            ("REQUESTS OF", "READY", "EXECUTING", "BLOCKED", "POSTING", "REJOINABLE", "ENDED", "FAILED", "LOST"), rows
        )


def _operation_row(name: str, account: dict[str, Any]) -> tuple[str, ...]:
    counts = (str(account.get(key, 0)) for key in ("count", "errors", "refused", "expired", "slow"))
    times = (
        show.duration(account.get(histogram, {}).get(quantile), 1e6)
        for histogram in ("wait", "run")
        for quantile in ("p50_us", "p99_us")
    )
    return (name, *counts, show.duration(account.get("cpu_ms", 0), 1e3), *times)
