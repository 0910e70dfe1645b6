"""What is found in a source file, on all of the standard library and on anything hypothesis thinks of."""

import ast
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from codesearch import tokens
from codesearch.places import Places
from codesearch.tokens import (
    BATCH_TOKENS,
    LINES_MAX,
    PORTION_TOKENS,
    Found,
    Portion,
    Scan,
    batches,
    decode,
    pack,
    parts,
    portions,
    shard_of,
    unpack,
    words_of,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.figures import IS_LONG

WORDS = [f"w{n}" for n in range(PORTION_TOKENS)]
SOURCE = '''\
import asyncio

class Pool:
    """Holds workers."""

    async def gather(self, *jobs):
        return await asyncio.gather(*jobs)
'''


def scanned(text: str, slice_lines: int = 1_000_000) -> Scan:
    """A file scanned to its end, in slices."""
    scan = Scan(text)
    while not scan.advance(slice_lines):
        continue
    return scan


def source_files(root: Path) -> list[Path]:
    """The standard library's own files, small enough in number to read in seconds."""
    return [path for path in sorted(root.rglob("*.py")) if "site-packages" not in path.parts]


def test_identifiers_and_definitions_have_their_lines() -> None:
    """The line is what a search is for: one off, and every answer points beside the thing."""
    scan = scanned(SOURCE)
    assert scan.tokens["asyncio"] == [1, 7]
    assert scan.tokens["gather"] == [6, 7]
    assert scan.definitions == {"Pool": [3], "gather": [6]}
    assert scan.lines[6] == "async def gather(self, *jobs):"
    assert "return" not in scan.tokens


def test_only_line_feeds_end_a_line() -> None:
    """`splitlines` also stops at form feeds, of which the standard library has many: all that follows would be off."""
    text, _ = decode(b"first = 1\r\n\x0csecond = 2\x0b\xc2\x85\rthird = 3\n")
    assert [scanned(text).tokens[word] for word in ("first", "second", "third")] == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("data", "text", "is_exact"),
    [
        (b"# coding: raw_unicode_escape\nx = '\\ud800'", "# coding: raw_unicode_escape\nx = '\\ud800'", False),
        ("# -*- coding: latin-1 -*-\nä = 1".encode("latin-1"), "# -*- coding: latin-1 -*-\nä = 1", True),
        (b"\xef\xbb\xbfx = 1", "x = 1", True),
        (b"x = '\xff'", "x = '\ufffd'", False),
        (b"# coding: no-such-thing\nx = 1", "# coding: no-such-thing\nx = 1", False),
        (b"", "", True),
    ],
)
def test_any_bytes_become_text(data: bytes, text: str, is_exact: bool) -> None:
    """One file in a strange encoding must neither stop the indexing of the others nor go unnoticed."""
    assert decode(data) == (text, is_exact)


@given(st.binary(max_size=300))
def test_decoding_never_raises(data: bytes) -> None:
    """Source trees hold anything."""
    text, _ = decode(data)
    assert "\r" not in text


@given(st.text(st.sampled_from("abé_1 \n.()def\t"), max_size=300), st.integers(1, 7))
def test_slices_do_not_change_what_is_found(text: str, slice_lines: int) -> None:
    """A long file is read in slices so that others may run in between; a line lost at a seam would never be found."""
    whole, sliced = scanned(text), scanned(text, slice_lines)
    assert (whole.tokens, whole.definitions, whole.lines) == (sliced.tokens, sliced.definitions, sliced.lines)


@given(st.text(st.sampled_from("abé_1 \n.()def\t"), max_size=300), st.integers(1, 40))
def test_parts_do_not_change_what_is_found(text: str, size: int) -> None:
    """Parts of a large file are read by different workers; what was found is put together again as if by one."""
    cut = list(parts(text, size))
    assert "\n".join(part for _, part in cut) == text, "nothing is lost, and nothing is there twice"
    assert all(len(part) <= size or "\n" not in part for _, part in cut)
    joined = Scan("")
    for first, part in cut:
        scan = Scan(part, first)
        while not scan.advance(7):
            pass
        joined.add(msgspec.msgpack.decode(msgspec.msgpack.encode(scan.found()), type=Found))
    assert list(portions("x.py", joined, 3)) == list(portions("x.py", scanned(text), 3))


