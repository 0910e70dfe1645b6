"""`appbackplane requests`: what a person sees of kernels. (With a real one: tests/system/test_request_commands.py.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.operating import command_routes
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.supervisor.commands import requests, show
from appbackplane.transport import resolver


class Nothing(Runnable):
    def execute(self, request: int, kernel: Context) -> int:
        return request


class Index(RequestKernel):
    runnables = (Nothing,)
    policy = KernelPolicy(workers=10, mode="lanes", ageing=True, schedule={"22:00": "workers 8"})


@pytest.fixture
def status() -> dict[str, Any]:
    """Of a kernel in which something waits."""
    backplane = VirtualBackplane(kernel := Index())
    backplane.advance(2)
    backplane.call("index.hold").result()
    kernel.kernel.post(1, Nothing, lane=1)
    backplane.advance(3)
    told: dict[str, Any] = backplane.call("index.status").result()
    return told


def test_what_it_knows_a_kernel_by_is_what_kernels_say() -> None:
    """The words are written twice, because a person at a terminal should not wait for an import."""
    assert requests.LINE == command_routes.LINE
    assert requests.SUMMARY == command_routes.LINE_SUMMARY
    assert requests.AT == resolver.AT


def test_one_kernel_is_shown_whole(status: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Its state, its pools, its lanes with their limits, and what waits longest."""
    assert requests._is_status(status)
    requests._show({**status, "stall": "thread exhaustion", "posting": 3})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("virtual/index: held, 10 workers (threads), 0 executing, 0.0 requests a second, 0.0 % busy")
    assert "1     1      20       3.0 s   0          2        0" in lines
    assert lines[-4:] == [
        "lanes 0/20/20 %; ageing every 0.1 s; boost 10; so far 1 posted",
        "3 posters wait for an entry",
        "no request can make progress: thread exhaustion",
        "scheduled, 22:00: workers 8",
    ]


def test_what_keeps_posters_waiting_is_said(status: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever forgot to rejoin sees a kernel at rest, and calls that end with their deadline."""
    requests._show({**status, "rejoinable": 1000, "posting": 1})
    said = capsys.readouterr().out
    assert "1 poster waits for an entry: the rejoin pool is full until ended requests are rejoined\n" in said


def test_fewer_workers_than_asked_for_are_seen(status: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are down are no workers, for now; why there are too few for good is said below."""
    gone = [{**worker, "state": "down"} for worker in status["workers"][:3]]
    short = {**status, "workers": [*gone, *status["workers"][3:]], "shortage": "no more replicas"}
    requests._show(short)
    lines = capsys.readouterr().out.splitlines()
    assert "7 of 10 workers (threads)" in lines[0]
    assert "no more replicas" in lines
    requests._show_all({("index", "index-1"): short, ("index", "index-2"): status})
    said = capsys.readouterr().out
    assert "7 of 10 threads" in said
    assert "virtual/index: no more replicas" in said


def test_several_are_a_table(status: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A line each."""
    requests._show_all(
        {("index", "index-1"): status, ("index", "index-2"): {**status, "state": "quiesced", "rates": None}}
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["KERNEL", "BACKPLANE"], ["index", "index-1"], ["index", "index-2"]]
    assert "quiesced, held" in lines[2]


def test_tables_within_an_answer_are_a_row_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`call index.status` with 32 workers is read, not scrolled through."""
    value = {"lanes": [{"lane": 0}, {"lane": 1}], "rates": {"over_s": 1}, "none": [], "text": "a\nb"}
    show.result(value)
    said = capsys.readouterr().out
    assert '  "lanes": [\n    {"lane": 0},\n    {"lane": 1}\n  ],\n' in said
    assert json.loads(said) == value
