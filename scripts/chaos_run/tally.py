"""Tally: how a client's calls ended, and which endings no chaos excuses. Pure.

Every call ends exactly once, in its reply or in a status. Processes that die excuse PEER_DOWN and UNAVAILABLE, a full one
RESOURCE_EXHAUSTED; a deadline excuses itself only where it was short: what was given PATIENCE_S and ends by its deadline was
lost by somebody. INTERNAL, or an answer to another question, nothing excuses.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from appbackplane.transport import BackplaneError

from .components import PARTS, WORKERS_COUNT

#: Of a call that is to be answered whatever happens: many times as long as any move lasts.
PATIENCE_S: Final = 20.0
#: How much later than its deadline a call may end, on a machine that is busy with much else, and with processes stopped.
LATE_S_MAX: Final = 5.0
#: Kept of what is wrong: the first is the one to look at.
PROBLEMS_MAX: Final = 20
#: Of a heavy call: small, large enough to be handed over uncopied (link.LARGE_BYTES), and as large as a frame almost.
LOADS_BYTES: Final = (10, 100_000, 900_000)
EXCUSED: Final = frozenset({"reply", "PEER_DOWN", "UNAVAILABLE", "RESOURCE_EXHAUSTED"})


@dataclass(frozen=True, slots=True)
class Question:
    """A call to be made: the same number must come back."""

    route: str
    number: int
    arguments: dict[str, Any]
    key: str | None = None
    timeout: float = PATIENCE_S
    #: Whether its caller takes it back.
    is_taken_back: bool = False

    @property
    def excused(self) -> frozenset[str]:
        """The endings that it may have."""
        also = {"DEADLINE_EXCEEDED"} if self.timeout < PATIENCE_S else set()
        return EXCUSED | also | ({"CANCELLED"} if self.is_taken_back else set())

    @property
    def is_repeatable(self) -> bool:
        """Not where order is looked for: what is tried again comes after what was asked later."""
        return not self.route.endswith(".note")

    def __str__(self) -> str:
        return f"{self.route} number {self.number}" + (f" key {self.key}" if self.key else "")


@dataclass(slots=True)
class Tally:
    issued: int = 0
    ended: int = 0
    ends: dict[str, Counter[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.issued += 1

    def end(self, question: Question, answer: Any, error: BackplaneError | None, took_s: float) -> None:
        """It has ended, so long after it began."""
        self.ended += 1
        how = "reply" if error is None else error.status.name
        operation = question.route.rpartition(".")[2]
        self.ends.setdefault(operation, Counter())[how] += 1
        if how not in question.excused:
            self.note(f"{question}: {error!r} after {took_s:.1f} s")
        elif error is None and answer != question.number:
            self.note(f"{question}: the answer to another question, {answer!r}")
        elif took_s > question.timeout + LATE_S_MAX:
            self.note(f"{question}: {how} after {took_s:.1f} s, its deadline was {question.timeout} s")

    def note(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    @property
    def excused_late(self) -> int:
        """Calls that have ended without their answer, which may still come."""
        return sum(count for ends in self.ends.values() for how, count in ends.items() if how != "reply")

    def to_map(self) -> dict[str, Any]:
        return {"issued": self.issued, "ended": self.ended, "ends": self.ends, "problems": self.problems}


def questions(client: str, dice: random.Random, loads: Sequence[int] = LOADS_BYTES) -> Iterator[Question]:
    """What a client asks, without end; its numbers grow. `loads`: the bytes of its heavy calls."""
    number = 0
    while True:
        number += 1
        place = dice.randrange(len(PARTS))
        part, below = PARTS[place], PARTS[place + 1 :]
        kind = dice.random()
        if kind < 0.40:
            yield Question(f"{part}.echo", number, {})
        elif kind < 0.65:
            key = f"worker-{dice.randrange(WORKERS_COUNT)}"
            yield Question(f"{part}.note", number, {"client": client}, key)
        elif kind < 0.80:
            # Downwards only: objects that wait for each other in a ring of calls, each of them for one that is queued behind
            # another's, wait until the deadline. That is their author's doing, and nothing of ours would be seen behind it.
            path = sorted(dice.sample(below, dice.randint(0, len(below))), key=PARTS.index)
            yield Question(f"{part}.relay", number, {"path": path})
        elif kind < 0.85 and below:
            yield Question(f"{part}.ask_twice", number, {"other": dice.choice(below)})
        elif kind < 0.88:
            yield Question(f"{part}.grind", number, {"milliseconds": dice.randint(1, 20)})
        elif kind < 0.91:
            yield Question(f"{part}.block", number, {"milliseconds": dice.randint(1, 30)})
        elif kind < 0.95:
            yield Question(f"{part}.hold", number, {"milliseconds": dice.randint(1, 300)})
        elif kind < 0.96:
            yield Question(f"{part}.weigh", number, {"load": bytes(dice.choice(loads))})
        elif kind < 0.98:
            yield Question(f"{part}.hold", number, {"milliseconds": 200}, timeout=dice.uniform(0.001, 0.25))
        else:
            yield Question(f"{part}.hold", number, {"milliseconds": 50}, is_taken_back=True)
