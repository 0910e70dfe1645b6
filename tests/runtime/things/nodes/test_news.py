"""The feed of a node's news: numbered, bounded, and whoever has missed some is told."""

from __future__ import annotations

from appbackplane.runtime.things.catalogue import CatalogueEntry
from appbackplane.runtime.things.nodes.news import (
    ANSWER_BYTES_MAX,
    ANSWER_MESSAGES_MAX,
    BYTES_MAX,
    MESSAGES_MAX,
    ExposedListing,
    NewsFeed,
)


def numbers(feed: NewsFeed, after: int) -> tuple[list[int], int, bool]:
    """The messages after a number, by what was put into them."""
    messages, number, is_gap = feed.after(after)
    return [each["data"] for each in messages], number, is_gap


def filled(count: int, text: str = "") -> NewsFeed:
    """A feed of so many messages, which count from 1."""
    feed = NewsFeed()
    for number in range(1, count + 1):
        feed.add({"data": number, "text": text})
    return feed


def test_each_reader_gets_what_follows() -> None:
    """And nothing twice."""
    feed = filled(3)
    assert numbers(feed, 0) == ([1, 2, 3], 3, False)
    assert numbers(feed, 2) == ([3], 3, False)
    assert numbers(feed, 3) == ([], 3, False)
    assert numbers(NewsFeed(), 0) == ([], 0, False)


def test_a_reader_that_falls_behind_learns_of_the_gap() -> None:
    """The oldest are forgotten; one that has read up to them has missed none."""
    feed = filled(MESSAGES_MAX + 5)
    found, _, is_gap = numbers(feed, 4)
    assert (found[0], is_gap) == (6, True)
    found, _, is_gap = numbers(feed, 5)
    assert (found[0], is_gap) == (6, False)


def test_what_was_lost_on_its_way_to_the_feed_is_a_gap() -> None:
    """For all who have read up to there; whoever asks later has missed nothing."""
    feed = filled(3)
    feed.lose()
    assert numbers(feed, 3) == ([], 4, True) and numbers(feed, 4) == ([], 4, False)
    feed.add({"data": 5, "text": ""})
    assert numbers(feed, 3) == ([5], 5, True) and numbers(feed, 4) == ([5], 5, False)


def test_an_answer_is_bounded() -> None:
    """In messages and in bytes; the next answer goes on where it ends, and a message that is too long by itself is sent."""
    found, number, _ = numbers(filled(ANSWER_MESSAGES_MAX + 7), 2)
    assert (found[0], len(found), number) == (3, ANSWER_MESSAGES_MAX, ANSWER_MESSAGES_MAX + 2)
    feed = filled(3, "x" * (ANSWER_BYTES_MAX - 100))
    assert [numbers(feed, after) for after in (0, 1, 2)] == [([1], 1, False), ([2], 2, False), ([3], 3, False)]
    assert numbers(filled(1, "x" * 2 * ANSWER_BYTES_MAX), 0) == ([1], 1, False)


def test_a_feed_is_bounded_in_bytes() -> None:
    """Messages may have megabytes; the newest is kept."""
    feed = filled(5, "x" * (BYTES_MAX // 3))
    assert numbers(feed, 0)[0] == [4] and numbers(feed, 0)[2]
    feed.add({"data": 6, "text": "x" * 2 * BYTES_MAX})
    assert numbers(feed, 0) == ([6], 6, True)


def test_things_of_one_class_share_a_model() -> None:
    """A thousand sensors are not described a thousand times."""
    model, other = {"title": "Lamp"}, {"title": "Bell"}
    things = [
        CatalogueEntry(id, "house", id, "main", 1, "p", (), model, {"level": "set_level"})
        for id, model in (("a", model), ("b", model), ("c", other))
    ]
    listing = ExposedListing.of(things)
    assert [each.model for each in listing.things] == [0, 0, 1] and listing.models == (model, other)
    assert listing.things[0].writable == ("level",)
