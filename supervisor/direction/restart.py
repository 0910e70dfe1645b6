"""Restart: whether a dead backplane restarts, when, and which others restart with it. Erlang/OTP's rules.

Three answers. `type`: is it to be restarted at all? Intensity (`max` restarts `within` a period): is restarting of any use?
Backoff: how much of the machine may a crash loop cost? The first restart is immediate, because most deaths are single. Then
the wait doubles. It is shortened by up to a half at random, so that backplanes that died of one cause return at different
times. It starts anew once a process was up long enough to count as healthy (DESIGN 12.10). `strategy` names the others that
restart, too. A failed hook is judged by the same rules, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from ..configuration.config import RestartPolicy
from .graph import reached

#: Returns a number between 0 and 1, like `random.random`: a parameter, as time is.
Random = Callable[[], float]
#: A wait doubles no more often than this: even a longest wait of thirty years is reached before.
_DOUBLINGS_MAX = 32


class StartAgain(msgspec.Struct, frozen=True):
    """Verdict: restart it (or retry the hook) at `at_ns`."""

    at_ns: int


class LeaveEnded(msgspec.Struct, frozen=True):
    """Verdict: do not restart it. It is `temporary`, or `transient` and exited with code 0."""

    because: str


class GiveUp(msgspec.Struct, frozen=True):
    """Verdict: it died more often than its policy allows; `on_give_up` decides the consequence."""

    because: str


Verdict = StartAgain | LeaveEnded | GiveUp


class RestartHistory(msgspec.Struct, frozen=True):
    """The restarts of one backplane that still count."""

    #: The times of restarts within the period, oldest first.
    restarts_ns: tuple[int, ...] = ()
    #: Deaths in a row without having been healthy in between.
    in_a_row: int = 0

    # `up_ns`: how long it had been up, with its components in their role; 0: it never was.
    def after_death(
        self, policy: RestartPolicy, up_ns: int, now_ns: int, random: Random
    ) -> tuple[RestartHistory, int | None]:
        """The new history, and when to restart; None: give up."""
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
    """Whether its type asks for a restart. `is_normal`: it exited by itself, with code 0."""
    return policy.type == "permanent" or (policy.type == "transient" and not is_normal)


def after_end(
    history: RestartHistory, policy: RestartPolicy, *, is_normal: bool, up_ns: int, now_ns: int, random: Random
) -> tuple[RestartHistory, Verdict]:
    """The new history, and the verdict on a backplane that ended without an order."""
    if not is_wanted_back(policy, is_normal=is_normal):
        how = "" if policy.type == "temporary" else " and exited with code 0"
        return history, LeaveEnded(f"it is {policy.type}{how}: not restarted")
    history, at_ns = history.after_death(policy, up_ns, now_ns, random)
    return history, GiveUp(sentence(policy)) if at_ns is None else StartAgain(at_ns)


def after_failure(
    history: RestartHistory, policy: RestartPolicy, now_ns: int, random: Random
) -> tuple[RestartHistory, Verdict]:
    """The new history, and the verdict on a component whose hook has failed. `history`: that of the component's hooks."""
    if policy.type == "temporary":
        return history, LeaveEnded("it is temporary, so its hook is not tried again")
    history, at_ns = history.after_death(policy, 0, now_ns, random)
    return history, GiveUp(sentence(policy, "further tries")) if at_ns is None else StartAgain(at_ns)


def group(policy: RestartPolicy, backplane: str, dependants: Mapping[str, Collection[str]]) -> set[str]:
    """The other backplanes that have to restart with `backplane`. `dependants`: the direct dependents of each.

    OTP's `rest_for_one` restarts all children listed later. Here dependencies are declared, so only its direct and indirect
    dependents restart, and no others are disturbed.
    """
    if policy.strategy == "one_for_one":
        return set()
    if policy.strategy == "one_for_all":
        return set(dependants) - {backplane}
    return set(reached(dependants[backplane], dependants.__getitem__)) - {backplane}


def sentence(policy: RestartPolicy, what: str = "restarts") -> str:
    """The reason for giving up, for `status` and the log."""
    if policy.max == 0:
        return "restarts are off (restart.max = 0)"
    return f"{policy.max} {what} within {policy.within_ns / 1e9:g} s were not enough"
