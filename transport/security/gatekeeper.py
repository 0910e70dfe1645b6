"""Gatekeeper: answers ZeroMQ, for each connection to a secured socket of a context, whether that key may come in.

ZeroMQ asks in the middle of the handshake, over a socket inside the process, and waits: so this has no thread of its own.
The owner of the sockets polls its descriptor with theirs, and answers between two actions; a handshake takes that much
longer. Be there before the first `bind`: a question without anybody to answer it is a refusal (links.py enforces the
domain), and so it is once this is closed. pyzmq's own authenticator is not used: it lets NULL in unless told otherwise,
knows keys without names, and logs each refusal, as often as anybody cares to knock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq

from ..errors import FailedPrecondition
from .admission import Refusal, answer
from .keyring import Keyring
from .links import DOMAIN
from .refusals import Refusals

# A plain integer: an enum's `&` looks a member up each time, and this is asked in every turn.
_POLLIN: Final = int(zmq.POLLIN)
#: Where ZeroMQ asks (ZAP, RFC 27); one a context.
ADDRESS: Final = "inproc://zeromq.zap.01"
#: Answered in a turn: at 20 us each, nobody else waits for long, however many knock.
QUESTIONS_MAX: Final = 32
_LOG = logging.getLogger(__name__)


class Gatekeeper:
    """One a context. Not thread-safe: it belongs to the owner of the sockets."""

    def __init__(
        self,
        context: zmq.Context[Any],
        keyring: Keyring,
        log: Callable[[str], object] = _LOG.warning,
    ) -> None:
        """`log` is told of those who were refused, a line each, as many as a disk can bear (refusals.py).

        Raises `FailedPrecondition` where the context has one already.
        """
        self.keyring = keyring
        self.refusals = Refusals()
        #: How often a key has come in, by its User-Id: by this, a connection is told from the one before it (roll.py).
        self.admissions: dict[str, int] = {}
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
        """Readable when somebody may want to come in. Edge-triggered, as all of ZeroMQ's: answer before waiting on it."""
        return int(self._socket.getsockopt(zmq.FD))

    def answer(self, now_ns: int) -> bool:
        """Answer those who have asked; whether more may be waiting, so that the owner comes back before it waits."""
        for _ in range(QUESTIONS_MAX):
            if not int(self._socket.getsockopt(zmq.EVENTS)) & _POLLIN:
                self.say(self.refusals.due(now_ns))
                return False
            question: list[bytes] = self._socket.recv_multipart(zmq.NOBLOCK)
            self.keyring.refresh()  # for each: a key may have been trusted since the last one was answered
            if self.keyring.problem != self._problem:
                self._problem = self.keyring.problem
                if self._problem is not None:
                    self.say([f"nobody new is let in: {self._problem}"])
            told = answer(question, DOMAIN, None if self._problem is not None else self.keyring.ring)
            # Who has hung up meanwhile is not there to hear it: ZeroMQ drops the answer.
            self._socket.send_multipart(told.frames(), zmq.NOBLOCK)
            if told.refusal is None:
                user_id = told.user_id.decode()
                self.admissions[user_id] = self.admissions.get(user_id, 0) + 1
            else:
                self.refuse(told.refusal, now_ns)
        return True

    def refuse(self, refusal: Refusal, now_ns: int) -> None:
        """Count it, and log it if that is due; also for those that others keep out."""
        self.say(self.refusals.note(refusal, now_ns))

    def close(self) -> None:
        """From now on nobody comes in. Those who are in stay: they end with their sockets."""
        self._socket.close()

    def say(self, lines: Sequence[str]) -> None:
        """To the log."""
        for line in lines:
            self._log(line)
