"""Gatekeeper: answers ZeroMQ, for each connection to a secured socket of a context, whether that key may come in.

ZeroMQ asks in the middle of the handshake, over a socket inside the process, and waits: so this has no thread of its own. The
owner of the sockets polls its descriptor with theirs, and answers between two actions; a handshake takes that much longer.
Make it before the first `bind`: a question that is not answered is a refusal (links.py enforces the domain), also after it is
closed. pyzmq's own authenticator is not used: it lets NULL in unless configured otherwise, knows keys without names, and logs
each refusal, however many there are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq

from ..errors import FailedPrecondition
from .admission import RefusedConnection, answer
from .keyring import Keyring
from .links import DOMAIN, POLLIN
from .refusals import Refusals

#: Where ZeroMQ asks (ZAP, RFC 27); one a context.
ADDRESS: Final = "inproc://zeromq.zap.01"
#: Questions answered in an iteration: at 20 us each, nothing else waits for long, however many come.
QUESTIONS_MAX: Final = 32
_LOG = logging.getLogger(__name__)


class Gatekeeper:
    """Decides for the sockets of one context. Not thread-safe: it belongs to their owner."""

    def __init__(
        self,
        context: zmq.Context[Any],
        keyring: Keyring,
        log: Callable[[str], object] = _LOG.warning,
    ) -> None:
        """`log` receives a line about refused connections, as many as a disk can bear (refusals.py).

        Raises `FailedPrecondition` if the context has one already.
        """
        self.keyring = keyring
        self.refusals = Refusals()
        #: The number of each key's last admission, counted over all keys, by its User-Id: this tells a connection from the one
        #: before it (roll.py).
        self.admissions: dict[str, int] = {}
        self._admitted_count = 0
        self._log = log
        self._problem: str | None = None
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.linger = 0
        try:
            self._socket.bind(ADDRESS)
        except zmq.ZMQError as error:
            self._socket.close()
            raise FailedPrecondition("this context has a gatekeeper already") from error
        keyring.refresh()

    def fileno(self) -> int:
        """Readable when a question may wait. Edge-triggered, as all of ZeroMQ's: call `answer` before waiting on it."""
        return int(self._socket.getsockopt(zmq.FD))

    def answer(self, now_ns: int) -> bool:
        """Answer waiting questions. Returns whether more may wait, so that the owner comes back before it waits."""
        for _ in range(QUESTIONS_MAX):
            if not int(self._socket.getsockopt(zmq.EVENTS)) & POLLIN:
                self.say(self.refusals.due(now_ns))
                return False
            question: list[bytes] = self._socket.recv_multipart(zmq.NOBLOCK)
            self.keyring.refresh()  # for each: a key may have been trusted since the last one was answered
            if self.keyring.problem != self._problem:
                self._problem = self.keyring.problem
                if self._problem is not None:
                    self.say([f"no new peers are admitted: {self._problem}"])
            told = answer(question, DOMAIN, None if self._problem is not None else self.keyring.ring)
            # If the peer has hung up meanwhile, ZeroMQ drops the answer.
            self._socket.send_multipart(told.frames(), zmq.NOBLOCK)
            if told.refusal is None:
                user_id = told.user_id.decode()
                self._admitted_count += 1
                self.admissions[user_id] = self._admitted_count
            else:
                self.refuse(told.refusal, now_ns)
        return True

    def refuse(self, refusal: RefusedConnection, now_ns: int) -> None:
        """Count a refusal, and log it if that is due; also one of the doorstep's."""
        self.say(self.refusals.note(refusal, now_ns))

    def close(self) -> None:
        """Let nobody in from now on. Present connections stay: they end with their sockets."""
        self._socket.close()

    def say(self, lines: Sequence[str]) -> None:
        """Write these lines to the log."""
        for line in lines:
            self._log(line)
