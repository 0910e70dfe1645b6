"""The feed of all messages: ids that are times, places, and what a reader learns of those that are gone."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.things.web import live_feed
from appbackplane.runtime.things.web.live_feed import LiveFeed


def feed_of(*times_us: int) -> LiveFeed:
    """A feed with a message at each time."""
    feed = LiveFeed()
    feed.begin()
    for time_us in times_us:
        feed.add(time_us, "urn:lamp", "properties", "brightness", b"1")
    return feed


def stamps(feed: LiveFeed) -> list[int]:
    """The times in the ids of all messages."""
    found, place = [], 0
    while (message := feed.after(place)[0]) is not None:
        place = message.number
        found.append(message.about.stamp_us)
    return found


def test_a_message_names_its_affordance() -> None:
    """The page has one stream, so each message tells where it belongs."""
    feed = feed_of()
    feed.add(5, "urn:lamp", "events", "burnt_out", b'{"hours":3.5}')
    message, is_gap = feed.after(0)
    assert message is not None and message.data is not None and not is_gap
    assert json.loads(message.data) == {
        "thing": "urn:lamp",
        "kind": "event",
        "name": "burnt_out",
        "data": {"hours": 3.5},
    }
    assert message.about[1:] == ("urn:lamp", "events", "burnt_out")


def test_ids_are_times_since_the_first_message() -> None:
    """A number would tell how much happens at things that are hidden; the host's own clock is nobody's business."""
    assert stamps(feed_of(7_000_000, 7_000_500, 7_000_500, 7_900_000)) == [1, 500, 501, 900_000]


def test_nothing_is_kept_before_somebody_reads() -> None:
    """Most gateways have no page open."""
    feed = LiveFeed()
    feed.add(1, "urn:lamp", "events", "burnt_out", b"1")
    feed.lost(2)
    assert feed.begin() == 0 and feed.after(0) == (None, False)


def test_a_new_reader_begins_behind_the_newest_message() -> None:
    """It reads the values themselves."""
    feed = feed_of(1, 2)
    place = feed.begin()
    assert feed.after(place) == (None, False)
    feed.add(3, "urn:lamp", "properties", "brightness", b"7")
    found, is_gap = feed.after(place)
    assert found is not None and found.number == 3 and not is_gap


def test_a_reader_who_is_too_slow_is_told() -> None:
    """The feed is bounded, by number and by bytes."""
    feed = feed_of(*range(live_feed.FEED_MESSAGES_MAX + 5))
    found, is_gap = feed.after(0)
    assert found is not None and found.number == 6 and is_gap
    assert feed.after(found.number)[1] is False
    feed = feed_of()
    for time_us in range(20):
        feed.add(time_us, "urn:lamp", "events", "picture", b'"%s"' % (b"x" * (live_feed.FEED_BYTES_MAX // 10)))
    found, is_gap = feed.after(0)
    assert found is not None and found.number == 12 and is_gap


def test_a_loss_on_the_way_to_the_gateway_is_a_gap_for_all() -> None:
    """Nobody knows whose messages they were."""
    feed = feed_of(1)
    feed.lost(2)
    found, is_gap = feed.after(1)
    assert found is not None and found.data is None and is_gap


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30).map(sorted), st.integers(0, 60), st.integers(1, 30))
def test_a_reader_continues_where_it_was(times_us: list[int], stamp_us: int, kept: int) -> None:
    """The next message is the first one with a later id; those that are gone are a gap."""
    feed = feed_of(*times_us)
    whole = stamps(feed)
    feed.history._messages_max = kept
    feed.add(200, "urn:lamp", "properties", "brightness", b"1")
    left = stamps(feed)
    place, is_gap = feed.place_of(stamp_us)
    following, _ = feed.after(place)
    assert following is not None  # that at 200 is later than all, also counted from the first
    assert following.about.stamp_us == next(each for each in left if each > stamp_us)
    assert is_gap == (len(left) < len(whole) + 1 and stamp_us < left[0])
