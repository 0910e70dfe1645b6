"""Index in a whole backplane, without processes: alone, where the test plays `query`, and together with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codesearch import indexing
from codesearch.index import BULK, Index
from codesearch.indexing import FILE_BYTES_MAX
from codesearch.query import Query
from codesearch.tokens import Found, Portion

from appbackplane.runtime import InvalidArgument, PeerDown
from appbackplane.runtime.requests import Context, KernelPolicy
from appbackplane.runtime.testing import OutsideCall, VirtualBackplane

OUTSIDE = ("query.take_in", "query.statistics")


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

    def waiting(self, route: str = "query.take_in") -> list[OutsideCall]:
        """Calls that have come and are not answered yet."""
        self.backplane.run_until_idle()
        return [call for call in self.backplane.outside_calls(route) if id(call) not in self.answered]

    def answer(self, call: OutsideCall) -> None:
        """As an intake would."""
        self.answered.add(id(call))
        if call.envelope.route == "query.statistics":
            call.reply({"epoch": self.epoch, "shards": self.shards})
        else:
            call.reply({"epoch": self.epoch, "entries": 1})

    def answer_all(self) -> Iterator[int]:
        """Until no more comes; each time, how many messages wait at once."""
        while calls := self.waiting("query.statistics") or self.waiting():
            self.answer(calls[0])
            yield len(calls) if calls[0].envelope.route == "query.take_in" else 0


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


@pytest.mark.parametrize(("workers", "lanes", "window"), [(3, (0, 20, 20), 2), (5, (0, 20, 60), 4)])
def test_no_more_messages_are_outstanding_than_groups_are_worked_on(
    tree: Path, workers: int, lanes: tuple[int, int, int], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backpressure: a `query` that is slow must slow the index down, not collect what was found."""
    monkeypatch.setattr(indexing, "GROUP_BYTES", 4_000)  # else one request takes all there is
    policy = KernelPolicy(workers=workers, mode="lanes", lanes=lanes, base=BULK)
    backplane = VirtualBackplane(Index(root=str(tree), policy=policy), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    waiting = list(query.answer_all())
    assert max(waiting) == window, "the feeder has ended, and leaves its lane to them"
    assert len(waiting) > 20, "too few messages to tell"
    progress = backplane.call("index.progress").result()
    assert progress["round_files_done"] == 40
    assert (progress["workers"], progress["executing"], progress["ready"]) == (workers, [0, 0, 0, 0], 0)


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


def test_an_index_that_was_lost_is_fed_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `query` that restarts is empty. Hashes say that nothing changed: without the epoch nothing would be found."""
    monkeypatch.setattr(indexing, "GROUP_BYTES", 4_000)
    backplane = VirtualBackplane(Index(root=str(tree)), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    assert len(list(query.answer_all())) > 20
    query.epoch = "second"
    backplane.advance(1.5)  # nobody feeds it, so it is asked once a second
    again = list(query.answer_all())
    assert len(again) > 20
    progress = backplane.call("index.progress").result()
    assert (progress["round"], progress["files"], progress["failed"], progress["is_idle"]) == (2, 80, 0, True)


def test_an_index_that_is_lost_on_the_way_is_fed_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent before the loss is gone with it: going on where it stopped would leave it out."""
    monkeypatch.setattr(indexing, "GROUP_BYTES", 4_000)
    backplane = VirtualBackplane(Index(root=str(tree)), outside=OUTSIDE)
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
    backplane = VirtualBackplane(Index(root=str(tmp_path)), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    asked: list[Any] = []

    class AskingScan(indexing.Scan):
        def advance(self, lines_max: int) -> bool:
            if len(asked) < 3:
                asked.append(backplane.call("index.progress"))
            assert lines_max < 4_000
            backplane.clock.work(0.0005)  # about what a slice takes
            return super().advance(lines_max)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "Scan", AskingScan)
        query.answer(query.waiting("query.statistics")[0])
        order = backplane.run_until_idle()
    assert len(asked) == 3
    assert order.index("progress") < order.index("Files", order.index("progress")), "answered before it was through"


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
    monkeypatch.setattr(indexing, "GROUP_BYTES", 4_000)
    backplane = VirtualBackplane(Index(root=str(tree)), outside=OUTSIDE)
    query = PlayedQuery(backplane)
    answers = query.answer_all()
    for _ in range(8):
        next(answers)
    again = backplane.call("index.rebuild", repeat=True)
    while not again.done():
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


def test_rest_leaves_no_request_of_the_round(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the demonstration, which repeats rounds for ever, would end with a warning of requests that are lost."""
    monkeypatch.setattr(indexing, "GROUP_BYTES", 4_000)
    index = Index(root=str(tree))
    backplane = VirtualBackplane(index, outside=OUTSIDE)
    index.is_repeating = True
    query = PlayedQuery(backplane)
    answers = query.answer_all()
    for _ in range(8):
        next(answers)
    rest = backplane.call("index.rest")
    while not rest.done():
        backplane.advance(0.02)
        next(query.answer_all(), None)
    assert rest.result() is None
    progress = backplane.call("index.progress").result()
    assert (progress["is_idle"], progress["ready"], sum(progress["executing"])) == (True, 0, 0)
    assert progress["round_files_done"] < 40, "the round was to be cut short"


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


def test_a_large_file_is_split_and_found_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are tokenized by whoever is free; a line at a seam, or a line number that begins anew, would be a wrong answer."""
    monkeypatch.setattr(indexing, "SPLIT_CHARS", 2_000)
    tokenized: list[indexing.Slice] = []
    execute = indexing.Part.execute

    async def noted(part: indexing.Part, request: indexing.Slice, kernel: Context) -> Found:
        tokenized.append(request)
        if request.part == 3:
            raise RuntimeError("whoever has it may die")
        return await execute(part, request, kernel)

    monkeypatch.setattr(indexing.Part, "execute", noted)
    lines = [f"def name_{n}(shared): pass" for n in range(1_000)]
    (tmp_path / "large.py").write_text("\n".join(lines))
    (tmp_path / "small.py").write_text("def small(): pass")
    backplane = both(tmp_path)
    assert "\n".join(slice.text for slice in sorted(tokenized, key=lambda slice: slice.part)) == "\n".join(lines)
    assert max(len(slice.text) for slice in tokenized) <= 1_000
    for n in (0, 1, 499, 999):
        (hit,) = backplane.call("query.symbol", name=f"name_{n}").result()
        assert (hit["line"], hit["context"]) == (n + 1, lines[n])
    assert [hit["line"] for hit in backplane.call("query.search", text="shared").result()] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert backplane.call("query.symbol", name="small").result() != []
    assert backplane.call("index.progress").result()["round_files_done"] == 2


def test_what_is_too_much_for_one_message_comes_in_several(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of megabytes with more than a frame holds could not be sent at all; one by one, all of it arrives, in order."""
    monkeypatch.setattr(indexing, "MESSAGE_BYTES", 1_000)
    backplane = both(tree)
    entries = backplane.call("query.statistics").result()["entries"]
    monkeypatch.undo()
    assert (backplane.call("index.progress").result()["failed"], entries) == (
        0,
        both(tree).call("query.statistics").result()["entries"],
    )
    found = [(1, [Portion(path="a.py", shard=1)]), (2, [Portion(path="b.py", shard=2)])]
    assert [len(message) for message in indexing.messages(found)] == [2]
    monkeypatch.setattr(indexing, "MESSAGE_BYTES", 1)
    assert [[shard for shard, _ in message] for message in indexing.messages(found)] == [[1], [2]]


def test_work_that_fails_is_told_of_each_file(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files are one request: if that fails, none of them is in the index, and the next round tries them again."""

    async def fail(files: indexing.Files, request: indexing.Group, kernel: Context) -> indexing.Worked:
        raise RuntimeError("no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(indexing.Files, "execute", fail)
        backplane = both(tree)
    progress = backplane.call("index.progress").result()
    assert (progress["failed"], progress["round_files_done"], progress["is_idle"]) == (40, 40, True)
    assert "not indexed: RuntimeError: no such luck" in backplane.call("index.failures").result()[0]["reason"]
    assert backplane.call("query.search", text="shared").result() == []


def test_files_are_grouped() -> None:
    """A round trip for each small file would cost as much as the work; a group without end would be lost as one."""
    sizes = [(b"%d" % number, size) for number, size in enumerate([100, 900_000, 10, 10, 800_000, 5] + [0] * 100)]
    groups = list(indexing.grouped(sizes))
    assert [path for group in groups for path in group] == [path for path, _ in sizes]
    assert [len(group) for group in groups] == [2, 3, 64, 37]


def test_the_last_groups_are_smaller() -> None:
    """Else all workers but one wait for the last."""
    files = [(b"%d" % number, 8 << 10) for number in range(400)]
    groups = list(indexing.grouped(files, is_end=True))
    assert [path for group in groups for path in group] == [path for path, _ in files]
    sizes = [len(group) for group in groups]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 2 * sizes[-2]


def test_the_first_files_are_worked_on_while_the_tree_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each once, with all that follow: a core would be idle until the last folder had been read."""
    monkeypatch.setattr(indexing, "GROUP_FILES_MAX", 3)
    for n in range(30):
        (tmp_path / f"p{n:02}").mkdir()
        (tmp_path / f"p{n:02}" / "m.py").write_text(f"def name_{n}(shared): pass")
    backplane = both(tmp_path)
    progress = backplane.call("index.progress").result()
    assert (progress["round_files"], progress["round_files_done"], progress["files"]) == (30, 30, 30)
    hits = backplane.call("query.search", text="shared", limit=100).result()
    assert len({hit["file"] for hit in hits}) == len(hits) == 30
