"""Inquiry: one `why`, followed from backplane to backplane until the chain of reasons ends; of replicas from each. Pure.

Each backplane explains its own part and names the next call, with the backplane that holds it
(execution/services/inspection.py). Sentinels answer, so busy workers do not matter. Bounded: hops, time for each hop, and no
call twice. Where a chain cannot be followed, the last step gives the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from appbackplane.transport.addressing import BACKPLANE
from appbackplane.transport.errors import BackplaneError, InvalidArgument, NotFound

from ..direction.child.child import Child
from ..direction.plan import hint

#: Backplanes asked for one question. A longer chain of calls is a question for the architect.
HOPS_MAX = 16
#: Time for each hop: a sentinel answers within an iteration. For all hops: less than the caller's own time-out.
HOP_LIMIT_NS, LIMIT_NS = 2_000_000_000, 8_000_000_000
#: Questions in progress at one time.
INQUIRIES_MAX = 64


class WhyInquiry:
    """State of one question: the steps so far, and the next hop (`backplane`, `asked`)."""

    def __init__(
        self, backplane: str, asked: str, now_ns: int, *, with_stack: bool, others: Sequence[tuple[str, str]] = ()
    ) -> None:
        """`others`: further replicas to ask, one after the other."""
        self.backplane, self.asked = backplane, asked
        self._others, self._is_of_replicas = list(others), bool(others)
        self.with_stack = with_stack
        self._ends_ns = now_ns + LIMIT_NS
        self._steps: list[dict[str, Any]] = []
        self._seen = {asked}

    @property
    def body(self) -> dict[str, Any]:
        """Body of the `control.why` call."""
        return {"asked": self.asked, "stack": self.with_stack}

    @property
    def answer(self) -> dict[str, Any]:
        """Result for the caller. Idle replicas are listed only if all are idle."""
        busy = [step for step in self._steps if not _is_idle(step)] if self._is_of_replicas else None
        return {"steps": busy or self._steps}

    def limit_ns(self, now_ns: int) -> int:
        """Time that this backplane may take."""
        return max(0, min(HOP_LIMIT_NS, self._ends_ns - now_ns))

    def take(self, told: Mapping[str, Any], now_ns: int) -> bool:
        """Take a backplane's reply. True: there is a next hop."""
        self._steps += told["steps"]
        following = told["next"]
        return (following is not None and self._follow(following, now_ns)) or self.ask_replica(now_ns)

    def ask_replica(self, now_ns: int) -> bool:
        """This replica's chain has ended or failed: go on to the next. True: there is one."""
        if not self._others or now_ns >= self._ends_ns:
            return False
        self.backplane, self.asked = self._others.pop(0)
        self._seen = {self.asked}
        return True

    def _follow(self, following: Mapping[str, str], now_ns: int) -> bool:
        backplane, asked = following["backplane"], following["call"]
        if asked in self._seen:
            return False
        self.backplane, self.asked = backplane, asked
        if len(self._seen) == HOPS_MAX or now_ns >= self._ends_ns:
            self.give_up("bound", f"the chain is followed no further than {asked}, after {len(self._seen)} backplanes")
            return False
        self._seen.add(asked)
        return True

    def fail(self, error: BackplaneError, health: str) -> None:
        """The backplane did not answer. Raises `error` if the question itself is at fault."""
        if isinstance(error, (NotFound, InvalidArgument)) and not self._steps:
            raise error
        text = f"backplane {self.backplane} does not answer (health: {health}): {error.message}"
        self.give_up("no_answer", text)

    def give_up(self, because: str, text: str) -> None:
        """Note why the chain cannot be followed to its end."""
        reason = {"because": because, "text": text}
        self._steps.append({"backplane": self.backplane, "asked": self.asked, "reasons": [reason]})


def is_down(child: Child | None) -> str | None:
    """Why a backplane cannot be asked; None: it can."""
    if child is None:
        return "there is no such backplane"
    if child.process.is_movable:
        return None
    reason = child.history.reason
    return f"backplane {child.name} is {child.process.phase}" + (f": {reason}" if reason else "")


def _is_idle(step: Mapping[str, Any]) -> bool:
    return bool(step["reasons"]) and all(reason["because"] == "idle" for reason in step["reasons"])


def places_of(children: Mapping[str, Child], asked: str) -> list[tuple[str, str]]:
    """(backplane, the subject's name there), for a route or a component one of each replica. Raises `NotFound`.

    `asked`: an object BACKPLANE/…, a call BACKPLANE:…, a route, or the bare name of a component.
    """
    ends = [at for at in (asked.find("/"), asked.find(":")) if at > 0]
    if ends:
        backplane = asked[: min(ends)]
        if backplane in children:
            return [(backplane, asked)]
        raise NotFound(f"no backplane {backplane!r}{hint(backplane, children)}")
    words = asked.split(".")
    if words[0] == BACKPLANE and len(words) == 3 and words[1] in children:
        return [(words[1], asked)]
    known: dict[str, list[tuple[str, str]]] = {}
    for child in children.values():
        for component in child.components.entries:
            known.setdefault(component.name, []).append((child.name, f"{child.name}/{component.name}"))
            for operation in component.operations:
                known.setdefault(operation.route, []).append((child.name, operation.route))
    if asked not in known:
        raise NotFound(
            f"{asked!r} is no object (BACKPLANE/COMPONENT.KEY), call (BACKPLANE:CALLER:NUMBER) or route"
            f"{hint(asked, known)}"
        )
    return known[asked]
