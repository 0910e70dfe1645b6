"""Questions: requests that need answers from backplanes first: statistics, and `why`.

Sentinels answer, so a busy backplane does too; one that does not is left out, and named. Nothing blocks: each reply or
time-out takes its question one step on. Bounded in number, with `Busy` for the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded, InvalidArgument

from ..direction.child.child import Child
from ..direction.director import Director
from ..direction.effects import Caller
from ..processes.board_file import BoardFile
from . import inquiry, status
from .asked import StatusOptions
from .control_socket import Answered, ControlSocket, SupervisorCall


class _StatisticsToken(NamedTuple):
    caller: Caller
    gathering: status.StatisticsGathering
    backplane: str
    asked_ns: int
    limit_ns: int


class _WhyToken(NamedTuple):
    caller: Caller
    inquiry: inquiry.WhyInquiry


@dataclass(slots=True)
class Questions:
    """Questions in progress, with their callers."""

    control: ControlSocket
    director: Director
    board: BoardFile
    now_ns: Callable[[], int]
    #: The answer to `supervisor.status`, with these statistics.
    status_with: Callable[[dict[str, Any]], dict[str, Any]]
    #: Backplane to when it was sent the last question that it did not answer in time.
    unanswered: dict[str, int] = field(default_factory=dict, init=False)
    _gatherings: set[Caller] = field(default_factory=set, init=False)
    _inquiries: set[Caller] = field(default_factory=set, init=False)

    def take(self, answered: Answered) -> bool:
        """Take the end of a call. False: it was no question."""
        token = answered.token
        if isinstance(token, _StatisticsToken):
            # A time-out shorter than a busy backplane may need does not count as unanswered.
            if isinstance(answered.error, DeadlineExceeded) and token.limit_ns >= status.STATISTICS_LIMIT_NS:
                self.unanswered[token.backplane] = token.asked_ns
            if token.gathering.take(token.backplane, None if answered.error else answered.result):
                self._gatherings.discard(token.caller)
                self.control.reply(token.caller, self.status_with(token.gathering.answers))
        elif isinstance(token, _WhyToken):
            self._on_told_why(token, answered)
        else:
            return False
        return True

    def ask_statistics(self, caller: Caller, look: StatusOptions) -> None:
        """Ask all backplanes that are up. Raises `Busy`."""
        if len(self._gatherings) >= status.GATHERINGS_MAX:
            raise Busy(f"{status.GATHERINGS_MAX} calls wait for statistics already", retry_after=1.0)
        up = [child for child in self.director.children.values() if child.process.is_movable]
        if not up:
            self.control.reply(caller, self.status_with({}))
            return
        self._gatherings.add(caller)
        gathering = status.StatisticsGathering({child.name for child in up})
        for child in up:
            token = _StatisticsToken(caller, gathering, child.name, self.now_ns(), look.limit_ns)
            self._call(child, "control.statistics", {"buckets": look.has_buckets}, token, look.limit_ns)

    def ask_why(self, asked: SupervisorCall) -> None:
        """Follow a chain hop by hop, from the waiting subject to its cause. Raises `NotFound`, `InvalidArgument`, `Busy`."""
        name = asked.body.get("asked")
        if not isinstance(name, str):
            raise InvalidArgument(
                f"supervisor.why: expected `asked`, the name of a call, an object or a route, got {name!r}"
            )
        if len(self._inquiries) >= inquiry.INQUIRIES_MAX:
            raise Busy(f"{inquiry.INQUIRIES_MAX} questions of `why` are being answered already", retry_after=1.0)
        (backplane, name), *others = inquiry.places_of(self.director.children, name)
        has_stack = bool(asked.body.get("stack"))
        question = inquiry.WhyInquiry(backplane, name, self.now_ns(), with_stack=has_stack, others=others)
        self._inquiries.add(asked.caller)
        self._inquire(_WhyToken(asked.caller, question))

    def _inquire(self, token: _WhyToken) -> None:
        question, now_ns = token.inquiry, self.now_ns()
        while True:
            child = self.director.children.get(question.backplane)
            because = inquiry.is_down(child)
            if child is not None and because is None:
                self._call(child, "control.why", question.body, token, question.limit_ns(now_ns))
                return
            question.give_up("down", because or "")
            if not question.ask_replica(now_ns):
                break
        self._end_inquiry(token)

    def _on_told_why(self, token: _WhyToken, answered: Answered) -> None:
        question, now_ns = token.inquiry, self.now_ns()
        child = self.director.children.get(question.backplane)
        if answered.error is None:
            goes_on = question.take(answered.result, now_ns)
        else:
            try:
                health = self.director.health.of(child, self.board.read(child.name), now_ns) if child else None
                question.fail(answered.error, "dead" if health is None else health.value)
            except BackplaneError as error:
                self._inquiries.discard(token.caller)
                self.control.refuse(token.caller, error)
                return
            goes_on = question.ask_replica(now_ns)
        if goes_on:
            self._inquire(token)
        else:
            self._end_inquiry(token)

    def _end_inquiry(self, token: _WhyToken) -> None:
        self._inquiries.discard(token.caller)
        self.control.reply(token.caller, token.inquiry.answer)

    def _call(self, child: Child, route: str, body: dict[str, Any], token: object, limit_ns: int) -> None:
        peer = self.control.identities.peer_of(child.name, child.process.generation)
        self.control.call(peer, route, body, token, self.now_ns(), limit_ns)
