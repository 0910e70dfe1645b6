"""The account of all requests: a small run with each run of the tests, and what it would say of a kernel that loses some.

`scripts/requests --requests 200000` for as many as are promised.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos_run.system import SCRIPTS
from click.testing import CliRunner
from requests_run.__main__ import main
from requests_run.account import account_of
from requests_run.plan import CHUNKS, FILES, OF, TREE, Fate, below, fate_of
from requests_run.records import Owned, Records

#: With all that a busy machine adds; the run itself gives up earlier when nothing goes on.
RUN_S_MAX = 300


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The command, without the shell around it that makes an environment."""
    return subprocess.run(
        [sys.executable, "-m", "requests_run", *words],
        cwd=SCRIPTS, capture_output=True, text=True, timeout=RUN_S_MAX, check=False,
    )  # fmt: skip


@pytest.mark.timeout(RUN_S_MAX + 20)
@pytest.mark.parametrize(("kind", "requests", "kill_every"), [("threads", 1_000, 0.0), ("processes", 3_000, 0.5)])
def test_every_request_rejoins_once_or_is_reported(tmp_path: Path, kind: str, requests: int, kill_every: float) -> None:
    """In a hierarchy of three levels, some of which fail, while workers are killed: none is missing, none comes twice."""
    file = tmp_path / "accounts.json"
    words = ("--requests", str(requests), "--kinds", kind, "--kill-every", str(kill_every), "--seed", "7")
    done = run(*words, "--json", str(file))
    assert done.returncode == 0, f"scripts/requests {' '.join(words)}\n{done.stdout}{done.stderr}"
    (account,) = json.loads(file.read_text())
    assert account["holds"]
    assert account["posted"] > 0.9 * requests
    assert account["rejoined_failed"] > 0, "none was to fail"
    assert (account["kills"] > 0) == (kind == "processes"), "nobody was killed"


def whole() -> tuple[Records, dict[str, Any]]:
    """One hierarchy, of which all went well but for one that failed, and what the kernel says."""
    records = Records()
    records.posted["all"], records.owned["all"] = 1, Owned(1, 1, 0, 0)
    for path in ([0], *below([0])):
        name = ".".join(map(str, path))
        count = len(list(below(path)))
        records.posted[name] = count
        records.owned[name] = Owned(count, count, 0, 0) if path != [0] else Owned(count, count - 1, 1, 0)
        for each in (name, *(f"{name}.{n}" for n in range(count) if len(path) == 2)):
            records.begun[each] += 1
            records.ended[each] += 1
    none = dict.fromkeys(
        ("executing", "blocked", "posting", "owners", "lost_total", "unclaimed_total", "withdrawn_total"), 0
    )
    pools = dict.fromkeys(("ready", "executing_lanes", "rejoinable"), (0, 0, 0, 0))
    return records, {
        **none, **pools, "posted_total": TREE, "ended_total": TREE, "joined_total": TREE, "failed_total": 1,
    }  # fmt: skip


def test_a_run_that_went_well_holds() -> None:
    """With a failure in it, which is no loss."""
    records, told = whole()
    account = account_of("threads", 1, 0, records, told)
    assert (account.problems, account.holds, account.executed) == ([], True, TREE)
    assert (account.owners, account.rejoined, account.rejoined_failed) == (2 + FILES, TREE, 1)
    assert "nothing is wrong" in account.text()


def lose_one(records: Records, told: dict[str, Any]) -> None:
    records.owned["0.1"] = Owned(CHUNKS - 1, CHUNKS - 1, 0, 0)


def execute_twice(records: Records, told: dict[str, Any]) -> None:
    records.begun["0.1.3"] += 1


def say_none_exist(records: Records, told: dict[str, Any]) -> None:
    records.take("V 0.1: NONE_EXIST while 3 exist, 0.1.2 for one")


def forget_one(records: Records, told: dict[str, Any]) -> None:
    told["ended_total"] -= 1


def keep_one(records: Records, told: dict[str, Any]) -> None:
    told["rejoinable"] = (0, 0, 0, 1)


def post_more(records: Records, told: dict[str, Any]) -> None:
    told["posted_total"] = told["ended_total"] = told["joined_total"] = TREE + 1


def lose_without_a_kill(records: Records, told: dict[str, Any]) -> None:
    told["lost_total"] = 1


def never_end(records: Records, told: dict[str, Any]) -> None:
    del records.ended["0.1.3"]


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lose_one, "0.1 has posted 10, and 9 have rejoined"),
        (execute_twice, "0.1.3 was executed 2 times"),
        (say_none_exist, "NONE_EXIST while 3 exist"),
        (forget_one, "posted is not ended + withdrawn"),
        (keep_one, "the kernel is not empty when all has rejoined: {'rejoinable': (0, 0, 0, 1)}"),
        (post_more, f"the kernel counts {TREE + 1} posted, their owners {TREE}"),
        (lose_without_a_kill, "1 are lost, and nobody was killed"),
        (never_end, "1 executions have not ended, and 0 are lost"),
    ],
)
def test_whatever_is_wrong_is_seen(breaks: Callable[[Records, dict[str, Any]], None], said: str) -> None:
    """An account that always holds would be none."""
    records, told = copy.deepcopy(whole())
    breaks(records, told)
    account = account_of("threads", 1, 0, records, told)
    assert not account.holds
    assert said in account.text()


def test_the_plan_has_every_fate_at_every_level_and_is_the_same_each_time() -> None:
    """Whoever executes and whoever checks draw it apart."""
    for level in (1, 2, 3):
        drawn = [fate_of(3, [number, *[0] * (level - 1)]) for number in range(20 * OF)]
        assert drawn == [fate_of(3, [number, *[0] * (level - 1)]) for number in range(20 * OF)]
        assert set(drawn) >= {Fate.GOOD, Fate.RAISES}
        assert 0.97 < drawn.count(Fate.GOOD) / len(drawn) < 1.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kinds", "fibres"), "'fibres': expected threads or processes"),
        (("--requests", "0"), "0 is not in the range"),
        (("--kill", "1"), "No such option"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_code_2(words: tuple[str, ...], said: str) -> None:
    """An account that was not asked for is worse than none."""
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
