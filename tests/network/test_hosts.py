"""Computers in network namespaces: what separates them, what heals, and that nothing of them is left."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.figures import LONG, Stopwatch, judge
from tests.network.faults import Faults
from tests.network.hosts import BURST_BYTES_MIN, NAMESPACES, Host, Hosts, began, obstacle, remove_leftovers
from tests.network.measuring import Answerer, Bulk, Pinger, best, receive
from tests.network.proxy import ROOT, FaultProxy
from tests.waiting import LIMIT_S

#: How long nothing must come for "nothing comes": a hundred times what a round trip here takes.
SILENCE_S = 0.2
RATE = 1_250_000  # 10 Mbit/s
Make = Callable[[int], Hosts]


@pytest.fixture
def pair(hosts: Make) -> tuple[Host, Host]:
    """Two computers."""
    near, far = hosts(2)
    return near, far


@pytest.fixture
def far(pair: tuple[Host, Host]) -> Iterator[Answerer]:
    """Who answers on the second one."""
    with Answerer(pair[1].listen()) as answerer:
        yield answerer


@pytest.fixture
def pinger(pair: tuple[Host, Host], far: Answerer) -> Iterator[Pinger]:
    """A connection to it from the first one, which has been used."""
    with Pinger(pair[0].connect(far.address)) as connected:
        connected.ping()
        yield connected


def is_silent(pinger: Pinger) -> bool:
    """Whether a message that is sent now has no answer; it is left on its way."""
    pinger.sock.sendall(pinger.message)
    return not select.select([pinger.sock], [], [], SILENCE_S)[0]


def wait_answered(pinger: Pinger) -> bool:
    """Whether the message that was left on its way is answered, after all."""
    return receive(pinger.sock, len(pinger.message)) == pinger.message


SEPARATIONS: dict[str, tuple[Callable[[Hosts], None], Callable[[Hosts], None]]] = {
    "the router drops what the near one sends": (lambda h: h.drop(h[0], h[1]), lambda h: h.heal()),
    "the router drops what the far one sends": (lambda h: h.drop(h[1], h[0]), lambda h: h.heal()),
    "the router drops both": (lambda h: h.part(h[1]), lambda h: h.heal()),
    "the far one has lost its address": (lambda h: h[1].lose_address(), lambda h: h[1].regain_address()),
    "the near one has lost its address": (lambda h: h[0].lose_address(), lambda h: h[0].regain_address()),
    "a cable is out": (lambda h: h[1].unplug(), lambda h: h[1].plug()),
    "the near one has no way there": (lambda h: h[0].blackhole(h[1]), lambda h: h[0].remove_blackhole(h[1])),
}


@pytest.mark.parametrize("name", SEPARATIONS)
def test_what_separates_heals(hosts: Make, name: str) -> None:
    """A connection outlives it: nothing comes, then all; the third host is served throughout."""
    separate, heal = SEPARATIONS[name]
    with (
        Answerer((three := hosts(3))[1].listen()) as far,
        Pinger(three[0].connect(far.address)) as parted,
        Answerer(three[2].listen()) as third,
        Pinger(three[1 if "near" in name else 0].connect(third.address)) as other,
    ):
        parted.ping(), other.ping()
        separate(three)
        assert is_silent(parted)
        other.ping(10)
        with pytest.raises(OSError):
            three[0].connect(far.address, SILENCE_S)
        heal(three)
        assert wait_answered(parted)
        parted.ping(10)
        three[0].connect(far.address).close()


def test_a_drop_is_one_way(hosts: Make) -> None:
    """What the other sends still comes, though the answers to it are lost: the partition that heartbeats must see."""
    near, far = both = hosts(2)
    listener = far.listen()
    one = near.connect(listener.getsockname())
    other, _ = listener.accept()
    with listener, one, other:
        both.drop(near, far)
        one.sendall(b"lost")
        other.sendall(b"heard")
        assert receive(one, 5) == b"heard"
        assert not select.select([other], [], [], SILENCE_S)[0]
        both.heal()
        assert receive(other, 4) == b"lost"


def test_a_partition_of_a_second_heals(hosts: Make) -> None:
    """A second without a packet is nothing to TCP: what was sent into it comes, in order, once."""
    near, far = both = hosts(2)
    with (
        Answerer(far.listen()) as answerer,
        Pinger(near.connect(answerer.address)) as pinger,
        Bulk(near.connect(answerer.address), 256 << 20),
    ):
        answerer.wait_for_bulk(1 << 20)
        both.part(far)
        pinger.sock.sendall(pinger.message)
        assert not select.select([pinger.sock], [], [], 1.0)[0]
        assert answerer.bulk_bytes < 256 << 20
        both.heal()
        assert wait_answered(pinger)
        answerer.wait_for_bulk(256 << 20)
    assert answerer.bulk_bytes == 256 << 20


@LONG
def test_ten_megabits_are_a_limit(pair: tuple[Host, Host], far: Answerer) -> None:
    """By the kernel's own token bucket: headers count there, 66 bytes for 1448."""
    near, _ = pair
    near.limit(RATE)
    watch = Stopwatch()
    with Bulk(near.connect(far.address)) as bulk:
        bulk.wait_until_full()

        def missing() -> float:
            begin = far.bulk_bytes + RATE // 10
            return 1 - far.rate(begin, begin + RATE // 2) / RATE

        assert best(missing, 0.15) <= 0.15
        assert far.bulk_bytes <= RATE * watch.taken_s + BURST_BYTES_MIN


@LONG
def test_one_queue_for_all_delays_all(pair: tuple[Host, Host], far: Answerer, pinger: Pinger) -> None:
    """tbf has one queue: beside bulk a ping waits for what is in it, at most `queue_s`; fair links are FaultProxy's."""
    near, _ = pair
    near.limit(RATE, queue_s=0.03)
    assert best(lambda: pinger.ping(20).p50, 0.003) <= 0.003
    with Bulk(near.connect(far.address)) as bulk:
        bulk.wait_until_full()
        assert best(lambda: pinger.ping(20).p50, 0.045) <= 0.045
        # TCP itself leaves the queue almost empty for a while after a loss, so the longest of a few counts here.
        assert -best(lambda: -pinger.ping(20).p50, -0.006) >= 0.006
    near.unlimit()


def test_programs_run_in_their_host(pair: tuple[Host, Host]) -> None:
    """With the address of that host and no other, and all of the file system, cgroups included."""
    near, _ = pair
    shown = near.run(["ip", "-brief", "-4", "addr"]).stdout
    assert near.address in shown and "127.0.0.1" in shown and shown.count("UNKNOWN") + shown.count("UP") == 2
    assert (
        near.run(["ls", "/sys/fs/cgroup"]).stdout
        == subprocess.run(["ls", "/sys/fs/cgroup"], capture_output=True, text=True, check=True).stdout
    )


def test_a_proxy_runs_in_a_host(pair: tuple[Host, Host], far: Answerer) -> None:
    """Delay between namespaces: the kernel here has no netem."""
    near, _ = pair
    slow = Faults(delay_s=0.005)
    with (
        FaultProxy(far.address, both=slow, host=near.address, prefix=near.prefix) as proxy,
        Pinger(near.connect(proxy.address)) as pinger,
    ):
        trips = pinger.ping(10)
    judge("a delay of 5 ms each way, less what a round trip took", 0.01 - trips.p50, 0.0)


def test_nothing_is_left(hosts: Make) -> None:
    """Neither namespaces nor what ran in them."""
    with Hosts(1) as one:
        names = [one.router.name, one[0].name]
        assert all((NAMESPACES / name).exists() for name in names)
        program = one[0].popen(
            [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"], stdin=-1, stdout=-1
        )
        assert program.stdout.readline()
    assert program.wait(LIMIT_S) == -signal.SIGKILL
    program.communicate()
    assert not any((NAMESPACES / name).exists() for name in names)


def test_what_a_killed_run_has_left_is_removed_by_the_next(hosts: Make) -> None:
    """A run that is killed cannot tidy up; and one that lives is not disturbed."""
    source = "from tests.network.hosts import Hosts; h = Hosts(1); print(h[0].name, flush=True); input()"
    run = subprocess.Popen([sys.executable, "-c", source], cwd=ROOT, stdin=-1, stdout=-1, text=True)
    with run:
        assert run.stdout is not None
        name = run.stdout.readline().strip()
        assert name not in remove_leftovers() and (NAMESPACES / name).exists()
        run.kill()
        run.wait(LIMIT_S)
        left = remove_leftovers()
    assert name in left and not (NAMESPACES / name).exists()


def test_the_same_number_of_another_process_is_another_run() -> None:
    """Numbers of processes come again: after a restart a live process would shield what a dead one has left."""
    assert began(os.getpid()) > 0
    assert began(2**22 + 1) == 0


@pytest.mark.parametrize(
    ("uid", "missing", "reason"),
    [
        (1000, (), "network namespaces need root: run the tests as root to include these"),
        (0, ("ip", "tc"), "no iproute2: apt install iproute2"),
        (0, ("ip", "nsenter"), "no iproute2, util-linux: apt install iproute2 util-linux"),
    ],
)
def test_where_it_cannot_be_it_says_why(
    monkeypatch: pytest.MonkeyPatch, uid: int, missing: tuple[str, ...], reason: str
) -> None:
    """A test that is left out for no stated reason is one that nobody misses."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(shutil, "which", lambda program: None if program in missing else program)
    assert obstacle() == reason
