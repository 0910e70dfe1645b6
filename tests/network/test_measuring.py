"""The measure itself: percentiles are of what was measured, and bulk is counted where it arrives."""

from __future__ import annotations

import socket

import pytest

from tests.network.measuring import Answerer, Bulk, Pinger, RoundTrips


def test_percentiles_are_values_that_were_measured() -> None:
    """By nearest rank: between two of a hundred pings there was none."""
    hundred = RoundTrips(tuple(n / 1000 for n in range(1, 101)))
    assert (hundred.p50, hundred.p99, hundred.percentile(100), hundred.percentile(0)) == (0.05, 0.099, 0.1, 0.001)
    assert RoundTrips((0.25,)).p99 == 0.25
    assert str(hundred) == "100 round trips, p50 50.000 ms, p99 99.000 ms, max 100.000 ms"


def test_round_trips_are_sorted_and_whole(far: Answerer) -> None:
    """Also when a message does not fit one read."""
    with Pinger(far.address, size=1 << 20) as pinger:
        trips = pinger.ping(5)
    assert len(trips.taken_s) == 5 and list(trips.taken_s) == sorted(trips.taken_s)


def test_bulk_is_counted_where_it_arrives(far: Answerer) -> None:
    """All of it, over all connections, and nothing of what says that it is bulk."""
    with Bulk(far.address, 3 << 20), Bulk(far.address, 1 << 20):
        far.wait_for_bulk(4 << 20)
    assert far.bulk_bytes == 4 << 20
    assert far.rate(1 << 20, 4 << 20) > 0


def test_who_waits_in_vain_is_told_what_there_was(far: Answerer) -> None:
    """A link that is not full, or bytes that do not come, end in a sentence and not in a hanging test."""
    with pytest.raises(AssertionError, match=r"no bytes of bulk after 0\.01 s instead of 1"):
        far.wait_for_bulk(1, 0.01)
    with Bulk(far.address, 10) as bulk, pytest.raises(AssertionError, match="still takes all there is"):
        bulk.wait_until_full(0.01)


def test_nothing_of_it_is_left() -> None:
    """Its threads have ended, whatever its connections were doing."""
    with Answerer() as far:
        idle = socket.create_connection(far.address)
        with Pinger(far.address) as pinger, Bulk(far.address):
            pinger.ping()
            threads = far.threads
    assert not any(thread.is_alive() for thread in threads)
    assert idle.recv(1) == b""
    idle.close()
