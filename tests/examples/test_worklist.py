"""Every file is worked on once a round, whatever else happens in between."""

from codesearch.worklist import FAILURES_MAX, Job, Round, Worklist
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
    work.begin(Round.INDEX, before)
    run(work)
    work.begin(Round.VERIFY, now)
    jobs = run(work)
    assert jobs.keys() == before | now
    assert {path for path, job in jobs.items() if job.is_gone} == before - now
    work.begin(Round.VERIFY, now)
    assert run(work).keys() == now


def test_only_what_changed_is_tokenized_when_verifying() -> None:
    """Verifying is cheap because the hash decides; indexing is not asked."""
    work = Worklist()
    work.begin(Round.INDEX, ["a"])
    (job,) = run(work).values()
    assert job.is_forced
    assert work.needs_tokens(job, b"hash of a")
    verify = Job("a")
    assert not work.needs_tokens(verify, b"hash of a")
    assert work.needs_tokens(verify, b"another")
    assert work.needs_tokens(Job("new"), b"hash of new")


def test_a_failed_file_is_tried_again() -> None:
    """A file that could not be read has no hash, so a verify round takes it up."""
    work = Worklist()
    work.begin(Round.INDEX, ["a"])
    job = work.take()
    assert job is not None
    work.fail(job, "permission denied")
    assert (work.files_done, work.failed) == (1, 1)
    work.begin(work.next_round(), ["a"])
    again = work.take()
    assert again is not None
    assert work.needs_tokens(again, b"anything")


def test_rounds_alternate() -> None:
    """Bulk work that never ends: index, verify, index, …"""
    work = Worklist()
    rounds = []
    for _ in range(4):
        rounds.append(work.next_round())
        work.begin(rounds[-1], ["a"])
        run(work)
    assert rounds == [Round.INDEX, Round.VERIFY, Round.INDEX, Round.VERIFY]


def test_after_a_loss_everything_is_tokenized_again() -> None:
    """A shard that was restarted is empty: a hash that says "unchanged" would leave it so."""
    work = Worklist()
    work.begin(Round.INDEX, ["a", "b"])
    run(work)
    work.forget()
    work.begin(Round.VERIFY, ["a", "b"])
    assert all(work.needs_tokens(job, b"hash of " + job.path.encode()) for job in run(work).values())


def test_a_new_round_replaces_the_rest_of_the_old_one() -> None:
    """Asking twice for a rebuild must not do the work twice; a job under way may finish after its round."""
    work = Worklist()
    work.begin(Round.INDEX, ["a", "b", "c"])
    late = work.take()
    assert late is not None
    work.begin(Round.INDEX, ["a"])
    work.done(late, b"", size=1, entries=1)
    assert run(work).keys() == {"a"}
    assert work.files_done == work.files_total == 1


def test_failures_are_all_counted_and_the_last_are_told() -> None:
    """A tree of unreadable files must not grow a list without end, nor be silent."""
    work = Worklist()
    paths = [str(n) for n in range(FAILURES_MAX * 2)]
    work.begin(Round.INDEX, paths)
    while (job := work.take()) is not None:
        work.fail(job, "no")
    assert work.failed == len(paths)
    assert [path for path, _ in work.failures] == paths[FAILURES_MAX:]
