"""The example of the pipeline: its parts without Spark, and then all of it, as its README has it started.

What is joined in which window is tested in tests/spark/test_example.py, where there is a session.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from alerts import KEPT_MAX, Alerts
from codesearch.query import Query
from people import People

from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import Message, Subscription, connect
from tests.waiting import Limit

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline"
INDEX = 'components = ["codesearch.index:Index"]\n'
#: The whole test takes 35 s on a quiet machine; beside another run of the tests the first alert took up to four minutes.
LIMIT_S = 600.0


def show(backplane: VirtualBackplane, since_ns: int) -> None:
    """As watch.py would."""
    backplane.call("alerts.show", since_ns=since_ns, searches=100, p99_ms=2.5, cpu_percent=97.0).result()


def test_an_alert_is_listed_and_published(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever looks later, whoever listens and whoever reads the log has to be told the same."""
    backplane = VirtualBackplane(Alerts(), topics=("alerts.shown",))
    show(backplane, 7)
    told = {"since_ns": 7, "searches": 100, "p99_ms": 2.5, "cpu_percent": 97.0}
    assert backplane.call("alerts.list").result() == [told]
    assert backplane.published == [("alerts.shown", told)]
    assert "p99 2.5 ms of 100" in caplog.text


def test_alerts_are_in_the_order_of_their_windows_and_bounded() -> None:
    """Spark promises no order of the rows of a micro-batch; and the memory of who shows them has an end."""
    backplane = VirtualBackplane(Alerts())
    for since_ns in (3, 1, 2):
        show(backplane, since_ns)
    assert [alert["since_ns"] for alert in backplane.call("alerts.list").result()] == [1, 2, 3]
    assert [alert["since_ns"] for alert in backplane.call("alerts.list", limit=1).result()] == [3]
    assert backplane.call("alerts.list", limit=0).result() == []
    for since_ns in range(KEPT_MAX + 10):
        show(backplane, since_ns)
    assert len(backplane.call("alerts.list", limit=KEPT_MAX + 10).result()) == KEPT_MAX


def test_people_search_at_a_steady_pace() -> None:
    """Without searches there is nothing to watch, and a failure that nobody counts looks like none."""
    people = People()
    backplane = VirtualBackplane(Query(), people)
    done = backplane.advance(1.0)
    assert done.count("shard_for_text") == 50, "query is asked once a search"
    assert people.failed == 0


def test_files_are_measured(tmp_path: Path) -> None:
    """Exactly; a file that is gone, or too large, is left out and does not end the work."""
    pa = pytest.importorskip("pyarrow", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    import files

    (tmp_path / "a.py").write_text("def one():\n    return one\n")
    (tmp_path / "b.md").write_bytes(b"# on\xff and on\n")
    (tmp_path / "empty.c").touch()
    (tmp_path / "image.png").touch()
    with (tmp_path / "large.json").open("wb") as large:
        large.truncate(files.BYTES_MAX + 1)
    found = list(files.paths(tmp_path))
    assert [Path(path).name for path in found] == ["a.py", "b.md", "empty.c", "large.json"]
    (batch,) = files.measured([pa.RecordBatch.from_pydict({"path": [*found, str(tmp_path / "gone.py")]})])
    rows = {Path(row["path"]).name: row for row in batch.to_pylist()}
    assert {name: (row["language"], row["lines"], row["words"], row["distinct"]) for name, row in rows.items()} == {
        "a.py": ("Python", 2, 4, 3),
        "b.md": ("Markdown", 1, 3, 2),
        "empty.c": ("C", 0, 0, 0),
    }
    assert rows["a.py"]["bytes"] == (tmp_path / "a.py").stat().st_size
    assert batch.schema.names == [column.split()[0] for column in files.SCHEMA.split(", ")]


@pytest.fixture
def example() -> Iterator[Path]:
    """The example as a newcomer has it, in a folder whose name is short enough for sockets. Its system is taken down.

    But for what is indexed: the example itself, not Python's library, which keeps two cores busy for a minute.
    """
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        copy = Path(folder) / "pipeline"
        shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("run", "run.log", "__pycache__", "bulk"))
        toml, settings = copy / "watched.toml", f'[backplane.index.settings.Index]\nroot = "{copy}"\n'
        toml.write_text(toml.read_text().replace(INDEX, f"{INDEX}{settings}"))
        assert settings in toml.read_text()
        yield copy
        subprocess.run([sys.executable, "-m", "appbackplane.supervisor", "down", "-s", str(copy / "run")], check=False)


def first_of(shown: Subscription, watch: subprocess.Popen[str]) -> Message | None:
    """The first alert; None once the program that is to tell of it has ended."""
    limit = Limit(LIMIT_S)
    while watch.poll() is None:
        with suppress(TimeoutError):
            return shown.get(timeout=1.0)
        limit.check("no alert was shown")
    return None


@pytest.mark.timeout(2 * LIMIT_S)
def test_an_alert_comes_back_into_the_system(example: Path) -> None:
    """All of it at once: recorded, read as two streams, joined, written back, shown. Ends in order when it is told to."""
    pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    subprocess.run(
        [sys.executable, "-m", "appbackplane.supervisor", "up", "--detach", "watched.toml"], cwd=example, check=True
    )
    command = [sys.executable, "watch.py", "--window", "1 second", "--p99-ms", "0", "--cpu", "0"]
    with connect(example / "run") as client, client.subscribe("alerts.shown") as shown:
        watch = subprocess.Popen(
            command, cwd=example, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
        )
        try:
            message = first_of(shown, watch)
        finally:
            watch.send_signal(signal.SIGINT)
            said, _ = watch.communicate(timeout=LIMIT_S)
        assert message is not None and watch.returncode == 0, said
        assert message.body["searches"] >= 1
        assert message.body["p99_ms"] > 0
        assert 0 <= message.body["cpu_percent"] <= 100
        alerts = client.call("alerts.list", limit=KEPT_MAX)
        assert message.body in alerts or len(alerts) == KEPT_MAX, (
            "the last ones are kept: a slow Spark finds many at a time"
        )
        assert len({alert["since_ns"] for alert in alerts}) == len(alerts), "a window is shown once"
