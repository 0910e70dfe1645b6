"""Links: the options of a TCP socket between nodes, in one place: keys, limits, heartbeats, and no reconnecting by itself.

CURVE alone lets in every key there is: only an enforced domain with a name makes ZeroMQ ask, and refuse where nobody
answers (gatekeeper.py). Who connects sends heartbeats, and says how long none may come: so both ends notice a cut or a frozen
host; a reader that has stopped at its high-water mark hears none and cuts, so that its owner keeps the sender from filling it.
A link that ends is over: ZeroMQ does not connect again and keeps no queue, the owner makes another socket. As ZeroMQ has it,
what was queued for a dead peer would be done by its next incarnation (TRAPS 5), and a reader that was cut while it had stopped
would be aborted when it reads on (`Assertion failed: _input_stopped`, zeromq/libzmq #3937).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import zmq

from ..codec import FRAME_BYTES_MAX
from ..errors import FailedPrecondition, Unavailable
from .addresses import check_address
from .headroom import WAITING_SHARE, descriptors_max
from .keyring import Keyring
from .keys import PublicKey

#: What ZeroMQ calls the set of sockets that one policy is for. That it is not empty is what counts.
DOMAIN: Final = "appbackplane"
#: What ZeroMQ says where a socket cannot be made for want of descriptors.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)
#: Before it, CURVE had holes (CVE-2019-13132, CVE-2020-15166: unauthenticated peers, both).
LIBZMQ_MIN: Final = (4, 3, 5)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a link bears."""

    #: To say who one is. Who says nothing has a descriptor for so long: 2,000 a second are 2,000, and no more.
    handshake_ms: int = 1_000
    #: Of one frame. How many frames a message may have, its reader checks.
    frame_bytes: int = FRAME_BYTES_MAX
    #: A heartbeat so often, and a cut so long after one was not answered: noticed in 750 ms. 0 and 0: none,
    #: where the owner has others.
    heartbeat_ms: int = 200
    silence_ms: int = 600
    #: Connections that wait to be accepted: ZeroMQ's 100 were full when 2,000 came at once, and who came then waited a second.
    #: Fewer where there are few descriptors (headroom.py).
    backlog: int = 1_000
    #: To connect, before the kernel's own two minutes.
    connect_ms: int = 2_000


LIMITS: Final = Limits()


def server(socket: zmq.Socket[Any], keyring: Keyring, limits: Limits = LIMITS) -> None:
    """Make a socket one to bind: only keys that the gatekeeper of its context lets in get anything. Before `bind`."""
    own = keyring.own()
    _common(socket, limits)
    # No heartbeats of its own: the next one aborts the process of a socket that has stopped reading at its mark when its
    # peer was killed (`Assertion failed: !_io_error`), where its owner did not come to read for 200 ms. It answers those of
    # others, and cuts who sends no more of them, as a rule: where the last that came was something else, it does not count.
    # Whoever needs to know looks himself (remote/visitors.py), or is told otherwise (peers); the rest the kernel ends.
    for option, value in (
        (zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 5), (zmq.TCP_KEEPALIVE_INTVL, 5), (zmq.TCP_KEEPALIVE_CNT, 3),
    ):  # fmt: skip
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.BACKLOG, min(limits.backlog, descriptors_max() // WAITING_SHARE))
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, own.secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN.encode())
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def client(socket: zmq.Socket[Any], keyring: Keyring, server_key: PublicKey, limits: Limits = LIMITS) -> None:
    """Make a DEALER one to connect to whoever has the secret of `server_key`, and to nobody else. Before `connect`.

    What is sent is refused (`zmq.Again`) while there is no connection. For another, close it, and make another socket: after
    a `disconnect` the old queue still takes what is sent, and what came and was not read yet is gone with the connection.
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
    # Else what ended keeps its queue, and takes frames for nobody, wherever ZeroMQ's text of the address is not ours: for
    # names, and for IPv4 on a socket for both. It also is what keeps a reader from being aborted.
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, limits.connect_ms)


def bind(socket: zmq.Socket[Any], address: str) -> str:
    """Listen; where, with the port that it got. A socket that was not made a `server` listens on loopback alone.

    Raises `InvalidArgument`, and `FailedPrecondition` where it is taken, or not this host's.
    """
    taken = check_address(address, is_secured=_is_secured(socket) and bool(socket.getsockopt(zmq.ZAP_ENFORCE_DOMAIN)))
    try:
        socket.bind(taken)
    except zmq.ZMQError as error:
        raise FailedPrecondition(f"{address} cannot be listened at: {error.strerror}") from error
    return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))


def connect(socket: zmq.Socket[Any], address: str) -> None:
    """Connect, without waiting for it. A socket that was not made a `client` connects to loopback alone.

    Raises `InvalidArgument`, also for a name: look it up before, where nobody waits for it. ZeroMQ would do that in the
    thread that all links share, and a resolver that does not answer would stop them all.
    """
    socket.connect(check_address(address, is_secured=_is_secured(socket), is_bound=False, is_numeric=True))


@contextmanager
def dialling(address: str) -> Iterator[None]:
    """Turn ZeroMQ's want of descriptors, or of room for sockets, into `Unavailable`: a dial that failed and can be repeated."""
    try:
        yield
    except zmq.ZMQError as error:
        if error.errno not in _EXHAUSTED:
            raise
        raise Unavailable(
            f"{address} cannot be dialled: {error.strerror} (raise the limit: ulimit -Hn, or LimitNOFILE)",
            retry_after=1.0,
        ) from error


def _is_secured(socket: zmq.Socket[Any]) -> bool:
    return int(socket.getsockopt(zmq.MECHANISM)) == zmq.CURVE


def _common(socket: zmq.Socket[Any], limits: Limits) -> None:
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
