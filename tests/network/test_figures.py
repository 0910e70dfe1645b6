"""What the links of these tests are measured to be: a claim about a slow link needs a link that is as slow as it says.

Figures, and judged by `scripts/long` alone: a machine that does other work only adds to these times, so the best of a few
tries is judged, and the bound that no try may break by itself: nothing comes early, and no link is faster than it was told to
be. The same laws under a clock of their own are in test_lane.py, and run always.
"""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios

import psutil

from tests.figures import LONG, Stopwatch
from tests.network.faults import Faults
from tests.network.measuring import Answerer, Bulk, Pinger, RoundTrips, best, receive
from tests.network.proxy import FaultProxy

RATE = 1_250_000  # 10 Mbit/s
#: Of a link and its clients, once it is full: `queue_s` of it in the proxy, and what the kernel keeps for it.
ON_ITS_WAY_BYTES_MAX = RATE * 0.02 + 65_536


def is_sent(sock: socket.socket) -> int:
    """How many bytes have not left this socket (or have not been acknowledged)."""
    (size,) = struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))
    return int(size)


@LONG
def test_a_delay_is_what_it_says(proxy: FaultProxy) -> None:
    """Within 2 ms at the median, and never less; short ones are not rounded to milliseconds."""
    with Pinger(proxy.address) as pinger:
        pinger.ping(10)
        for delay_s, off_s in ((0.0005, 0.0009), (0.005, 0.002), (0.04, 0.002)):
            proxy.set(both=Faults(delay_s=delay_s))

            def beyond_s(asked_s: float = 2 * delay_s) -> float:
                trips = pinger.ping(9)
                assert trips.taken_s[0] >= asked_s, trips
                return trips.p50 - asked_s

            assert best(beyond_s, off_s) <= off_s


@LONG
def test_with_nothing_wrong_it_adds_next_to_nothing(far: Answerer, proxy: FaultProxy) -> None:
    """Less than 0.2 ms to a round trip, at the median."""
    with Pinger(far.address) as straight, Pinger(proxy.address) as through:

        def added_s() -> float:
            straight.ping(20), through.ping(20)
            return through.ping(300).p50 - straight.ping(300).p50

        assert best(added_s, 0.0002) < 0.0002


@LONG
def test_with_nothing_wrong_it_is_fast(far: Answerer, proxy: FaultProxy) -> None:
    """200 MB/s at least with a core of its own, or links that are to be fast would be measured through a slow one."""
    process = psutil.Process(proxy.process.pid)

    def cpu_s_a_byte() -> float:
        before, begin = process.cpu_times(), far.bulk_bytes
        with Bulk(proxy.address, 64 << 20):
            far.wait_for_bulk(begin + (64 << 20))
        after = process.cpu_times()
        return (after.user - before.user + after.system - before.system) / (64 << 20)

    assert best(cpu_s_a_byte, 1 / 200e6) <= 1 / 200e6


@LONG
def test_ten_megabits_are_ten(far: Answerer, proxy: FaultProxy) -> None:
    """Within 5 %; and all that waits, waits in the sender's socket, where the sender can see it."""
    proxy.set(up=Faults(rate=RATE))
    watch = Stopwatch()
    with Bulk(proxy.address) as bulk:
        bulk.wait_until_full()

        def missing() -> float:
            begin = far.bulk_bytes + RATE // 20
            return 1 - far.rate(begin, begin + RATE // 2) / RATE

        assert best(missing, 0.05) <= 0.05
        on_its_way = min(bulk.sent_bytes - is_sent(bulk.sock) - far.bulk_bytes for _ in range(9))
        counts = proxy.counts()
        assert counts.up_bytes <= RATE * watch.taken_s
    assert on_its_way <= ON_ITS_WAY_BYTES_MAX
    assert counts.up_taken - counts.up_bytes <= RATE * 0.02


@LONG
def test_both_ways_have_their_own_rate(far: Answerer, proxy: FaultProxy) -> None:
    """An answer of 25 kB takes 20 ms at 10 Mbit/s; the question, unlimited, takes none."""
    proxy.set(down=Faults(rate=RATE))
    with Pinger(proxy.address, size=25_000) as pinger:

        def beyond_s() -> float:
            trips = pinger.ping(3)
            assert trips.taken_s[0] >= 0.0195, trips
            return trips.p50 - 0.02

        assert best(beyond_s, 0.005) <= 0.005


def beside_bulk(far: Answerer, proxy: FaultProxy, *, is_fair: bool) -> tuple[RoundTrips, RoundTrips]:
    """Round trips alone, and with another connection that keeps the link full."""
    proxy.set(up=Faults(rate=RATE, is_fair=is_fair))
    with Pinger(proxy.address) as pinger:
        alone = pinger.ping(30)
        with Bulk(proxy.address) as bulk:
            bulk.wait_until_full()
            return alone, pinger.ping(30)


@LONG
def test_bulk_does_not_delay_another_connection_of_a_fair_link(far: Answerer, proxy: FaultProxy) -> None:
    """It waits for one turn on the wire, a segment's 1.2 ms, and not for the 20 ms that are queued."""

    def beside_s() -> float:
        return beside_bulk(far, proxy, is_fair=True)[1].p50

    assert best(beside_s, 0.003) <= 0.003


@LONG
def test_bulk_delays_all_where_the_first_come_is_the_first_sent(far: Answerer, proxy: FaultProxy) -> None:
    """By what is queued: the link on which separate connections do not help, and a sender must queue less himself."""
    measured: list[tuple[RoundTrips, RoundTrips]] = []

    def beside_s() -> float:
        measured.append(beside_bulk(far, proxy, is_fair=False))
        return measured[-1][1].p50

    assert 0.015 <= best(beside_s, 0.03) <= 0.03
    assert min(alone.p50 for alone, _ in measured) <= 0.003


def test_a_partition_of_a_second_heals(far: Answerer, proxy: FaultProxy) -> None:
    """Nothing passes in it; and then, at once, what was sent into it: no byte is lost, none comes twice."""
    with Pinger(proxy.address) as pinger, Bulk(proxy.address, 32 << 20):
        far.wait_for_bulk(1 << 20)
        proxy.cut()
        pinger.sock.sendall(pinger.message)
        begin = proxy.counts()
        assert not select.select([pinger.sock], [], [], 1.0)[0]
        assert proxy.counts() == begin
        proxy.heal()
        assert receive(pinger.sock, len(pinger.message)) == pinger.message
        far.wait_for_bulk(32 << 20)
    assert far.bulk_bytes == 32 << 20
