"""A rule's decisions, the slow and obvious way: everything that has ever happened is kept, and looked through each time."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ModelTrigger:
    """A trigger and what has become of it: held, waiting, running, ended, or skipped."""

    number: int
    key: str | None
    hops: int
    at_ns: int
    state: str = "new"
    taken_ns: int | None = None


@dataclass
class RuleModel:
    """One rule."""

    mode: str
    debounce_ns: int
    cooldown_ns: int
    hops_max: int
    queued_max: int
    parallel_max: int
    is_enabled: bool = True
    history: list[ModelTrigger] = field(default_factory=list)

    def those(self, state: str) -> list[ModelTrigger]:
        """The triggers in a state, the oldest first."""
        return [each for each in self.history if each.state == state]

    def is_used(self, key: str | None) -> bool:
        """Whether a trigger with this key was taken up."""
        return key is not None and any(each.key == key and each.taken_ns is not None for each in self.history)

    def trigger(self, number: int, key: str | None, hops: int, now_ns: int) -> None:
        new = ModelTrigger(number, key, hops, now_ns)
        self.history.append(new)
        if not self.is_enabled or hops >= self.hops_max or self.is_used(key):
            new.state = "skipped"
        elif self.debounce_ns:
            for held in self.those("held"):
                held.state = "skipped"
            new.state = "held"
        else:
            self.take(new, now_ns)

    def take(self, new: ModelTrigger, now_ns: int) -> None:
        """Its time has come."""
        taken = [each.taken_ns for each in self.history if each.taken_ns is not None]
        running = self.those("running")
        is_early = self.cooldown_ns and taken and now_ns - max(taken) < self.cooldown_ns
        if self.is_used(new.key) or is_early or (running and self.mode == "single"):
            new.state = "skipped"
        elif running and self.mode == "queued":
            new.state = "waiting" if len(self.those("waiting")) < self.queued_max else "skipped"
        elif self.mode == "parallel" and len(running) >= self.parallel_max:
            new.state = "skipped"
        else:
            if self.mode == "restart":
                for each in running:
                    each.state = "stopped"
            new.state = "running"
        if new.state != "skipped":
            new.taken_ns = now_ns

    def pass_time(self, now_ns: int) -> None:
        """The clock shows `now_ns`."""
        for held in self.those("held"):
            if now_ns >= held.at_ns + self.debounce_ns:
                self.take(held, now_ns)

    def end(self, number: int) -> None:
        """A run has ended."""
        for each in self.history:
            if each.number == number:
                each.state = "ended"
        waiting = self.those("waiting")
        if waiting and not self.those("running"):
            waiting[0].state = "running"

    def disable(self) -> None:
        self.is_enabled = False
        for each in self.those("waiting") + self.those("held"):
            each.state = "skipped"
