"""Index in a whole backplane, without processes: alone, where the test plays `query`, and together with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codesearch import index as index_module
from codesearch.index import FILE_BYTES_MAX, Index
from codesearch.query import Query

from appbackplane.runtime import InvalidArgument, PeerDown
from appbackplane.runtime.testing import OutsideCall, VirtualBackplane

OUTSIDE = ("query.ingest", "query.statistics")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Forty files, a few of which fill a batch."""
    for n in range(40):
        (tmp_path / f"{n:02}.py").write_text("\n".join(f"def name_{n}_{m}(shared): pass" for m in range(n * 5 + 1)))
    return tmp_path


def both(tree: Path, **settings: Any) -> VirtualBackplane:
    """Both components in one backplane, which has read everything."""
    backplane = VirtualBackplane(Query(shards=4), Index(root=str(tree), **settings))
    backplane.advance(1.0)
    return backplane


class PlayedQuery:
    """The `query` of another process, played by the test."""

    def __init__(self, backplane: VirtualBackplane, epoch: str = "first", shards: int = 4) -> None:
        self.backplane, self.epoch, self.shards = backplane, epoch, shards
        self.answered: set[int] = set()

    def waiting(self, route: str = "query.ingest") -> list[OutsideCall]:
        """Calls that have come and are not answered yet."""
        self.backplane.run_until_idle()
        return [call for call in self.backplane.outside_calls(route) if id(call) not in self.answered]

    def answer(self, call: OutsideCall) -> None:
        """As a shard would."""
        self.answered.add(id(call))
        if call.envelope.route == "query.statistics":
            call.reply({"epoch": self.epoch, "shards": self.shards})
        else:
            call.reply({"epoch": self.epoch, "entries": 1})

    def answer_all(self) -> Iterator[int]:
        """Until no more comes; each time, how many batches wait at once."""
        while calls := self.waiting("query.statistics") or self.waiting():
            self.answer(calls[0])
            yield len(calls) if calls[0].envelope.route == "query.ingest" else 0


def test_what_is_in_the_tree_is_found(tree: Path) -> None:
    """From the file to the answer, through all of it."""
    backplane = both(tree)
    progress = backplane.call("index.progress").result()
    assert progress["is_idle"]
    assert progress["round_files_done"] == progress["round_files"] == progress["files"] == 40
    assert progress["bytes"] == sum(path.stat().st_size for path in tree.iterdir())
    (hit,) = backplane.call("query.symbol", name="name_39_7").result()
    assert hit == {"file": str(tree / "39.py"), "line": 8, "context": "def name_39_7(shared): pass"}
    assert len(backplane.call("query.search", text="shared", limit=100).result()) == 100
    assert set(backplane.call("index.recent", limit=3).result()) == {"name_39_0", "name_39_1", "name_39_2"}


