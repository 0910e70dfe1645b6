"""Components: the registration of a backplane, the state of each component, and the hooks that run or have failed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import ComponentEntry, Registration

from ...configuration.config import RestartPolicy
from ..restart import Random, RestartHistory, StartAgain, Verdict, after_failure


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A component's hook that failed, or has not ended in time."""

    to: ModuleState
    reason: str
    since_ns: int
    #: When it is retried; None: the retry is running, or it has been given up.
    retry_ns: int | None = None
    #: It is not retried automatically.
    is_given_up: bool = False


@dataclass(slots=True)
class ComponentStates:
    """The components of one backplane, by name."""

    #: Of the last generation that registered: its routes stay in the routing table while it is down.
    registration: Registration | None = None
    #: The configuration has changed: its next generation may register other routes.
    is_outdated: bool = False
    states: dict[str, ModuleState] = field(default_factory=dict)
    moving: dict[str, ModuleState] = field(default_factory=dict)
    #: The time limit of each running hook, on the way up only.
    hooks_due_ns: dict[str, int] = field(default_factory=dict)
    failures: dict[str, HookFailure] = field(default_factory=dict)
    #: The retries of each component's hooks.
    hook_histories: dict[str, RestartHistory] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[ComponentEntry, ...]:
        """The components as registered; empty before the first registration."""
        return () if self.registration is None else self.registration.components

    @property
    def has_begun(self) -> bool:
        """Whether any of them has left `start`, or is leaving it."""
        return bool(self.moving) or any(state is not ModuleState.START for state in self.states.values())

    @property
    def is_rising(self) -> bool:
        """Whether a hook on the way up is running."""
        return any(to is not ModuleState.DOWN for to in self.moving.values())

    @property
    def is_moving_in_time(self) -> bool:
        """Whether a hook is running within its time limit. On the way down, hooks have none here."""
        return bool(self.hooks_due_ns) or any(to is ModuleState.DOWN for to in self.moving.values())

    def refuses(self, component: str) -> ModuleState | None:
        """The state whose hook has failed, and is not to be tried now; None: there is none."""
        failure = self.failures.get(component)
        return failure.to if failure is not None and (failure.is_given_up or failure.retry_ns is not None) else None

    def register(self, registration: Registration) -> None:
        """Begin anew: all components of a new process are at `start`."""
        self.registration, self.is_outdated = registration, False
        self.states = {component.name: ModuleState.START for component in registration.components}
        self._forget_hooks()

    def outdate(self) -> None:
        """Note that the configuration has changed since they registered."""
        self.is_outdated = True

    def begin_move(self, component: str, to: ModuleState, due_ns: int | None) -> None:
        """Note that a hook has begun. `due_ns`: its time limit; None: it goes down, and another limit counts."""
        self.moving[component] = to
        if due_ns is not None:
            self.hooks_due_ns[component] = due_ns

    def end_move(self, component: str) -> tuple[ModuleState, bool]:
        """Note that a hook has succeeded: its failures and, above initializing, its retries are forgotten.

        Returns the component's new state, and whether it had failed before.
        """
        self.states[component] = to = self._end_hook(component)
        if to is not ModuleState.INITIALIZING:
            self.hook_histories.pop(component, None)
        return to, self.failures.pop(component, None) is not None

    def fail_move(self, component: str, reason: str, now_ns: int) -> HookFailure:
        """Note that a hook has raised. On the way down, the component is down all the same."""
        failure = self.failures[component] = HookFailure(self._end_hook(component), reason, now_ns)
        if failure.to is ModuleState.DOWN:
            self.states[component] = failure.to
        return failure

    def judge_failure(self, component: str, policy: RestartPolicy, now_ns: int, random: Random) -> Verdict:
        """Plan the retry of a hook that has raised, or give it up."""
        history = self.hook_histories.get(component, RestartHistory())
        self.hook_histories[component], verdict = after_failure(history, policy, now_ns, random)
        retry_ns = verdict.at_ns if isinstance(verdict, StartAgain) else None
        self.failures[component] = replace(self.failures[component], retry_ns=retry_ns, is_given_up=retry_ns is None)
        return verdict

    def overdue(self, now_ns: int) -> list[str]:
        """The components whose hooks exceed their time limits."""
        return [name for name, due_ns in self.hooks_due_ns.items() if due_ns <= now_ns]

    def give_up_hook(self, component: str, reason: str, now_ns: int) -> HookFailure:
        """Note that a hook exceeds its time limit. It still runs; if it ends after all, that counts."""
        del self.hooks_due_ns[component]
        self.failures[component] = HookFailure(self.moving[component], reason, now_ns, is_given_up=True)
        return self.failures[component]

    def begin_retries(self, now_ns: int) -> None:
        """Allow the moves of failed hooks whose retries are due."""
        for name, failure in self.failures.items():
            if failure.retry_ns is not None and failure.retry_ns <= now_ns:
                self.failures[name] = replace(failure, retry_ns=None)

    def forget_failure(self, component: str) -> None:
        """Forget a failure and its retries, so that the hook is tried at once; not while it still runs."""
        if component not in self.moving:
            self.failures.pop(component, None)
            self.hook_histories.pop(component, None)

    def forget_retries(self) -> None:
        """Forget the retries of all hooks."""
        self.hook_histories = {}

    def die(self) -> None:
        """Note that their process is dead."""
        self.states = dict.fromkeys(self.states, ModuleState.DOWN)
        self._forget_hooks()

    def _end_hook(self, component: str) -> ModuleState:
        self.hooks_due_ns.pop(component, None)
        return self.moving.pop(component)

    def _forget_hooks(self) -> None:
        self.moving, self.hooks_due_ns, self.failures = {}, {}, {}
