"""Uncopied: prepares large frames that ZeroMQ sends from our memory, out of reach of a signal's exception.

pyzmq notes in Python code which frames ZeroMQ still reads. If a signal's exception (Ctrl-C) strikes there, pyzmq takes its
collector thread for dead: it forgets frames that ZeroMQ still reads, and reports no later one as sent, so that the peer counts
as full for ever. Python runs signal handlers in the main thread only, so another thread prepares frames for the main thread.
"""

import sys
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from os import getpid
from queue import SimpleQueue
from typing import Final

import zmq


def uncopied(frame: bytes) -> zmq.Frame:
    """The frame for `socket.send(…, copy=False)`; its `tracker` is done once ZeroMQ holds it no longer.

    A copy, if pyzmq cannot keep track of it: the interpreter exits, or no descriptor is left for the collector's sockets.
    """
    preparing = _preparing.get(getpid())
    if preparing is None:
        preparing = _preparing.setdefault(getpid(), _Preparing())
    is_safe = get_ident() != threading.main_thread().ident
    part = preparing.tracked(frame) if is_safe else preparing.tracked_elsewhere(frame)
    return zmq.Frame(frame, track=True, copy=True) if part is None else part


class _Request:
    """A frame to prepare, and the result."""

    __slots__ = ("done", "frame", "part")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.part: zmq.Frame | None = None
        self.done = allocate_lock()
        self.done.acquire()


class _Preparing:
    """Prepares the frames of one process; a forked one has its own."""

    def __init__(self) -> None:
        # Two threads that prepare their first frames at once would start two collectors, one of which is lost.
        self._lock = allocate_lock()
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._is_served = False

    def tracked(self, frame: bytes) -> zmq.Frame | None:
        """A frame that pyzmq keeps track of; None if it cannot. Not for the main thread."""
        try:
            with self._lock:
                return zmq.Frame(frame, track=True, copy=False)
        except Exception:  # whatever it is, a copy needs no collector
            return None

    def tracked_elsewhere(self, frame: bytes) -> zmq.Frame | None:
        """As `tracked`, for the main thread. If an exception strikes, the frame is dropped."""
        if sys.is_finalizing():  # no other thread runs any more
            return None
        if not self._is_served:
            start_new_thread(self._serve, ())
            self._is_served = True  # if an exception strikes before, two threads serve
        request = _Request(frame)
        self._requests.put(request)
        request.done.acquire()
        return request.part

    def _serve(self) -> None:
        while True:
            self._serve_one()  # of a frame nothing stays here while the next one is awaited

    def _serve_one(self) -> None:
        request = self._requests.get()
        request.part = self.tracked(request.frame)
        request.done.release()


#: By process id.
_preparing: Final[dict[int, _Preparing]] = {}
