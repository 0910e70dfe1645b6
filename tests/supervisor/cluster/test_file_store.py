"""The file store among processes: one swap wins, and whoever dies or stops leaves a record that is whole."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import resource
import signal
import stat
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from appbackplane.supervisor.cluster.file_store import FileStore
from appbackplane.supervisor.cluster.keeper import Keeper
from appbackplane.supervisor.cluster.lease import Conflict, ReadRecord, Swap, Trouble
from appbackplane.supervisor.cluster.record import LeaseRecord, Snapshot
from appbackplane.supervisor.cluster.stores import StoreError
from appbackplane.transport.errors import FailedPrecondition
from tests.waiting import LIMIT_S

#: Each process is a fork of one that has imported this module.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])


def record(beat: int = 0, holder: str = "a") -> LeaseRecord:
    """One that tells how often it was swapped."""
    return LeaseRecord(epoch=1, holder=holder, beat=beat, ttl_ns=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[FileStore]:
    made = FileStore(str(folder), "c")
    yield made
    made.close()


def swap_often(folder: str, count: int, told: Connection) -> None:
    """In a process: counts up, and tells how often that was done."""
    store = FileStore(folder, "c")
    done = 0
    while done < count:
        seen = store.look()
        beat = 0 if seen.record is None else seen.record.beat
        done += store.swap(seen.version, record(beat + 1)) is not None
        told.send(done)


def test_a_record_is_kept_and_swapped_by_version(store: FileStore, folder: Path) -> None:
    """By whoever has seen the last one, and in a file that is for nobody else."""
    assert store.look() == Snapshot("0")
    first = store.swap("0", record(1))
    assert first is not None and first.record == record(1) and first == store.look()
    assert store.swap("0", record(2)) is None
    other = FileStore(str(folder), "c")
    second = other.swap(first.version, record(2))
    assert second is not None and second.record == record(2) and second == store.look()
    other.close()
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "c.lease": 0o600,
        "c.lock": 0o600,
    }


@pytest.mark.systems
def test_no_swap_of_many_processes_is_lost(store: FileStore, folder: Path) -> None:
    """Two that both believed theirs was done would both be primary."""
    mine, theirs = FORKED.Pipe(duplex=False)
    processes = [FORKED.Process(target=swap_often, args=(str(folder), 40, theirs)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT_S)
        assert process.exitcode == 0
    mine.close()
    seen = store.look()
    assert seen.record is not None and seen.record.beat == 120


@pytest.mark.systems
def test_who_is_killed_in_the_middle_leaves_a_whole_record_and_no_lock(store: FileStore, folder: Path) -> None:
    """At whatever point of a swap."""
    for count in range(1, 4):
        mine, theirs = FORKED.Pipe(duplex=False)
        process = FORKED.Process(target=swap_often, args=(str(folder), 1_000_000, theirs))
        process.start()
        for _ in range(7 * count):
            assert mine.poll(LIMIT_S)
            mine.recv()
        process.kill()
        process.join(LIMIT_S)
        seen = store.look()
        assert seen.record is not None
        assert store.swap(seen.version, record(seen.record.beat + 1)) is not None


def test_who_is_stopped_with_the_lock_keeps_others_from_swapping_and_not_from_looking(
    store: FileStore, folder: Path
) -> None:
    """Its fuse ends that; until then a supervisor is not kept waiting, since another thread asks."""
    first = store.swap("0", record(1))
    assert first is not None
    keeper = Keeper(FileStore(str(folder), "c"))
    with open(folder / "c.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert store.look() == first
        keeper.ask(Swap(first.version, record(2)))
        assert keeper.wait(0.05) is None and keeper.is_busy
    assert keeper.wait(LIMIT_S) == store.look() and store.look().record == record(2) and not keeper.is_busy
    keeper.ask(Swap(first.version, record(9)))
    assert isinstance(keeper.wait(LIMIT_S), Conflict)
    (folder / "c.lease").write_text("{")
    keeper.ask(ReadRecord())
    told = keeper.wait(LIMIT_S)
    assert isinstance(told, Trouble) and "c.lease is not a lease record" in told.because
    keeper.close(LIMIT_S)
    assert not any(thread.name == "lease" for thread in threading.enumerate())


def test_a_folder_that_is_gone_is_not_taken_for_an_empty_one(folder: Path) -> None:
    """A network file system that is unmounted would make every node of a cluster primary."""
    there = folder / "there"
    there.mkdir(mode=0o700)
    way = folder / "way"
    way.symlink_to(there)
    store = FileStore(str(way), "c")
    first = store.swap("0", record(1))
    assert first is not None
    way.unlink()
    with pytest.raises(StoreError, match="No such file"):
        store.look()
    with pytest.raises(StoreError, match="No such file"):
        store.swap(first.version, record(2))
    (folder / "other").mkdir(mode=0o700)
    way.symlink_to(folder / "other")
    with pytest.raises(StoreError):
        store.look()
    way.unlink()
    way.symlink_to(there)
    assert store.look() == first
    store.close()


def test_a_file_that_was_removed_and_written_again_is_not_taken_for_itself(store: FileStore, folder: Path) -> None:
    """Whoever had seen the one before would believe that nothing has changed since, and take a lease that is new."""
    versions = []
    for _ in range(2):
        first = store.swap("0", record(1))
        assert first is not None
        versions.append(first.version)
        (folder / "c.lease").unlink()
    assert versions[0] != versions[1]
    store.swap("0", record(1))
    assert store.swap(versions[0], record(2)) is None


def swap_with_little_room(folder: str) -> None:
    """In a process that may write files of 60 bytes: less than a record."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, resource.RLIM_INFINITY))
    store = FileStore(folder, "c")
    with pytest.raises(StoreError, match=r"c\.lease cannot be written: File too large"):
        store.swap(store.look().version, record(2))


@pytest.mark.systems
def test_a_record_that_has_no_room_does_not_replace_the_one_before(store: FileStore, folder: Path) -> None:
    """Half of one is none: nobody could take the lease again before somebody removed it by hand."""
    first = store.swap("0", record(1))
    process = FORKED.Process(target=swap_with_little_room, args=(str(folder),))
    process.start()
    process.join(LIMIT_S)
    assert process.exitcode == 0 and store.look() == first


def test_what_is_not_this_clusters_is_refused(store: FileStore, folder: Path) -> None:
    """A file that was copied, or is somebody else's text."""
    store.swap("0", record(1))
    (folder / "d.lease").write_bytes((folder / "c.lease").read_bytes())
    other = FileStore(str(folder), "d")
    with pytest.raises(StoreError, match=r"d\.lease: this lease belongs to cluster 'c'"):
        other.look()
    other.close()


def test_folders_that_cannot_hold_a_lease_are_told_before_anything_starts(folder: Path) -> None:
    """In a sentence with what is to be done."""
    (folder / "file").touch()
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    refused = {
        "none": "cluster.lease: folder .*/none: No such file or directory",
        "file": "cluster.lease: .*/file is not a folder",
        "open": "cluster.lease: folder .*/open can be changed by others: chmod 700 .*/open",
    }
    for name, because in refused.items():
        with pytest.raises(FailedPrecondition, match=because):
            FileStore(str(folder / name), "c")


@pytest.mark.skipif(os.getuid() == 0, reason="root writes wherever it likes")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    """As above, where the file system says so."""
    folder.chmod(0o500)
    with pytest.raises(FailedPrecondition, match="cannot be written: Permission denied"):
        FileStore(str(folder), "c")
