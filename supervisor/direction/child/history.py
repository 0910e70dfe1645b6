"""History: the service time of a backplane, the reason of its last death, and the restarts that count."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...configuration.config import RestartPolicy
from ..restart import Random, RestartHistory, Verdict, after_end


@dataclass(slots=True)
class ServiceHistory:
    """The service and the deaths of one backplane."""

    #: The reason of its last death or failure; kept after a restart, for display.
    reason: str | None = None
    #: It has not been up since it died.
    has_died: bool = False
    #: How often it has died without an order, or could not be started.
    deaths_count: int = 0
    #: When all its components had reached their targets; None: they have not.
    up_since_ns: int | None = None
    #: Any of its generations has been up.
    has_been_up: bool = False
    restarts: RestartHistory = field(default_factory=RestartHistory)

    def see_up(self, now_ns: int) -> None:
        """Note that all its components have reached their targets."""
        self.up_since_ns, self.has_been_up, self.has_died = now_ns, True, False

    def note(self, reason: str) -> None:
        """Note the reason why it is killed, has exited, or stays down."""
        self.reason = reason

    def die(self, reason: str) -> None:
        """Note that it died without an order."""
        self.reason, self.has_died = reason, True
        self.deaths_count += 1

    def exited(self, now_ns: int) -> int:
        """Note that its process is dead. Returns how long it had been up, in ns; 0 if it never was."""
        up_ns = 0 if self.up_since_ns is None else now_ns - self.up_since_ns
        self.up_since_ns = None
        return up_ns

    def judge_end(self, policy: RestartPolicy, *, is_normal: bool, up_ns: int, now_ns: int, random: Random) -> Verdict:
        """Count an end without an order, and judge it by the policy."""
        self.restarts, verdict = after_end(
            self.restarts, policy, is_normal=is_normal, up_ns=up_ns, now_ns=now_ns, random=random
        )
        return verdict

    def forget_restarts(self) -> None:
        """Begin to count anew, because a person has ordered a start."""
        self.restarts = RestartHistory()
