"""Every case of the table is there, and the command does what its usage says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench_cases.__main__ import main
from bench_cases.cases import CASES
from bench_cases.harness.runner import run
from bench_cases.harness.systems import environment
from click.testing import CliRunner

from appbackplane.runtime.build import BUILD
from tests.waiting import LIMIT_S

#: What the project promises; a case that goes missing would be a promise that nobody measures.
PROMISED = {
    "call_rtt", "call_pipelined", "urgent_short", "urgent_long", "urgent_same_client", "blocking", "inversion",
    "inversion_limited", "inversion_chain", "cpu_limit", "inproc", "pubsub", "large", "many_objects", "startup", "restart",
    "idle", "operator_view", "spark_read", "spark_stats", "dispatcher_overhead", "dispatcher_scaling", "dispatcher_accessor",
    "requests_indexing", "spawn",
}  # fmt: skip
#: A run starts systems, and each may take as long as a hang.
RUN_S_MAX = 2 * LIMIT_S


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """The command, without the shell around it that makes an environment."""
    command = [sys.executable, "-m", "bench_cases", *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=RUN_S_MAX, check=False)


def test_every_promise_has_a_case() -> None:
    """By name, once, with a target and a docstring of its own."""
    names = [case.name for case in CASES]
    assert set(names) >= PROMISED
    assert len(names) == len(set(names))
    assert all(case.requirements and case.rounds >= case.quick_rounds >= 1 for case in CASES)


@pytest.mark.parametrize("name", ["call_rtt", "inproc", "restart", "dispatcher_overhead"])
def test_the_smallest_round_measures_both_sides(name: str) -> None:
    """Whether the target holds is not a test's business: machines differ. That it is measured, is."""
    case = next(case for case in CASES if case.name == name)
    result = run(case, is_quick=True, rounds_max=1)
    assert result.ours, result.note
    assert set(result.reference) <= set(result.ours), "what the reference has, ours has; ours may have more"
    assert all(value > 0 for value in (*result.ours.values(), *result.reference.values(), result.ratio))


def test_one_case_by_command_writes_what_it_prints(tmp_path: Path) -> None:
    """Exit code 0 or 1 by what was found, and the file says the same."""
    file = tmp_path / "found.json"
    done = bench("--quick", "--json", str(file), "startup")
    (row,) = json.loads(file.read_text())
    assert row["case"] == "startup"
    assert done.returncode == (0 if row["pass"] else 1)
    assert "startup" in done.stdout
    for said in (done.stdout.splitlines()[0], done.stdout.splitlines()[-1], done.stderr):
        assert re.search(rf"AppBackplane \S+ {BUILD}, CPython 3\.\d+\.\d+, \d+ cores", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("call_rt",), "did you mean 'call_rtt'?"),
        (("--slow",), "No such option"),
        (("--json", "nowhere/found.json"), "there is no folder"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_code_2(words: tuple[str, ...], said: str) -> None:
    """A case that is silently not measured would be found the day somebody needs its figure."""
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_cases_can_be_listed() -> None:
    """Without measuring any."""
    done = CliRunner().invoke(main, ["--list"])
    assert done.exit_code == 0
    assert all(case.name in done.stdout and case.target in done.stdout for case in CASES)
