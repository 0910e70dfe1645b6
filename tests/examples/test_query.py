"""Query in a whole backplane, without processes: any client finds any word without knowing of shards."""

import pytest
from codesearch.query import Query
from codesearch.shard_index import ShardIndex
from codesearch.tokens import Portion, Scan, batches, packed, portions

from appbackplane.runtime import Busy
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall

TEXT = '''\
def gather(jobs):
    return Pool(jobs)

class Pool:
    """gather all jobs"""
'''


def ingest(backplane: VirtualBackplane, path: str, text: str, shards: int) -> None:
    """Feed a file as the index does."""
    scan = Scan(text)
    scan.advance(1_000_000)
    for shard, batch in batches(portions(path, scan, shards), shards):
        backplane.call("query.ingest", key=f"shard-{shard}", portions=packed(batch)).result()


@pytest.mark.parametrize("shards", [1, 2, 8])
def test_what_was_fed_is_found(shards: int) -> None:
    """The caller names no shard: whoever receives works it out, the same way as whoever feeds."""
    backplane = VirtualBackplane(Query(shards=shards))
    ingest(backplane, "a.py", TEXT, shards)
    assert backplane.call("query.search", text="gather jobs").result() == [
        {"file": "a.py", "line": 1, "context": "def gather(jobs):"},
        {"file": "a.py", "line": 5, "context": '"""gather all jobs"""'},
    ]
    assert backplane.call("query.search", text="gather", limit=1).result()[0]["line"] == 1
    assert backplane.call("query.symbol", name="Pool").result() == [
        {"file": "a.py", "line": 4, "context": "class Pool:"}
    ]
    for text in ("", "12", "nowhere", "return"):
        assert backplane.call("query.search", text=text).result() == []


def test_what_is_sent_together_goes_to_each_shard_and_searches_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message holds the words of twenty files: a search that had to wait for all of them would wait for long."""
    asked: list[VirtualCall] = []
    ingest = ShardIndex.ingest

    def asking(index: ShardIndex, portion: Portion) -> int:
        if not asked:  # whatever is asked while the first batch is taken in
            asked.append(backplane.call("query.search", text="nowhere"))
        return ingest(index, portion)

    monkeypatch.setattr(ShardIndex, "ingest", asking)
    backplane = VirtualBackplane(Query(shards=2))
    epoch = backplane.call("query.statistics").result()["epoch"]
    scan = Scan(TEXT)
    scan.advance(1_000_000)
    found = [(shard, packed(batch)) for shard, batch in batches(portions("a.py", scan, 2), 2)]
    feeding = backplane.call("query.take_in", key="intake-1", batches=found)
    order = backplane.run_until_idle()
    assert order.count("ingest") >= len(found) == 2
    assert order.index("search") < len(order) - 1 - order[::-1].index("ingest"), "before the second batch"
    assert asked[0].result() == []
    assert feeding.result() == {"entries": len(scan.tokens) + len(scan.definitions), "epoch": epoch}
    for name in scan.definitions:
        assert len(backplane.call("query.symbol", name=name).result()) == 1
    error = backplane.call("query.take_in", key="intake-0", batches=[(0, b"nonsense")]).error()
    assert "expected tokens.packed(batch)" in str(error)


def test_statistics_are_of_all_shards() -> None:
    """The index learns from them how many shards there are, and whether they are still the same ones."""
    backplane, other = VirtualBackplane(Query(shards=4)), VirtualBackplane(Query(shards=4))
    ingest(backplane, "a.py", "one two three", 4)
    figures = backplane.call("query.statistics").result()
    assert (figures["shards"], figures["words"], figures["entries"]) == (4, 3, 3)
    assert figures["epoch"] != other.call("query.statistics").result()["epoch"]


def test_a_search_runs_before_the_bulk_of_other_shards() -> None:
    """The promise of the example: what waits in seven shards does not hold up the eighth."""
    backplane = VirtualBackplane(Query(shards=2))
    backplane.call("query.statistics").result()
    for n in range(10):
        backplane.cast("query.ingest", key="shard-0", portions=packed([Portion(path=f"{n}.py", shard=0)]))
    words = (
        word for word in ("alpha", "beta", "gamma", "delta") if Query(shards=2).shard_for_name(word, 1) == "shard-1"
    )
    call = backplane.call("query.search", text=next(words))
    assert backplane.run_until_idle() == ["shard_for_text", "search", *["ingest"] * 10]
    assert call.result() == []


def test_bulk_makes_room_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit it is the bulk that comes again later, never the person who waits."""
    monkeypatch.setattr(Query, "max_requests", 3)
    backplane = VirtualBackplane(Query(shards=1))
    bulk = [backplane.call("query.ingest", key="shard-0", portions=packed([])) for _ in range(3)]
    search = backplane.call("query.search", text="word")
    assert search.result() == []
    assert isinstance(bulk[2].error(), Busy)
    assert [call.result()["entries"] for call in bulk[:2]] == [0, 0]


def test_a_query_without_shards_is_refused() -> None:
    """`check` has to find it, not the first search."""
    with pytest.raises(ValueError, match="shards = 0: expected 1 or more"):
        Query(shards=0)
