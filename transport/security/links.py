"""Links: the options of a TCP socket between nodes, in one place: keys, limits, heartbeats, and no reconnecting by itself.

CURVE alone lets in every key there is: only an enforced domain with a name makes ZeroMQ ask, and refuse where no gatekeeper
answers. The connecting end sends heartbeats, and states how long none may come: so both ends notice a cut or a frozen host. A
reader that has stopped at its high-water mark receives none and cuts, or aborts the process: no owner sets such a mark. A link
that ends is over: ZeroMQ does not connect again and keeps no queue, and the owner makes another socket. ZeroMQ's default has
two faults. Calls queued for a dead peer would be done by its next incarnation (TRAPS 5). And a reader that was cut while it
had stopped would be aborted when it reads on (`Assertion failed: _input_stopped`, zeromq/libzmq #3937).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import zmq

from ..codec import FRAME_BYTES_MAX
from ..descriptors import NONE_LEFT, descriptors_max
from ..errors import FailedPrecondition, Unavailable
from .addresses import check_address
from .headroom import WAITING_SHARE
from .keyring import Keyring
from .keys import PublicKey

#: As a plain integer: an enum's `&` looks a member up each time, and this runs in every iteration.
POLLIN: Final = int(zmq.POLLIN)
#: ZAP domain: ZeroMQ's name for the sockets of one policy. It must not be empty.
DOMAIN: Final = "appbackplane"
#: Earlier versions of CURVE had holes (CVE-2019-13132, CVE-2020-15166: unauthenticated peers, both).
LIBZMQ_MIN: Final = (4, 3, 5)


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Limits of one link."""

    #: Time to show a key. A silent connection has a descriptor for so long: 2,000 a second are 2,000, and no more.
    handshake_ms: int = 1_000
    #: Length of one frame. Its reader checks how many frames a message has.
    frame_bytes: int = FRAME_BYTES_MAX
    #: Interval of heartbeats, and the silence after which a link is cut: noticed in 750 ms. 0 and 0: none, where the owner has
    #: others.
    heartbeat_ms: int = 200
    silence_ms: int = 600
    #: Connections that wait to be accepted: ZeroMQ's 100 were full when 2,000 came at once, and later ones waited a second.
    #: Fewer where there are few descriptors (headroom.py).
    backlog: int = 1_000
    #: Time to connect: the kernel's own limit is two minutes.
    connect_ms: int = 2_000


LIMITS: Final = LinkLimits()


def server(socket: zmq.Socket[Any], keyring: Keyring, limits: LinkLimits = LIMITS) -> None:
    """Configure a socket to bind: only keys that the gatekeeper of its context admits get through. Before `bind`."""
    own = keyring.own()
    _common(socket, limits)
    # No heartbeats of its own. A heartbeat would abort the process (`Assertion failed: !_io_error`) if its peer was killed
    # while the socket had stopped reading at its mark, because its owner did not read for 200 ms. So does the answer to a
    # heartbeat of that peer: an owner sets no receive limit. The socket cuts peers whose heartbeats end, unless the last
    # message was something else. Owners that have to know check themselves (remote/visitors.py), or have other signs
    # (peers); the kernel ends the rest.
    for option, value in (
        (zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 5), (zmq.TCP_KEEPALIVE_INTVL, 5), (zmq.TCP_KEEPALIVE_CNT, 3),
    ):  # fmt: skip
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.BACKLOG, min(limits.backlog, descriptors_max() // WAITING_SHARE))
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, own.secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN.encode())
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def client(socket: zmq.Socket[Any], keyring: Keyring, server_key: PublicKey, limits: LinkLimits = LIMITS) -> None:
    """Configure a DEALER to connect to the holder of the secret of `server_key`, and to nobody else. Before `connect`.

    Sending is refused (`zmq.Again`) while there is no connection. For another, close it, and make another socket: after a
    `disconnect` the old queue still takes messages, and received ones that were not read yet are gone with the connection.
    Raises `FailedPrecondition` for a key that was revoked here.
    """
    assert socket.type == zmq.DEALER, "a ROUTER cannot send by an alias to one it connects to with IMMEDIATE"
    own = keyring.own()
    keyring.refresh()
    holder = keyring.ring.of_key(server_key.raw)
    if holder is not None and holder.is_revoked:
        raise FailedPrecondition(
            f"the key {server_key.fingerprint} of {holder.name!r} was revoked here: not connected to"
        )
    _common(socket, limits)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, own.public.raw)
    socket.setsockopt(zmq.CURVE_SECRETKEY, own.secret)
    socket.setsockopt(zmq.CURVE_SERVERKEY, server_key.raw)
    for option, value in (
        (zmq.HEARTBEAT_IVL, limits.heartbeat_ms),
        (zmq.HEARTBEAT_TIMEOUT, limits.silence_ms),
        (zmq.HEARTBEAT_TTL, limits.silence_ms),  # after which the other end cuts
    ):
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    # Without IMMEDIATE an ended connection keeps its queue and accepts frames that nobody gets, where ZeroMQ writes the address
    # differently: for names, and for IPv4 on a dual-stack socket. ZeroMQ might also abort a slow reader (libzmq #3937).
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, limits.connect_ms)


def bind(socket: zmq.Socket[Any], address: str) -> str:
    """Listen; returns the address with the port that it got. A socket that is no `server` listens on loopback alone.

    Raises `InvalidArgument`, and `FailedPrecondition` if the address is taken, or not this host's.
    """
    taken = check_address(address, is_secured=_is_secured(socket) and bool(socket.getsockopt(zmq.ZAP_ENFORCE_DOMAIN)))
    try:
        socket.bind(taken)
    except zmq.ZMQError as error:
        raise FailedPrecondition(f"{address} cannot be listened at: {error.strerror}") from error
    return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))


def connect(socket: zmq.Socket[Any], address: str) -> None:
    """Connect, without waiting for it. A socket that was not made a `client` connects to loopback alone.

    Raises `InvalidArgument`, also for a name: look it up before, in a thread where nothing else waits. ZeroMQ would do that in
    the thread that all links share, and a resolver that does not answer would stop them all.
    """
    socket.connect(check_address(address, is_secured=_is_secured(socket), is_bound=False, is_numeric=True))


@contextmanager
def dialling(address: str) -> Iterator[None]:
    """Turn ZeroMQ's lack of descriptors, or of sockets, into `Unavailable`: a dial that failed and can be repeated."""
    try:
        yield
    except zmq.ZMQError as error:
        if error.errno not in NONE_LEFT:
            raise
        raise Unavailable(
            f"{address} cannot be dialled: {error.strerror} (raise the limit: ulimit -Hn, or LimitNOFILE)",
            retry_after=1.0,
        ) from error


def _is_secured(socket: zmq.Socket[Any]) -> bool:
    return int(socket.getsockopt(zmq.MECHANISM)) == zmq.CURVE


def _common(socket: zmq.Socket[Any], limits: LinkLimits) -> None:
    if zmq.zmq_version_info() < LIBZMQ_MIN or not zmq.has("curve"):
        raise FailedPrecondition(
            f"libzmq {zmq.zmq_version()} {'has' if zmq.has('curve') else 'has no'} CURVE: links between hosts need "
            f"{'.'.join(map(str, LIBZMQ_MIN))} with it (pip install --upgrade pyzmq)"
        )
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.IPV6, 1),
        (zmq.HANDSHAKE_IVL, limits.handshake_ms),
        (zmq.MAXMSGSIZE, limits.frame_bytes),
    ):
        socket.setsockopt(option, value)