@given(st.lists(st.text(st.sampled_from("abcdé_"), min_size=2, max_size=4), max_size=40), st.integers(1, 9))
def test_portions_hold_each_word_once_in_its_own_shard(words: list[str], shards: int) -> None:
    """A word in the wrong shard is never found: a search asks one shard alone."""
    scan = scanned("\n".join(f"def {word}({word})" for word in words))
    parts = list(portions("x.py", scan, shards))
    found: dict[str, tuple[int, ...]] = {}
    for part in parts:
        numbers = iter(part.tokens.lines())
        for word, count in zip(part.tokens.words(), part.tokens.counts, strict=True):
            assert part.shard == shard_of(word, shards)
            assert word not in found
            found[word] = tuple(islice(numbers, count))
            assert all(part.lines.get(line) == scan.lines[line] for line in found[word])
    assert found == {word: tuple(lines) for word, lines in scan.tokens.items()}
    assert {part.shard for part in parts} == set(range(shards)), "one that is not told keeps words of an older text"


def test_a_large_file_comes_in_several_portions() -> None:
    """A portion is an action of the shard, and a search has to wait for it."""
    scan = scanned("\n".join(f"name_{n}" for n in range(PORTION_TOKENS * 2 + 1)))
    parts = list(portions("x.py", scan, 1))
    assert [len(part.tokens) for part in parts] == [PORTION_TOKENS, PORTION_TOKENS, 1]
    assert [(part.is_first, part.is_last) for part in parts] == [(True, False), (False, False), (False, True)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, PORTION_TOKENS)), max_size=30), st.integers(0, 3))
def test_batches_keep_order_and_bound(sizes: list[tuple[int, int]], first: int) -> None:
    """A shard takes in a batch in one go, so its size is what a search waits for; out of order, a file is torn."""
    parts = [
        Portion(path=str(number), shard=shard, tokens=Places.of({f"w{n}": [] for n in range(size)}, WORDS[:size]))
        for number, (shard, size) in enumerate(sizes)
    ]
    sent = list(batches(parts, 4, first))
    for shard in range(4):
        assert [part for to, batch in sent if to == shard for part in batch] == [p for p in parts if p.shard == shard]
    assert all(sum(part.words_count for part in batch) <= BATCH_TOKENS for _, batch in sent)
    assert all(batch for _, batch in sent)


def test_only_the_first_lines_of_a_token_are_kept() -> None:
    """Without a bound, `self` would be half of the index."""
    assert scanned("x_y\n" * 50).tokens["x_y"] == list(range(1, LINES_MAX + 1))


@given(st.lists(st.integers(1, 2**32 - 1), max_size=LINES_MAX))
def test_packed_lines_come_back(lines: list[int]) -> None:
    """What is packed here is unpacked in another process."""
    assert unpack(pack(lines)) == tuple(lines)


def test_the_longest_word_decides_and_keywords_do_not() -> None:
    """Caller and indexer have to agree on one shard; a keyword is in none."""
    assert words_of("asyncio.gather(x)") == ["asyncio", "gather", "x"]
    assert words_of("return x1")[0] == "x1"
    assert words_of("  12 + ") == []


def test_a_word_is_kept_in_the_same_shard_by_every_process() -> None:
    """`hash` would send each process to a shard of its own."""
    assert [shard_of(word, 8) for word in ("asyncio", "gather", "ä", "\udcff")] == [0, 5, 3, 7]


def test_every_definition_of_the_standard_library_is_found(stdlib: Path) -> None:
    """`ast` is the judge: a definition at another line, or none, is a wrong answer somewhere in real code."""
    files = source_files(stdlib)[:: 1 if IS_LONG else 20]  # parsing all of it takes half a minute
    checked = 0
    for path in files:
        text, _ = decode(path.read_bytes())
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue  # test data that is meant not to parse
        scan = scanned(text, 500)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                places = scan.definitions.get(node.name, [])
                assert node.lineno in places or len(places) == LINES_MAX, f"{path}:{node.lineno} {node.name}"
                checked += 1
    assert checked > 1_000, f"only {checked} definitions in {len(files)} files"


def test_constants_fit_together() -> None:
    """The packers are made for `LINES_MAX` lines."""
    assert len(tokens._PACKERS) == LINES_MAX + 1