@pytest.mark.parametrize("window", [1, 3])
def test_no_more_batches_are_outstanding_than_the_window(
    tree: Path, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backpressure: a `query` that is slow must slow the index down, not collect its batches."""
    monkeypatch.setattr(index_module, "GROUP_BYTES", 4_000)  # else one reader takes all there is
    backplane = VirtualBackplane(Index(root=str(tree), window=window), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    waiting = list(query.answer_all())
    assert max(waiting) == window
    assert len(waiting) > 20, "too few batches to tell"
    progress = backplane.call("index.progress").result()
    assert (progress["batches_outstanding"], progress["batches_outstanding_max"]) == (0, window)
    assert progress["round_files_done"] == 40


def test_a_refresh_sends_what_changed_and_takes_out_what_is_gone(tree: Path) -> None:
    """The hash spares the work; a file that was deleted must not be found."""
    backplane = both(tree)
    entries = backplane.call("index.progress").result()["entries"]
    (tree / "00.py").write_text("def fresh_name(): pass")
    (tree / "01.py").unlink()
    assert backplane.call("index.refresh").result() == 39
    backplane.run_until_idle()
    assert backplane.call("query.symbol", name="fresh_name").result() != []
    assert backplane.call("query.symbol", name="name_0_0").result() == []
    assert backplane.call("query.symbol", name="name_1_0").result() == []
    progress = backplane.call("index.progress").result()
    assert progress["round_files"] == 40
    assert progress["entries"] == entries + 2, "the name, as a word and as a definition"


def test_an_index_that_was_lost_is_fed_again(tree: Path) -> None:
    """A `query` that restarts is empty. Hashes say that nothing changed: without the epoch nothing would be found."""
    backplane = VirtualBackplane(Index(root=str(tree)), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    assert len(list(query.answer_all())) > 20
    query.epoch = "second"
    backplane.advance(1.5)  # nobody feeds it, so it is asked once a second
    again = list(query.answer_all())
    assert len(again) > 20
    progress = backplane.call("index.progress").result()
    assert (progress["round"], progress["files"], progress["failed"], progress["is_idle"]) == (2, 80, 0, True)


def test_an_index_that_is_lost_on_the_way_is_fed_again(tree: Path) -> None:
    """The batches before the loss are gone with it: going on where it stopped would leave them out."""
    backplane = VirtualBackplane(Index(root=str(tree), window=2), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    steps = query.answer_all()
    for _ in range(8):
        next(steps)
    first = query.waiting()[0]
    query.answered.add(id(first))
    first.fail(PeerDown("the process that held the call died"))
    query.epoch = "second"
    backplane.advance(0.3)
    list(steps)
    progress = backplane.call("index.progress").result()
    assert (progress["round"], progress["round_files_done"], progress["failed"]) == (2, 40, 0)
    assert progress["is_idle"]


def test_bulk_steps_aside_for_questions(tmp_path: Path) -> None:
    """One long file must not hold up whoever asks the index something."""
    (tmp_path / "long.py").write_text("a_word = 1\n" * 20_000)
    backplane = VirtualBackplane(Index(root=str(tmp_path), window=1), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    asked: list[Any] = []

    class AskingScan(index_module.Scan):
        def advance(self, lines_max: int) -> bool:
            if len(asked) < 3:
                asked.append(backplane.call("index.progress"))
            assert lines_max < 1_000
            backplane.clock.work(0.0005)  # about what a slice takes
            return super().advance(lines_max)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "Scan", AskingScan)
        query.answer(query.waiting("query.statistics")[0])
        order = backplane.run_until_idle()
    assert len(asked) == 3
    assert order.index("progress") < len(order) - 1 - order[::-1].index("work"), "answered before the file was through"


def test_files_that_cannot_be_read_are_told(tree: Path) -> None:
    """A file that is missing from the index without a word is a wrong answer."""
    (tree / "00.py").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    backplane = both(tree)
    progress = backplane.call("index.progress").result()
    assert (progress["failed"], progress["round_files_done"]) == (1, 40)
    (failure,) = backplane.call("index.failures").result()
    assert failure == {"file": str(tree / "00.py"), "reason": f"larger than {FILE_BYTES_MAX:,} bytes"}


def test_rounds_follow_each_other_and_none_is_cut_short(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that is stopped for another must not order a third: the index would begin for ever and never end."""
    monkeypatch.setattr(index_module, "GROUP_BYTES", 4_000)
    backplane = VirtualBackplane(Index(root=str(tree)), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    answers = query.answer_all()
    for _ in range(8):
        next(answers)
    again = backplane.call("index.rebuild", repeat=True)
    while not again.is_done:
        backplane.advance(0.02)  # the readers finish what they have
        next(query.answer_all(), None)
    assert again.result() == 40
    progress = backplane.call("index.progress").result()
    assert progress["round"] == 2
    assert progress["files"] < 40, "the first round was to be cut short"
    before = progress["files"] - progress["round_files_done"]
    answers = query.answer_all()
    while progress["round"] < 4:
        next(answers)
        progress = backplane.call("index.progress").result()
    assert progress["files"] - progress["round_files_done"] == before + 2 * 40


def test_another_tree_takes_the_place_of_the_first(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`--root`: what was found in the old tree is no longer."""
    other = tmp_path_factory.mktemp("other")
    (other / "z.py").write_text("def only_here(): pass")
    backplane = both(tree)
    assert backplane.call("index.rebuild", root=str(other)).result() == 1
    backplane.run_until_idle()
    assert backplane.call("query.symbol", name="only_here").result() != []
    assert backplane.call("query.search", text="shared").result() == []
    assert backplane.call("query.statistics").result()["entries"] == 2
    error = backplane.call("index.rebuild", root="/no/such/folder").error()
    assert isinstance(error, InvalidArgument)
    assert "'/no/such/folder' is no folder" in str(error)


def test_progress_is_published(tree: Path) -> None:
    """What a live view shows without asking."""
    backplane = VirtualBackplane(Query(shards=4), Index(root=str(tree)), topics=("index.progress",))
    backplane.advance(1.0)
    topics = [topic for topic, _ in backplane.published]
    assert topics == ["index.progress"] * 4
    assert backplane.published[-1][1]["files"] == 40


def test_the_default_tree_is_the_running_pythons_own_library(stdlib: Path) -> None:
    """It works on any machine without a word of configuration."""
    assert Index().root == stdlib
    with pytest.raises(ValueError, match="window = 0: expected 1 or more"):
        Index(window=0)
