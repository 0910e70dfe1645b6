"""Every file is worked on once a round, whatever else happens in between."""

import pytest
from codesearch.worklist import FAILURES_MAX, Job, Worklist
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sets(st.sampled_from("abcdefgh"))


def run(work: Worklist) -> dict[str, Job]:
    """Take and finish all jobs there are."""
    jobs = {}
    while (job := work.take()) is not None:
        assert job.path not in jobs, "twice in one round"
        jobs[job.path] = job
        work.done(job, b"hash of " + job.path.encode(), size=10, entries=1)
    return jobs


@given(NAMES, NAMES)
def test_a_round_covers_what_is_there_and_what_no_longer_is(before: set[str], now: set[str]) -> None:
    """A file that is deleted stays in the index for ever unless a round says so."""
    work = Worklist()
    work.begin(before, is_full=True)
    run(work)
    work.begin(now, is_full=False)
    jobs = run(work)
    assert jobs.keys() == before | now
    assert {path for path, job in jobs.items() if job.is_gone} == before - now
    work.begin(now, is_full=False)
    assert run(work).keys() == now
    assert work.is_idle


def test_only_what_changed_is_tokenized_unless_the_round_is_full() -> None:
    """A refresh is cheap because the hash decides; a full round follows when the index was lost, and asks no hash."""
    work = Worklist()
    work.begin(["a"], is_full=True)
    (job,) = run(work).values()
    assert job.is_forced
    assert work.needs_tokens(job, b"hash of a")
    assert not work.needs_tokens(Job("a"), b"hash of a")
    assert work.needs_tokens(Job("a"), b"another")
    assert work.needs_tokens(Job("new"), b"hash of new")


def test_a_failed_file_is_tried_again_and_its_old_text_not_forgotten() -> None:
    """One that could not be read this time may still be in the index: when it is gone, it has to be taken out."""
    work = Worklist()
    work.begin(["a"], is_full=True)
    run(work)
    work.begin(["a"], is_full=False)
    job = work.take()
    assert job is not None
    work.fail(job, "permission denied")
    assert (work.files_done, work.failed) == (1, 1)
    assert work.needs_tokens(Job("a"), b"hash of a")
    work.begin([], is_full=False)
    assert run(work) == {"a": Job("a", is_gone=True)}


def test_a_round_begins_when_nothing_is_under_way() -> None:
    """Two readers on one file would mix two texts of it in a shard."""
    work = Worklist()
    work.begin(["a", "b"], is_full=True)
    job = work.take()
    assert job is not None
    work.stop()
    assert work.is_empty
    with pytest.raises(AssertionError):
        work.begin(["a"], is_full=True)
    work.drop(job)
    work.begin(["a"], is_full=True)
    assert run(work).keys() == {"a"}
    assert work.files_done == work.files_total == 1


def test_failures_are_all_counted_and_the_last_are_told() -> None:
    """A tree of unreadable files must not grow a list without end, nor be silent."""
    work = Worklist()
    paths = [str(n) for n in range(FAILURES_MAX * 2)]
    work.begin(paths, is_full=True)
    while (job := work.take()) is not None:
        work.fail(job, "no")
    assert work.failed == len(paths)
    assert [path for path, _ in work.failures] == paths[FAILURES_MAX:]
