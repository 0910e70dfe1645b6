"""A shard against a slow, obvious twin, and the bounds that keep its answers fast."""

import gc
from dataclasses import dataclass, field

import pytest
from codesearch import shard_index
from codesearch.lines import Lines
from codesearch.places import Places
from codesearch.shard_index import LIMIT_MAX, Hit, ShardIndex
from codesearch.tokens import Portion, Scan, portions
from hypothesis import given, settings
from hypothesis import strategies as st


def enter(index: ShardIndex, path: str, text: str) -> None:
    """A whole file into one shard that keeps all words."""
    scan = Scan(text)
    while not scan.advance(1_000_000):
        continue
    for part in portions(path, scan, 1):
        index.ingest(part)


@dataclass
class Twin:
    """Reads every file anew for every question."""

    files: dict[str, str] = field(default_factory=dict)

    def mentions(self, word: str) -> list[Hit]:
        """All lines with the word in it."""
        return [
            Hit(file=path, line=number, context=line.strip())
            for path in sorted(self.files)
            for number, line in enumerate(self.files[path].split("\n"), 1)
            if word in line.replace("(", " ").split()
        ]


WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta"])
LINE = st.lists(WORDS, max_size=3).map(" ".join)
TEXT = st.lists(LINE, max_size=6).map("\n".join)
STEPS = st.lists(st.tuples(st.sampled_from(["a.py", "b.py", "c.py"]), TEXT), max_size=12)


@given(STEPS)
def test_answers_are_those_of_reading_all_files(steps: list[tuple[str, str]]) -> None:
    """Whatever was indexed in which order, and however often: the answer is what the files say now."""
    index, twin = ShardIndex(), Twin()
    for path, text in steps:
        enter(index, path, text)
        twin.files[path] = text
        for word in ("alpha", "beta", "gamma", "delta"):
            assert index.search(word, LIMIT_MAX) == twin.mentions(word)
    words = {(path, word) for path, text in twin.files.items() for word in text.split()}
    assert index.statistics()["entries"] == len(words)


@settings(max_examples=50)
@given(STEPS, st.integers(1, 2))
def test_what_a_bound_keeps_out_is_counted(steps: list[tuple[str, str]], files_max: int) -> None:
    """Entries kept and entries kept out are together all there are: nothing is forgotten without a count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_index, "FILES_MAX", files_max)
        index, files = ShardIndex(), dict[str, str]()
        for path, text in steps:
            enter(index, path, text)
            files[path] = text
        statistics = index.statistics()
    words = {(path, word) for path, text in files.items() for word in text.split()}
    assert statistics["entries"] + statistics["beyond"] == len(words)


def test_definitions_come_first() -> None:
    """Who looks for a name wants to know where it is made."""
    index = ShardIndex()
    enter(index, "a.py", "gather(x)")
    enter(index, "b.py", "import os\n\ndef gather(x):\n    return gather(x)")
    assert index.search("gather", 10) == [
        Hit(file="b.py", line=3, context="def gather(x):"),
        Hit(file="a.py", line=1, context="gather(x)"),
        Hit(file="b.py", line=4, context="return gather(x)"),
    ]
    assert index.symbol("gather", 10) == [Hit(file="b.py", line=3, context="def gather(x):")]


def test_all_words_have_to_be_on_the_line() -> None:
    """Two words narrow a search, they do not widen it."""
    index = ShardIndex()
    enter(index, "a.py", "alpha beta\nalpha gamma")
    assert [hit["line"] for hit in index.search("alpha gamma", 10)] == [2]
    assert index.search("", 10) == []


def test_limit_holds_and_has_a_limit_itself() -> None:
    """An answer of a million lines would be work that nobody bounded."""
    index = ShardIndex()
    for n in range(LIMIT_MAX):
        enter(index, f"{n}.py", "alpha\nalpha")
    assert len(index.search("alpha", 3)) == 3
    assert len(index.search("alpha", 10**9)) == LIMIT_MAX


def test_a_file_that_is_replaced_is_found_all_the_time() -> None:
    """Indexing goes on under the searches: between two portions the old entry or the new one answers, never none."""
    index = ShardIndex()
    enter(index, "a.py", "alpha\nbeta")
    alpha = Places.of({"alpha": [2]}, ["alpha"])
    index.ingest(Portion(path="a.py", shard=0, tokens=alpha, lines=Lines.of({2: "alpha"}, [2]), is_last=False))
    assert index.search("alpha", 9) == [Hit(file="a.py", line=2, context="alpha")]
    assert index.search("beta", 9)[0]["file"] == "a.py"
    beta = Places.of({"beta": [3]}, ["beta"])
    index.ingest(Portion(path="a.py", shard=0, tokens=beta, lines=Lines.of({3: "beta"}, [3]), is_first=False))
    assert [hit["line"] for word in ("alpha", "beta") for hit in index.search(word, 9)] == [2, 3]


def test_a_file_that_is_gone_is_not_found() -> None:
    """An answer that names a file which does not exist is worse than none."""
    index = ShardIndex()
    enter(index, "a.py", "def alpha(): beta")
    index.ingest(Portion(path="a.py", shard=0))
    assert index.search("alpha", 9) == index.symbol("alpha", 9) == []
    assert index.statistics() == {"files": 0, "words": 0, "entries": 0, "beyond": 0}


def test_entries_are_nothing_to_the_garbage_collector() -> None:
    """A full collection that walks a million entries stops every search for as long."""
    index = ShardIndex()
    gc.collect()
    before = len(gc.get_objects())
    for n in range(200):
        enter(index, f"{n}.py", "\n".join(f"word_{n}_{m} shared_{m}" for m in range(20)))
    gc.collect()
    assert len(gc.get_objects()) - before < 200, "4,000 words and 8,000 entries, none of them tracked"
