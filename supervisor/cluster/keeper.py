"""Keeper: the thread that calls the store, so that a store that hangs does not block the supervisor.

One request at a time. The thread stores the answer and writes an eventfd, which wakes the supervisor's loop. A thread that
hangs in a dead network file system gets no further request, and dies with the process.
"""

from __future__ import annotations

import os
import threading

from .lease import Answer, Conflict, ReadRecord, Swap, Trouble
from .stores import Store, StoreError


class Keeper:
    """Calls one store. Every method but the thread's own runs in the supervisor's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: ReadRecord | Swap | None = None
        self._answer: Answer | None = None
        self._is_closed = False
        self._news = threading.Condition()
        #: Readable when there is an answer.
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def ask(self, asked: ReadRecord | Swap) -> None:
        """Send one request; the one before must have been answered."""
        with self._news:
            assert self._asked is None and self._answer is None, "one at a time"
            self._asked = asked
            self._news.notify_all()

    def take(self) -> Answer | None:
        """The answer; None: it has not come."""
        with self._news:
            answer, self._answer = self._answer, None
            if answer is not None:
                os.eventfd_read(self.fd)
            return answer

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        return self._asked is not None

    def wait(self, limit_s: float) -> Answer | None:
        """Wait for the answer. None: nothing was asked, or it did not come within `limit_s`."""
        with self._news:
            self._news.wait_for(lambda: self._asked is None, limit_s)
        return self.take()

    def close(self, limit_s: float) -> None:
        """End the thread and close the store. Both stay if the thread hangs for longer than `limit_s`."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        self._thread.join(limit_s)
        if not self._thread.is_alive():
            self._store.close()
            os.close(self.fd)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._is_closed or self._asked is not None)
                if self._is_closed:
                    return
                asked = self._asked
            assert asked is not None
            answer = self._served(asked)
            with self._news:
                self._asked, self._answer = None, answer
                if not self._is_closed:
                    os.eventfd_write(self.fd, 1)
                self._news.notify_all()

    def _served(self, asked: ReadRecord | Swap) -> Answer:
        try:
            if isinstance(asked, ReadRecord):
                return self._store.look()
            done = self._store.swap(asked.version, asked.record)
            return Conflict() if done is None else done
        except StoreError as error:
            return Trouble(str(error))
        except Exception as error:  # any error of a driver: the lease goes on without the store
            return Trouble(f"{type(error).__name__}: {error}")
