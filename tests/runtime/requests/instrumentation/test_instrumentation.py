"""Instrumentation: a kernel under a virtual clock says what it did, when its policy says so, and to whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.requests.instrumentation import IntervalRecord
from appbackplane.runtime.requests.instrumentation import instrumentation as module
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InvalidArgument

TOPIC = "indexing.interval"


class Add(Runnable):
    def execute(self, request: list[int], kernel: Context) -> int:
        return sum(request)


class Indexing(RequestKernel):
    runnables = (Add,)


class Running:
    """A kernel, and what it has published."""

    def __init__(self, **settings: Any) -> None:
        self.kernel = Indexing(KernelPolicy(workers=2, **settings))
        self.backplane = VirtualBackplane(self.kernel, topics=(TOPIC,))
        _ = self.backplane.backplane

    def add(self, count: int) -> None:
        """Have so many requests executed, and rejoin."""
        for number in range(count):
            self.kernel.kernel.post([number, 1], Add, owner="test")
        self.backplane.run_until_idle()
        for _ in range(count):
            assert self.kernel.kernel.rejoin("test")[1] is not None

    @property
    def published(self) -> list[Mapping[str, Any]]:
        """All on its topic."""
        return [body for topic, body in self.backplane.published if topic == TOPIC]


def test_each_interval_is_published_and_adds_up() -> None:
    """`appbackplane listen indexing.interval` shows a kernel at work, and nothing has to be switched on for it."""
    running = Running()
    running.add(3)
    running.backplane.advance(1.0)
    running.add(4)
    running.backplane.advance(1.0)
    first, second = running.published
    assert (first["ended"], second["ended"]) == (3, 4)
    assert second["joined"] == 4 and second["interval_ns"] == 10**9 and second["throughput"] == 4.0
    assert second["kernel"] == "indexing" and second["backplane"] == "virtual"
    assert second["by_worker"].keys() == {"worker-1", "worker-2"}
    assert sum(each["ended"] for each in second["by_worker"].values()) == 4
    last = running.kernel.last_interval
    assert last is not None and last == msgspec.convert(json.loads(json.dumps(second)), IntervalRecord)


def test_an_idle_kernel_says_so_once() -> None:
    """A night of zeros would push what happened before it out of files that are bounded."""
    running = Running()
    running.add(1)
    running.backplane.advance(5.0)
    assert [body["ended"] for body in running.published] == [1, 0]
    running.add(2)
    running.backplane.advance(5.0)
    found = running.published
    assert [body["ended"] for body in found] == [1, 0, 2, 0]
    assert found[2]["interval_ns"] == 10**9, "of the interval in which it happened, not of the night before"


def test_the_interval_may_change_while_it_runs() -> None:
    """And every change of settings is in the record of its interval, with the reason."""
    running = Running(record_interval=10.0)
    running.add(1)
    running.backplane.advance(5.0)
    assert running.published == []
    running.kernel.change(record_interval=0.5, ready=50)
    running.backplane.advance(0.5)
    (found,) = running.published
    assert found["interval_ns"] == 5_500_000_000
    (change,) = found["changes"]
    assert change["settings"] == {"record_interval": [10.0, 0.5], "ready": [100, 50]}
    assert (
        change["reason"] == "asked for"
        and change["at_ns"] == running.backplane.backplane._platform.unix_ns() - 500_000_000
    )
    running.add(1)
    running.backplane.advance(0.5)
    assert running.published[-1]["interval_ns"] == 500_000_000 and running.published[-1]["changes"] == []


def test_a_move_of_the_optimiser_is_in_the_record_with_its_reason() -> None:
    """Who asks why there were eight workers last night finds what it saw beside what it did."""
    running = Running()
    running.kernel._change({"workers": 3}, "optimiser: more of them did more")
    running.backplane.advance(1.0)
    (body,) = running.published
    assert [(each["settings"], each["reason"]) for each in body["changes"]] == [
        ({"workers": [2, 3]}, "optimiser: more of them did more")
    ]
    assert body["workers"] == 3


def test_nothing_is_recorded_when_it_is_down_but_what_was_left() -> None:
    """The last interval is a short one; without it the records of a run do not add up to what it did."""
    running = Running()
    running.add(1)
    running.backplane.advance(1.25)
    running.add(6)
    running.backplane.move("down")
    running.backplane.advance(10.0)
    found = running.published
    assert [body["ended"] for body in found] == [1, 6] and found[-1]["interval_ns"] == 250_000_000
    assert running.backplane.backplane.statistics()["requests"] == {}


def test_statistics_have_the_totals() -> None:
    """For `status --stats`, and for Prometheus."""
    running = Running()
    running.add(5)
    found = running.backplane.backplane.statistics()["requests"]["indexing"]
    assert (found["posted"], found["begun"], found["ended"], found["joined"]) == (5, 5, 5, 5)
    assert found["limits"] == {"workers": 2, "ready": 100, "rejoin": 1000} and found["recording"] is None
    assert sum(each["ended"] for each in found["by_worker"].values()) == 5


def lines(folder: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for path in sorted(folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()]


def written(running: Running) -> None:
    """Wait until the disk has it all."""
    instrumentation = running.kernel._instrumentation
    assert instrumentation is not None and instrumentation._writer is not None
    writer = instrumentation._writer
    running.kernel.change(record=False)
    assert writer.join(30.0)


def test_records_are_written_where_the_policy_says(tmp_path: Path) -> None:
    """In a folder for each kernel, so that several may name one."""
    running = Running(record=True, record_dir=str(tmp_path / "measured"))
    running.add(2)
    running.backplane.advance(2.0)
    running.add(3)
    running.backplane.advance(1.0)
    assert running.backplane.backplane.statistics()["requests"]["indexing"]["recording"]["lost"] == 0
    written(running)
    assert [each["ended"] for each in lines(tmp_path / "measured" / "virtual" / TOPIC)] == [2, 0, 3]


def test_it_may_be_switched_on_while_it_runs(tmp_path: Path) -> None:
    """Whoever looks for what is slow does not want to restart it."""
    running = Running(record_dir=str(tmp_path))
    running.add(1)
    running.backplane.advance(1.0)
    running.kernel.change(record=True)
    running.add(2)
    running.backplane.advance(1.0)
    written(running)
    assert [each["ended"] for each in lines(tmp_path)] == [2]
    running.add(2)
    running.backplane.advance(1.0)
    assert len(lines(tmp_path)) == 1


def test_a_folder_that_nobody_has_is_refused_and_the_records_go_on(tmp_path: Path) -> None:
    """What is refused changes nothing: neither the policy nor who writes."""
    running = Running(record=True, record_dir=str(tmp_path))
    with pytest.raises(InvalidArgument, match="record_dir = '~nobody_of_that_name/x': there is no such folder"):
        running.kernel.change(record_dir="~nobody_of_that_name/x")
    assert running.kernel.policy.record_dir == str(tmp_path)
    running.add(3)
    running.backplane.advance(1.0)
    written(running)
    assert [each["ended"] for each in lines(tmp_path)] == [3]


def test_where_no_other_writer_can_be_made_the_one_that_there_is_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may have no thread left to give; that is no reason to record nothing from then on, and not to say so."""

    def exhausted(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    running = Running(record=True, record_dir=str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(module, "RecordWriter", exhausted)
        with pytest.raises(RuntimeError):
            running.kernel.change(record_dir=str(tmp_path / "other"))
    running.add(3)
    running.backplane.advance(1.0)
    written(running)
    assert [each["ended"] for each in lines(tmp_path)] == [3]


def test_a_folder_that_cannot_be_is_no_end_of_the_kernel(tmp_path: Path) -> None:
    """Records are for who looks at it; the work goes on."""
    (tmp_path / "file").write_text("")
    running = Running(record=True, record_dir=str(tmp_path / "file"))
    running.add(1)
    running.backplane.advance(1.0)
    instrumentation = running.kernel._instrumentation
    assert instrumentation is not None
    writer = instrumentation._writer
    assert writer is not None
    written(running)
    assert writer.figures()["lost"] == 1 and "Not a directory" in str(writer.problem)
    running.add(1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"record_size": 100}, "record_size = 100: expected 65536 to"),
        ({"record_age": 0.0}, "record_age = 0.0: expected seconds, 1 to"),
        ({"record_dir": "records"}, "record_dir = 'records': expected a path from / or from ~"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Mapping[str, Any], said: str) -> None:
    """In one sentence, before anything is written anywhere."""
    running = Running()
    with pytest.raises(InvalidArgument, match=said):
        running.kernel.change(**settings)
