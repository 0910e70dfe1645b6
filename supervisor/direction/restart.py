"""Restart: whether a backplane that died starts again, when, and who has to start again with it. Erlang/OTP's rules.

Three answers. `type`: is it wanted back at all? Intensity (`max` restarts `within` a period): is restarting any use?
Backoff: how much of the machine may a crash loop cost? The first restart is immediate, because most deaths are single;
the wait then doubles, is shortened by up to a half at random, so that those who died of one cause do not come back at one
instant, and starts anew once a process was up long enough to be called healthy (DESIGN 12.10). `strategy` says who else
starts again. A hook that fails is judged by the same rules, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..config import RestartPolicy

#: Between 0 and 1, as `random.random` gives it: a parameter, like time.
Random = Callable[[], float]
#: A wait doubles no more often than this: a longest wait of thirty years is reached before.
_DOUBLINGS_MAX = 32


@dataclass(frozen=True, slots=True)
class StartAgain:
    """It is started again, at this time."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class LeaveEnded:
    """Its end is none of anybody's concern: it was `temporary`, or `transient` and ended well."""

    because: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It died more often than its policy bears: what was to follow, `on_give_up` says."""

    because: str


Verdict = StartAgain | LeaveEnded | GiveUp


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """The restarts of one backplane that still count."""

    #: When it was restarted, oldest first; those within the period.
    restarts_ns: tuple[int, ...] = ()
    #: Deaths in a row before it was healthy.
    in_a_row: int = 0

    # `up_ns`: how long it had been up, its components in their role; 0 when it never was.
    def after_death(
        self, policy: RestartPolicy, up_ns: int, now_ns: int, random: Random
    ) -> tuple[RestartHistory, int | None]:
        """The history from now on, and when to start again; None: give up."""
        recent = tuple(at_ns for at_ns in self.restarts_ns if at_ns >= now_ns - policy.within_ns)
        if len(recent) >= policy.max:
            return RestartHistory(recent, self.in_a_row), None
        in_a_row = 0 if up_ns >= policy.healthy_after_ns else self.in_a_row
        wait_ns = 0
        if in_a_row:
            wait_ns = min(policy.backoff_max_ns, policy.backoff_ns << min(in_a_row - 1, _DOUBLINGS_MAX))
            wait_ns -= int(random() * (wait_ns // 2))
        return RestartHistory((*recent, now_ns), in_a_row + 1), now_ns + wait_ns


def is_wanted_back(policy: RestartPolicy, *, is_normal: bool) -> bool:
    """By its type. `is_normal`: it ended by itself, with exit code 0."""
    return policy.type == "permanent" or (policy.type == "transient" and not is_normal)


def after_end(
    history: RestartHistory, policy: RestartPolicy, *, is_normal: bool, up_ns: int, now_ns: int, random: Random
) -> tuple[RestartHistory, Verdict]:
    """What becomes of a backplane that ended without having been told to."""
    if not is_wanted_back(policy, is_normal=is_normal):
        how = "and" if policy.type == "temporary" else "and ended well, and is"
        return history, LeaveEnded(f"it is {policy.type}, {how} not started again")
    history, at_ns = history.after_death(policy, up_ns, now_ns, random)
    return history, GiveUp(sentence(policy)) if at_ns is None else StartAgain(at_ns)


def after_failure(
    history: RestartHistory, policy: RestartPolicy, now_ns: int, random: Random
) -> tuple[RestartHistory, Verdict]:
    """What becomes of a component whose hook has failed: tried again, or given up. `history`: its own."""
    if policy.type == "temporary":
        return history, LeaveEnded("it is temporary, and not tried again")
    history, at_ns = history.after_death(policy, 0, now_ns, random)
    return history, GiveUp(sentence(policy, "further tries")) if at_ns is None else StartAgain(at_ns)


def group(policy: RestartPolicy, backplane: str, dependants: Mapping[str, Collection[str]]) -> set[str]:
    """The others that have to start again with `backplane`. `dependants`: to each, those that depend on it directly.

    OTP's `rest_for_one` goes by the order in which children were listed; where dependencies are declared, those who
    were started after it because they need it are known, and nobody else is disturbed.
    """
    if policy.strategy == "one_for_one":
        return set()
    if policy.strategy == "one_for_all":
        return set(dependants) - {backplane}
    found: set[str] = set()
    ahead = [backplane]
    while ahead:
        news = set(dependants[ahead.pop()]) - found
        found |= news
        ahead += news
    return found - {backplane}


def sentence(policy: RestartPolicy, what: str = "restarts") -> str:
    """Why it was given up, for whoever reads the status."""
    if policy.max == 0:
        return "it is not to be restarted (restart.max = 0)"
    return f"{policy.max} {what} within {policy.within_ns / 1e9:g} s were not enough"
