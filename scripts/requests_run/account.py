"""Account: every request of a run, by what was written down and by what the kernel says, held against each other. Pure.

What rejoined is known by its owner, who checks it there. Of those whose owner was lost, or ended before them, nobody knows the
end: the kernel has counted them as unclaimed or withdrawn, and nothing may be left of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .records import Records


@dataclass(slots=True)
class Account:
    kind: str
    seed: int
    seconds: float = 0.0
    kills: int = 0
    #: By the kernel.
    posted: int = 0
    ended: int = 0
    joined: int = 0
    failed: int = 0
    lost: int = 0
    unclaimed: int = 0
    withdrawn: int = 0
    #: By those who executed, and by owners who have rejoined all of theirs.
    executed: int = 0
    owners: int = 0
    rejoined: int = 0
    rejoined_failed: int = 0
    rejoined_lost: int = 0
    #: These may not be.
    duplicates: int = 0
    missing: int = 0
    none_exist_violations: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Every request is accounted for."""
        return not self.problems

    def to_map(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}

    def text(self) -> str:
        lines = [
            f"{self.kind}, seed {self.seed}: {self.posted:,} requests in {self.seconds:.1f} s "
            f"({self.posted / max(self.seconds, 1e-9):,.0f}/s), {self.kills} workers killed",
            f"  posted {self.posted:,} = ended {self.ended:,} + withdrawn {self.withdrawn:,}",
            f"  ended {self.ended:,} = rejoined {self.joined:,} + unclaimed {self.unclaimed:,}; "
            f"failed {self.failed:,}, of these lost with their worker {self.lost:,}",
            f"  by their own account: executed {self.executed:,}; {self.owners:,} owners have rejoined {self.rejoined:,}, "
            f"of these failed {self.rejoined_failed:,}, lost {self.rejoined_lost:,}",
            f"  duplicates {self.duplicates}, missing {self.missing}, NONE_EXIST while one exists {self.none_exist_violations}",
        ]
        lines += [f"WRONG: {problem}" for problem in self.problems[:50]] or ["nothing is wrong"]
        return "\n".join(lines)


def account_of(kind: str, seed: int, kills: int, records: Records, told: Mapping[str, Any]) -> Account:
    """`told`: the kernel's figures, when it has come to rest."""
    account = Account(
        kind, seed, kills=kills, posted=told["posted_total"], ended=told["ended_total"], joined=told["joined_total"],
        failed=told["failed_total"], lost=told["lost_total"], unclaimed=told["unclaimed_total"],
        withdrawn=told["withdrawn_total"], executed=len(records.begun), owners=len(records.owned),
    )  # fmt: skip
    problems = account.problems
    for name, owned in records.owned.items():
        account.rejoined += owned.rejoined
        account.rejoined_failed += owned.failed
        account.rejoined_lost += owned.lost
        if owned.rejoined != records.posted[name]:
            account.missing += records.posted[name] - owned.rejoined
            problems.append(f"{name} has posted {records.posted[name]}, and {owned.rejoined} have rejoined")
    for name, count in records.begun.items():
        if count > 1:
            account.duplicates += 1
            problems.append(f"{name} was executed {count} times")
    account.none_exist_violations = sum("NONE_EXIST" in violation for violation in records.violations)
    problems += records.violations
    _check_figures(account, told)
    _check_both(account, records)
    return account


def _check_figures(account: Account, told: Mapping[str, Any]) -> None:
    """What the kernel says in itself."""
    left = {name: told[name] for name in ("executing", "blocked", "posting", "owners") if told[name]}
    left |= {name: told[name] for name in ("ready", "executing_lanes", "rejoinable") if any(told[name])}
    if left:
        account.problems.append(f"the kernel is not empty when all has rejoined: {left}")
    if account.posted != account.ended + account.withdrawn:
        account.problems.append("posted is not ended + withdrawn")
    if account.ended != account.joined + account.unclaimed:
        account.problems.append("ended is not rejoined + unclaimed")


def _check_both(account: Account, records: Records) -> None:
    """What the kernel says, and what those say who executed and rejoined."""
    said_posted = sum(records.posted.values())
    if account.posted > said_posted or (account.posted < said_posted and not account.lost):
        account.problems.append(f"the kernel counts {account.posted} posted, their owners {said_posted}")
    if account.joined < account.rejoined or (
        account.joined > account.rejoined and not (account.lost or account.unclaimed)
    ):
        account.problems.append(f"the kernel counts {account.joined} rejoined, their owners {account.rejoined}")
    if account.rejoined_lost > account.lost:
        account.problems.append(
            f"{account.rejoined_lost} were told that they are lost, the kernel counts {account.lost}"
        )
    if account.lost and not account.kills:
        account.problems.append(f"{account.lost} are lost, and nobody was killed")
    unfinished = sum(1 for name in records.begun if name not in records.ended)
    if unfinished > account.lost:
        account.problems.append(f"{unfinished} executions have not ended, and {account.lost} are lost")
    if account.executed > account.ended:
        account.problems.append(f"{account.executed} were executed, and {account.ended} have ended")
