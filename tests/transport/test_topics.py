"""Topics: who hears what, each once, and whether anything is missing."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport import topics as topics_module
from appbackplane.transport.codec import with_id
from appbackplane.transport.envelope import PUBLISH
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import (
    TOPIC_LENGTH_MAX,
    GapCounter,
    TopicTable,
    check_pattern,
    check_topic,
    overlap,
)

words = st.sampled_from(["files", "file", "a", "b"])
topics = st.lists(words, min_size=1, max_size=4).map(".".join)
patterns = topics | topics.map(lambda topic: topic + ".*")
posts = st.lists(st.tuples(st.booleans(), patterns, st.integers(0, 3)), max_size=20)


def hears(pattern: str, topic: str) -> bool:
    """The rule, as architecture.md states it."""
    return topic.startswith(pattern[:-1]) if pattern.endswith(".*") else topic == pattern


@given(posts, topics)
def test_exactly_those_hear_it_who_asked_each_once(changes: list[tuple[bool, str, int]], topic: str) -> None:
    """Against a list that is searched from end to end."""
    table: TopicTable[int] = TopicTable()
    known: set[tuple[str, int]] = set()
    for is_added, pattern, subscriber in changes:
        if is_added:
            table.add(pattern, subscriber)
            known.add((pattern, subscriber))
        else:
            table.remove(pattern, subscriber)
            known.discard((pattern, subscriber))
    matching = table.matching(topic)
    assert len(matching) == len(set(matching))
    assert set(matching) == {subscriber for pattern, subscriber in known if hears(pattern, topic)}


@given(posts, topics)
def test_who_leaves_hears_nothing_more(changes: list[tuple[bool, str, int]], topic: str) -> None:
    """A dead peer that is kept anywhere is sent to for ever."""
    table: TopicTable[int] = TopicTable()
    for _, pattern, subscriber in changes:
        table.add(pattern, subscriber)
    table.remove_all(1)
    assert 1 not in table.matching(topic)


def test_a_topic_ends_at_a_dot() -> None:
    """TRAPS 10: by prefix, who asks for `files` would hear `filesystem` too."""
    table: TopicTable[str] = TopicTable()
    table.add("files", "exact")
    table.add("files.*", "below")
    assert table.matching("files") == ["exact"]
    assert table.matching("files.changed.now") == ["below"]
    assert table.matching("filesystem") == []


@given(st.lists(st.booleans(), max_size=30))
def test_every_lost_message_is_counted(arrives: list[bool]) -> None:
    """A gap that is not seen is a silent drop."""
    gaps = GapCounter()
    counted = sum(gaps.gap_before(b"p", "t", n) for n, here in enumerate(arrives, 1) if here)
    seen = [n for n, here in enumerate(arrives, 1) if here]
    assert counted == gaps.lost_count == (seen[-1] - seen[0] + 1 - len(seen) if seen else 0)


def test_a_number_that_cannot_be_is_no_loss_without_end() -> None:
    """What is lost is added to the numbers under which a message is passed on, which travel in 64 bits. Those of a node are
    for all publishers: one that said two messages took the topic from all others, and ended a backplane that had a listener.
    """
    gaps, number = GapCounter(), 0
    for said in (1, (1 << 64) - 1, 1, (1 << 64) - 1):
        number += 1 + gaps.gap_before(b"p", "t", said)
    assert len(with_id(PUBLISH, number, b"\xc0" * 7)) < 20
    assert gaps.lost_count < 1 << 63


def test_publishers_and_topics_are_numbered_apart_and_a_new_generation_begins_again() -> None:
    """A new process starts at 1: that is no loss."""
    gaps = GapCounter()
    assert gaps.gap_before(b"p", "t", 5) == 0
    assert gaps.gap_before(b"q", "t", 9) == 0
    assert gaps.gap_before(b"p", "u", 7) == 0
    assert gaps.gap_before(b"p", "t", 8) == 2
    assert gaps.gap_before(b"p", "t", 3) == 0, "numbers that go back are no loss"
    gaps.forget(b"p")
    assert gaps.gap_before(b"p", "t", 100) == 0
    assert gaps.gap_before(b"q", "t", 11) == 1


def test_publishers_that_came_and_went_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients publish and go without a word, for years; those that are heard of late are kept."""
    monkeypatch.setattr(topics_module, "PAIRS_MAX", 3)
    gaps = GapCounter()
    for number in range(1, 101):
        assert gaps.gap_before(b"%d" % number, "t", 1) == 0
        assert gaps.gap_before(b"living", "t", 2 * number) == (1 if number > 1 else 0)
    assert len(gaps._last) <= 3


@pytest.mark.parametrize("topic", ["", "a..b", ".a", "a.", "a.*", "*", "a b", 5, None])
def test_what_is_no_topic_is_refused(topic: str) -> None:
    """A topic that nobody can match would be published for ever to nobody."""
    with pytest.raises(InvalidArgument, match="topic"):
        check_topic(topic)


@pytest.mark.parametrize("check", [check_topic, check_pattern])
def test_what_is_too_long_is_refused_and_not_repeated(check: Callable[[object], None]) -> None:
    """Whoever publishes under such topics would fill what remembers them; the error goes into logs and replies."""
    check("a" * TOPIC_LENGTH_MAX)
    for value in ("a" * (TOPIC_LENGTH_MAX + 1), "a." * 1_000_000, [0] * 1_000_000):
        with pytest.raises(InvalidArgument) as raised:
            check(value)
        assert len(raised.value.message) < 200


@pytest.mark.parametrize("pattern", ["", "*", "a.*.b", "a*", ".*", "a..*", 5])
def test_what_cannot_be_subscribed_to_is_refused(pattern: str) -> None:
    """Whoever hopes for other wildcards learns it at once, and not from silence."""
    with pytest.raises(InvalidArgument, match=r"files\.\*"):
        check_pattern(pattern)


def test_topics_and_patterns_pass() -> None:
    """The checks above would be easy if nothing passed."""
    check_topic("files.changed")
    check_pattern("files.changed")
    check_pattern("files.*")


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        ("a", "a", True),
        ("a.*", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c.*", True),
        ("a.*", "ab.*", False),
        ("a.b.*", "a.c.*", False),
        ("a", "b", False),
    ],
)
def test_patterns_overlap_where_one_topic_is_heard_by_both(one: str, other: str, is_so: bool) -> None:
    """Either way round."""
    assert overlap(one, other) is overlap(other, one) is is_so


def test_whoever_comes_or_goes_later_is_heard_of() -> None:
    """What was found for a topic is remembered, and a message is no reason to forget it."""
    table: TopicTable[str] = TopicTable()
    assert table.matching("files.changed") == []
    table.add("files.*", "late")
    assert table.matching("files.changed") == ["late"]
    table.remove("files.*", "late")
    assert table.matching("files.changed") == []
