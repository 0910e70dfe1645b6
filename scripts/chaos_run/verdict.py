"""Verdict: everything that a run has found, and whether it holds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from .census import differences

#: What somebody who has lived through it all may have grown by, from the census after the warm-up to the last one, however many
#: died in between: the pages of allocators. 500 deaths: the supervisor 0.2 MiB, backplanes 0.6, clients 0.5. A connection that
#: is kept is 59 KiB, a generation's log ring 1 MiB.
GROWN_BYTES_MAX: Final = 2 << 20


@dataclass(slots=True)
class Verdict:
    seed: int
    seconds: float
    moves: Counter[str] = field(default_factory=Counter)
    #: Operation to ending to how many, of all clients that came to their end.
    ends: dict[str, Counter[str]] = field(default_factory=dict)
    issued: int = 0
    heard: int = 0
    lost: int = 0
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    #: Worth knowing, and not wrong.
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    def take_clients(self, said: Mapping[str, Mapping[str, Any]]) -> None:
        """What the clients say at their end."""
        for name, answer in said.items():
            self.problems += [f"client {name}: {problem}" for problem in answer["problems"]]
            self.issued += answer.get("issued", 0)
            self.heard += answer.get("heard", 0)
            self.lost += answer.get("lost", 0)
            for operation, ends in answer.get("ends", {}).items():
                self.ends.setdefault(operation, Counter()).update(ends)

    def take_counts(self, before: dict[str, Any], after: dict[str, Any], who: Iterable[str] = ("supervisor",)) -> None:
        """A census before, and one after. `who` has lived through everything in between, and should not have grown."""
        self.before, self.after = before, after
        self.problems += [f"not as it was: {line}" for line in differences(before, after)]
        self.problems += grown(before, after, who)

    def to_map(self) -> dict[str, Any]:
        counters = {"moves": dict(self.moves), "ends": {name: dict(ends) for name, ends in self.ends.items()}}
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**plain, **counters, "holds": self.holds}

    def text(self) -> str:
        lines = [f"seed {self.seed}, {self.seconds:g} s", f"moves: {in_words(self.moves)}"]
        lines += [f"generations: {in_words(self.generations)}", f"calls: {self.issued:,}"]
        lines += [f"  {operation:<10} {in_words(ends)}" for operation, ends in sorted(self.ends.items())]
        lines.append(f"topics: {self.heard:,} messages heard, {self.lost:,} missed and told")
        if self.after:
            grown_kib = (self.after["memory"]["supervisor"] - self.before["memory"]["supervisor"]) / 1024
            lines.append(f"supervisor: {grown_kib:+,.0f} KiB, fds {sum(self.after['fds']['supervisor'].values())}")
        lines += self.notes
        lines += [f"WRONG: {problem}" for problem in self.problems] or ["nothing is wrong"]
        return "\n".join(lines)


def grown(before: Mapping[str, Any], after: Mapping[str, Any], who: Iterable[str]) -> list[str]:
    """Memory that is not where it was."""
    by = {name: after["memory"][name] - before["memory"][name] for name in who}
    return [f"{name} has grown by {bytes:,} bytes" for name, bytes in by.items() if bytes >= GROWN_BYTES_MAX]


def in_words(counts: Mapping[str, int]) -> str:
    """The largest first."""
    return ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items(), key=lambda each: -each[1]))
