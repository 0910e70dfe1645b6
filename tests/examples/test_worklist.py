"""Every file is worked on once a round, whatever else happens in between."""

from codesearch.worklist import FAILURES_MAX, Worklist
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sets(st.sampled_from("abcdefgh"))


def run(work: Worklist, paths: set[str], *, is_full: bool = True) -> set[str]:
    """A round over these files; those that were taken out of the index."""
    work.begin(is_full=is_full)
    work.enlist(paths)
    gone: set[str] = set()
    while missing := work.missing(2):
        assert gone.isdisjoint(missing), "twice in one round"
        gone.update(missing)
    for path in paths:
        work.done(path, b"hash of " + path.encode(), size=10, entries=1)
    for path in gone:
        work.gone(path)
    return gone


@given(NAMES, NAMES)
def test_a_round_covers_what_is_there_and_what_no_longer_is(before: set[str], now: set[str]) -> None:
    """A file that is deleted stays in the index for ever unless a round says so."""
    work = Worklist()
    assert run(work, before) == set()
    assert run(work, now, is_full=False) == before - now
    assert work.files_total == work.files_done == len(before | now)
    assert run(work, now, is_full=False) == set()
    assert work.is_complete is bool(now)


def test_only_what_changed_is_tokenized_unless_the_round_is_full() -> None:
    """A refresh is cheap because the hash decides; a full round follows when the index was lost, and asks no hash."""
    work = Worklist()
    run(work, {"a"})
    work.begin(is_full=False)
    assert work.digest("a") == b"hash of a"
    assert work.digest("new") == b""
    work.begin(is_full=True)
    assert work.digest("a") == b"", "which is no file's"


def test_a_failed_file_is_tried_again_and_its_old_text_not_forgotten() -> None:
    """One that could not be read this time may still be in the index: when it is gone, it has to be taken out."""
    work = Worklist()
    run(work, {"a"})
    work.begin(is_full=False)
    work.enlist(["a"])
    work.fail("a", "permission denied")
    assert (work.files_done, work.failed, work.is_complete) == (1, 1, True)
    work.begin(is_full=False)
    assert work.digest("a") == b""
    assert run(work, set(), is_full=False) == {"a"}


def test_a_round_that_was_stopped_is_over_and_never_complete() -> None:
    """Requests of it that have not begun must not begin, and its end must not order the next one."""
    work = Worklist()
    first = work.begin(is_full=True)
    work.enlist(["a"])
    assert work.goes_on(first)
    work.stop()
    work.done("a", b"", 0, 0)
    assert not work.goes_on(first)
    assert not work.is_complete
    second = work.begin(is_full=True)
    assert work.goes_on(second)
    assert not work.goes_on(first), "nor is it the next one's"


def test_failures_are_all_counted_and_the_last_are_told() -> None:
    """A tree of unreadable files must not grow a list without end, nor be silent."""
    work = Worklist()
    paths = [str(n) for n in range(FAILURES_MAX * 2)]
    work.begin(is_full=True)
    work.enlist(paths)
    for path in paths:
        work.fail(path, "no")
    assert work.failed == len(paths)
    assert [path for path, _ in work.failures] == paths[FAILURES_MAX:]
