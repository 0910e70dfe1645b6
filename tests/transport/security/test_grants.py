"""What a key may use: what is not granted is refused, and what a system is run by is granted by its name only."""

from __future__ import annotations

import pytest

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.security.grants import EXPORTED, Grant


@pytest.mark.parametrize(
    ("patterns", "name", "of_exported", "of_others"),
    [
        ((), "index.stats", True, False),
        (("exported",), "index.stats", True, False),
        (("exported",), "backplane.main.threads", False, False),
        (("none",), "index.stats", False, False),
        (("none",), "none", False, False),
        (("index.stats",), "index.stats", True, True),
        (("index.stats",), "index.stats.all", False, False),
        (("index.*",), "index.stats", True, True),
        (("index.*",), "index.a.b", True, True),
        (("index.*",), "index", False, False),
        (("index.*",), "indexes.stats", False, False),
        (("index.*", "exported"), "query.search", True, False),
        (("*",), "query.search", True, True),
        (("*",), "supervisor.down", False, False),
        (("*",), "backplane.main.threads", False, False),
        (("*", "backplane.main.*"), "backplane.main.threads", True, True),
    ],
)
def test_what_is_permitted(patterns: tuple[str, ...], name: str, of_exported: bool, of_others: bool) -> None:
    """A table, because each line of it is somebody who gets in or not."""
    grant = Grant.of(patterns)
    assert grant.permits(name, is_exported=True) is of_exported
    assert grant.permits(name, is_exported=False) is of_others


@pytest.mark.parametrize(
    ("patterns", "topics", "is_permitted"),
    [
        (("exported",), "files.*", False),
        (("files.*",), "files.*", True),
        (("files.*",), "files.open.*", True),
        (("files.open.*",), "files.*", False),
        (("files.open",), "files.*", False),
        (("*",), "files.*", True),
        (("*",), "supervisor.*", False),
    ],
)
def test_a_pattern_is_permitted_if_all_of_it_is(patterns: tuple[str, ...], topics: str, is_permitted: bool) -> None:
    """Whoever subscribes to more than is his would hear it."""
    assert Grant.of(patterns).permits_all_of(topics) is is_permitted


@pytest.mark.parametrize("pattern", ["", "a b", "a,b", "*.a", "a.*.b", "a*", "a..b", ".a", "a.", "x" * 201, "a=b", "#"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    """It would permit nothing, or break the line that it stands in."""
    with pytest.raises(InvalidArgument, match="not a pattern"):
        Grant.of([pattern])


def test_words_of_their_own() -> None:
    """Nothing said is what is exported; nothing and something is a mistake; twice is once."""
    assert Grant.of([]).patterns == (EXPORTED,)
    assert Grant.of(["a.b", "a.b"]).patterns == ("a.b",)
    with pytest.raises(InvalidArgument, match="stands alone"):
        Grant.of(["none", "a.b"])
    with pytest.raises(InvalidArgument, match="at most 100"):
        Grant.of([f"a.b{n}" for n in range(101)])
