"""The PostgreSQL store against a server of its own: one swap wins, and what breaks is told and made again.

Where neither PostgreSQL nor psycopg is installed this is skipped: no double of either would find what they do differently.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.supervisor.cluster.postgres_store import TABLE, PostgresStore
from appbackplane.supervisor.cluster.record import LeaseRecord, Snapshot
from appbackplane.supervisor.cluster.stores import StoreError
from tests.waiting import EVERY_S, LIMIT_S, Limit

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
if not (shutil.which("initdb") and shutil.which("postgres")):
    pytest.skip("PostgreSQL is not installed", allow_module_level=True)


class Server:
    """One in a folder of its own, on a socket in it."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder, self._user = folder, user
        self.url = f"postgresql://lease@/postgres?host={folder}"
        data = folder / "data"
        subprocess.run(
            ["initdb", "-D", data, "-U", "lease", "-A", "trust", "-N"], user=user, check=True, capture_output=True
        )
        self.start()

    def start(self) -> None:
        """Until it takes connections."""
        words = [
            "postgres",
            "-D",
            self.folder / "data",
            "-k",
            self.folder,
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        self._process = subprocess.Popen(words, user=self._user, stderr=subprocess.DEVNULL)
        limit = Limit()
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None
            limit.check(pause_s=EVERY_S)

    def stop(self) -> None:
        """At once, as after a crash."""
        self._process.send_signal(3)
        self._process.wait(LIMIT_S)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    user = None
    folder = Path(tempfile.mkdtemp(prefix="ab-pg-"))
    if os.getuid() == 0:  # which PostgreSQL does not run as
        user = "nobody"
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    made = Server(folder, user)
    yield made
    made.stop()
    shutil.rmtree(folder)


@pytest.fixture
def store(server: Server) -> Iterator[PostgresStore]:
    """Of a cluster that is not there yet."""
    made = PostgresStore(server.url, f"c{time.monotonic_ns()}", 2.0)
    yield made
    made.close()


def record(beat: int) -> LeaseRecord:
    """One that tells how often it was swapped."""
    return LeaseRecord(epoch=1, holder="a", beat=beat, ttl_ns=1)


def test_a_record_is_kept_and_swapped_by_version(store: PostgresStore) -> None:
    """By whoever has seen the last one; of two firsts one wins."""
    assert store.look() == Snapshot("0")
    first = store.swap("0", record(1))
    assert first is not None and first == store.look() and first.record == record(1)
    assert store.swap("0", record(2)) is None
    second = store.swap(first.version, record(2))
    assert second is not None and second == store.look()
    assert store.swap(first.version, record(3)) is None


def test_no_swap_of_many_writers_is_lost(server: Server, store: PostgresStore) -> None:
    """Each over a connection of its own."""

    def swap_often() -> None:
        own, done = PostgresStore(server.url, store._cluster, 2.0), 0
        while done < 50:
            seen = own.look()
            done += own.swap(seen.version, record(1 if seen.record is None else seen.record.beat + 1)) is not None
        own.close()

    threads = [threading.Thread(target=swap_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    seen = store.look()
    assert seen.record is not None and seen.record.beat == 200


def test_a_row_that_was_written_again_is_not_taken_for_itself(server: Server, store: PostgresStore) -> None:
    """Whoever saw the one before would swap what he has never seen."""
    first = store.swap("0", record(1))
    assert first is not None
    with psycopg.connect(server.url) as connection:
        connection.execute(f"DELETE FROM {TABLE}")
    assert store.look() == Snapshot("0")
    assert store.swap("0", record(1)) is not None
    assert store.swap(first.version, record(2)) is None


def test_a_server_that_goes_is_told_and_found_again(server: Server, store: PostgresStore) -> None:
    """With what it held."""
    first = store.swap("0", record(1))
    server.stop()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"^PostgreSQL: "):
            store.look()
    server.start()
    assert store.look() == first


def test_one_that_is_not_there_or_takes_nobody_is_told(server: Server) -> None:
    """In one line, for whoever starts a node."""
    for url in (
        "postgresql://lease@127.0.0.1:1/postgres",
        server.url.replace("lease", "nobody-here"),
        "postgresql://[/",
    ):
        lost = PostgresStore(url, "c", 2.0)
        with pytest.raises(StoreError, match=r"^PostgreSQL: [^\n]+$"):
            lost.look()
        lost.close()
