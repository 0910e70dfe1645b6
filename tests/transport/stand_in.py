"""A supervisor and one backplane in one process: the far end of the client's tests, and a program of its own.

Written with the link alone, so that a client is tested against the wire and not against the rest of this project. One
thread serves both sockets; tests change what it does by `do`, and wait for what it has heard by `wait_for`. Started as
`python stand_in.py RUN_DIR` it can be killed.
"""

import os
import select
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from appbackplane.transport.addressing import backplane_socket, supervisor_socket
from appbackplane.transport.batching import Outbox
from appbackplane.transport.codec import Encoder, decode
from appbackplane.transport.directory import Directory, Place
from appbackplane.transport.envelope import CALL, CAST, PUBLISH, Envelope, reply, status
from appbackplane.transport.errors import BackplaneError, Busy, InternalError
from appbackplane.transport.link import Link

#: As in tests/waiting.py, which this program, started by itself, cannot import.
LIMIT_S = 120.0

ROUTES = ("query.echo", "query.hang", "query.busy", "query.broken", "query.note", "query.last")


class StandIn:
    """Serves ROUTES as backplane `query`, and whatever `serve` adds."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        run_dir.mkdir(mode=0o700, exist_ok=True)
        self.generation = 1
        self.version = 0
        #: Backplanes that have never registered.
        self.missing: tuple[str, ...] = ()
        self.is_up = True
        #: Called when somebody asks for the directory; and whether it is kept back then.
        self.is_silent = False
        self.before_directory: Callable[[], object] = lambda: None
        self.heard: list[Envelope] = []
        #: Frames that brought calls or casts of a program's: what looks after a link may come at any time.
        self.frames_count = 0
        self.subscribers: dict[str, list[bytes]] = {}
        self.watchers: list[bytes] = []
        self.hooks: dict[str, Callable[[Envelope], Any]] = {}
        self._callers: dict[int, bytes] = {}
        self._numbers: dict[tuple[bytes, str], int] = {}
        self._changed = threading.Condition()
        self._commands: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._encoder, self._is_stopping = Encoder(), False
        self._supervisor = Link("supervisor")
        self._supervisor.bind(supervisor_socket(run_dir))
        self._open_backplane()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> "StandIn":
        """Begin to serve."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Be gone."""
        if self._thread.is_alive():
            self.do(lambda: setattr(self, "_is_stopping", True))
            self._thread.join(LIMIT_S)
            assert not self._thread.is_alive()
        os.close(self._wake_fd)

    def do(self, act: Callable[[], Any]) -> Any:
        """Have something done by the thread that owns the links."""
        done: Future[Any] = Future()
        self._commands.append((act, done))
        os.eventfd_write(self._wake_fd, 1)
        return done.result(LIMIT_S)

    def wait_for(self, is_true: Callable[["StandIn"], Any]) -> Any:
        """Wait until what has been heard makes it true."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_true(self), LIMIT_S), f"heard only {self.heard[-5:]}"
            return is_true(self)

    def wait_for_route(self, route: str, count: int = 1) -> list[Envelope]:
        """Wait until so many envelopes with this route (or topic) have come."""
        return self.wait_for(
            lambda s: found if len(found := [e for e in s.heard if e.route == route]) >= count else None
        )

    def publish(self, topic: str, body: dict[str, Any], lose: int = 0) -> None:
        """As backplane `query`; `lose` messages before it never arrive."""

        def act() -> None:
            for peer in {p for t, peers in self.subscribers.items() if _hears(t, topic) for p in peers}:
                number = self._numbers[peer, topic] = self._numbers.get((peer, topic), 0) + 1 + lose
                self._say(self._backplane_outbox, peer, Envelope(PUBLISH, number, None, topic, body=body))

        self.do(act)

    def answer_later(self, envelope: Envelope, result: Any) -> None:
        """Answer a call that a hook has left unanswered (by returning `...`)."""
        self.do(lambda: self._say(self._backplane_outbox, self._callers[envelope.id], reply(envelope.id, result)))

    def die(self) -> None:
        """Backplane `query` dies; the supervisor says so."""

        def act() -> None:
            self._backplane.close()
            self.is_up = False
            self._push()

        self.do(act)

    def come_back(self) -> None:
        """Its next generation."""

        def act() -> None:
            if self.is_up:
                self._backplane.close()
            self.generation += 1
            self.is_up = True
            self.subscribers.clear()
            self._open_backplane()
            self._push()

        self.do(act)

    def directory(self) -> Directory:
        """Who is where."""
        path = str(backplane_socket(self.run_dir, "query", self.generation))
        return Directory(
            "stand-in",
            self.version,
            {"query": Place(self.generation, path, self.is_up)},
            {route: ("query",) for route in (*ROUTES, *self.hooks)},
            {"files.*": ("query",)},
            missing=self.missing,
        )

    # -- in its thread ------------------------------------------------------------------------------------------------

    def _open_backplane(self) -> None:
        self._backplane = Link(f"query-{self.generation}")
        self._backplane.bind(backplane_socket(self.run_dir, "query", self.generation))
        self._supervisor_outbox, self._backplane_outbox = Outbox(), Outbox()

    def _push(self) -> None:
        self.version += 1
        for peer in self.watchers:
            body = self.directory().to_body()
            self._say(
                self._supervisor_outbox, peer, Envelope(PUBLISH, self.version, None, "system.directory", body=body)
            )

    def _say(self, outbox: Outbox, peer: bytes, envelope: Envelope) -> None:
        assert outbox.add(peer, self._encoder.encode(envelope))

    def _serve(self) -> None:
        while not self._is_stopping:
            while self._commands:
                act, done = self._commands.pop(0)
                try:
                    done.set_result(act())
                except BaseException as error:
                    done.set_exception(error)
            is_quiet = not self._drain(self._supervisor, self._supervisor_outbox, self._answer_as_supervisor)
            if self.is_up:
                is_quiet &= not self._drain(self._backplane, self._backplane_outbox, self._answer)
            if is_quiet and not self._commands and not self._is_stopping:
                poll = select.poll()
                for fd in (
                    self._wake_fd,
                    self._supervisor.fileno(),
                    *([self._backplane.fileno()] if self.is_up else []),
                ):
                    poll.register(fd, select.POLLIN)
                for fd, _ in poll.poll():
                    if fd == self._wake_fd:
                        os.eventfd_read(self._wake_fd)
        self._supervisor.close()
        if self.is_up:
            self._backplane.close()

    def _drain(self, link: Link, outbox: Outbox, answer: Callable[[bytes, Envelope], Envelope | None]) -> bool:
        is_something = bool(outbox)
        while (received := link.receive()) is not None:
            is_something = True
            peer, frame = received
            envelopes = decode(frame)
            for envelope in envelopes:
                answered = answer(peer, envelope)
                if answered is not None:
                    self._say(outbox, peer, answered)
            with self._changed:
                self.frames_count += any(is_of_a_user(envelope) for envelope in envelopes)
                self.heard += envelopes
                self._changed.notify_all()
        outbox.flush(link.send)
        return is_something

    def _answer_as_supervisor(self, peer: bytes, envelope: Envelope) -> Envelope | None:
        if envelope.kind != CALL:
            return None
        if envelope.route == "supervisor.directory":
            self.before_directory()
            if self.is_silent:
                return None
            if peer not in self.watchers:
                self.watchers.append(peer)
            return reply(envelope.id, self.directory().to_body())
        return reply(envelope.id, {"route": envelope.route, "state": "primary"})

    def _answer(self, peer: bytes, envelope: Envelope) -> Envelope | None:
        route, body = envelope.route or "", envelope.body
        if route.endswith(".subscribe"):
            self.subscribers.setdefault(body["topic"], []).append(peer)
            return reply(envelope.id, {})
        if route.endswith(".unsubscribe"):
            if peer in self.subscribers.get(body["topic"], []):
                self.subscribers[body["topic"]].remove(peer)
            return reply(envelope.id, {}) if envelope.kind == CALL else None
        if envelope.kind == CAST and route == "query.last":
            os._exit(0)
        if envelope.kind != CALL:
            return None
        try:
            if route in self.hooks:
                result = self.hooks[route](envelope)
                self._callers[envelope.id] = peer
                return None if result is ... else reply(envelope.id, result)
            if route == "query.busy":
                raise Busy("full", retry_after=0.125)
            if route == "query.broken":
                raise InternalError("ValueError: no", trace="Traceback of the callee")
        except BackplaneError as error:
            return status(envelope.id, error, is_refused=error.is_refused)
        return None if route == "query.hang" else reply(envelope.id, body)


def is_of_a_user(envelope: Envelope) -> bool:
    """Whether a program asked for it."""
    return envelope.kind in (CALL, CAST) and not (envelope.route or "").startswith(("supervisor.", "backplane."))


def _hears(pattern: str, topic: str) -> bool:
    return topic.startswith(pattern[:-1]) if pattern.endswith(".*") else topic == pattern


if __name__ == "__main__":
    stand_in = StandIn(Path(sys.argv[1]))
    print("serving", flush=True)
    stand_in._serve()
