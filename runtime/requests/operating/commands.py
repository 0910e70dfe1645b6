"""CommandHandler: operates a kernel while it runs. Subclass it for commands of your own, and to change the system's.

The source's command handler (seed 001, section 4): "The extension implements any custom commands and replaces or extends the
functionality of any system commands". Name the class in `RequestKernel.commands`. Each command is a route of the component,
and a word of the lines that its route `command` takes. It may run by itself: by `@command(every=…)`, `@command(at=…)`, or the
policy's `schedule`. A command with an invalid argument changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from appbackplane.transport.errors import FailedPrecondition, NotFound

from ...objects.app_object import AppObject
from ...objects.operation import DeclarationError
from ..contexts.context import Context
from ..policy import KernelPolicy
from .command import CommandSpec, command, specs_of
from .ownership import LISTED_MAX, owned
from .status import LedgerView, status_of

if TYPE_CHECKING:
    from ..kernel import RequestKernel

_SWITCH = {"on": True, "off": False}

log = logging.getLogger("appbackplane.runtime")


class CommandHandler(AppObject):
    """Its methods marked with `@command` are the commands; every kernel has those defined here."""

    #: Specs by name; filled when the class is made.
    __commands__: ClassVar[dict[str, CommandSpec]] = {}

    _kernel: RequestKernel | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__commands__ = specs_of(cls)

    @property
    def component(self) -> RequestKernel:
        """The component whose commands these are. Raises `FailedPrecondition` while it is constructed."""
        if self._kernel is None:
            raise FailedPrecondition(f"{type(self).__qualname__} belongs to no kernel yet")
        return self._kernel

    @property
    def kernel(self) -> Context:
        """The context for posting and rejoining. Plain commands should not wait on it: other commands wait behind them."""
        return self.component.kernel

    def __attach__(self, kernel: RequestKernel) -> None:
        self._kernel = kernel

    # -- status -------------------------------------------------------------------------------------------------------

    @command(is_logged=False)
    def status(self) -> dict[str, Any]:
        """State of the kernel: pools, lanes, workers, rates, oldest wait, and why no request can make progress."""
        component = self.component
        sight = component._ledger.inspect(LedgerView)
        stall = component._ledger.stall
        executor = component._executor
        workers = [] if executor is None else executor.workers()
        told: dict[str, Any] = msgspec.to_builtins(
            status_of(
                sight, component.name, component._mode.state,
                held=component._ledger.is_held,
                stall=None if stall is None else stall.text,
                shortage=component._shortage_now([worker["name"] for worker in workers]) or None,
                workers=workers,
                rates=component._rates.rates(sight.figures),
                schedule=[(when.text, line) for when, line in component._lines(sight.policy)],
            )
        )  # fmt: skip
        return told

    @command(is_logged=False)
    def help(self, name: str | None = None) -> list[dict[str, str]]:
        """List all commands, or describe one."""
        specs = type(self).__commands__
        if name is not None and name not in specs:
            raise NotFound(f"{self.component.component_name} has no command {name!r:.100}")
        return [
            {"command": spec.name, "arguments": spec.signature, "does": spec.summary}
            for spec in ([specs[name]] if name is not None else specs.values())
        ]

    # -- settings -----------------------------------------------------------------------------------------------------

    @command(is_logged=False)
    def settings(self, **settings: Any) -> dict[str, Any]:
        """All settings; with arguments such as `workers=8 ready=500`, change these: all of them, or none."""
        if not settings:
            return dict(msgspec.to_builtins(self.component._ledger.policy))
        return self._changed(settings)

    @command(is_logged=False)
    def workers(self, count: int | None = None) -> dict[str, Any]:
        """The number of workers; with `count`, a new number: surplus workers finish their requests first."""
        return self._changed({"workers": count})

    @command(is_logged=False)
    def ageing(self, mode: Literal["on", "off"] | None = None, interval: float | None = None) -> dict[str, Any]:
        """Whether ready requests become more urgent by waiting, and how often, in seconds."""
        return self._changed({"ageing": None if mode is None else _SWITCH[mode], "interval": interval})

    @command(is_logged=False)
    def boost(self, amount: int | None = None) -> dict[str, Any]:
        """How much more urgent requests posted with `boost` become in addition at each interval of ageing."""
        return self._changed({"boost": amount})

    @command(is_logged=False)
    def interval(self, seconds: float | None = None) -> dict[str, Any]:
        """How often ready requests become more urgent, with ageing on."""
        return self._changed({"interval": seconds})

    @command(is_logged=False)
    def lanes(
        self, mode: Literal["on", "off"] | None = None, percents: tuple[int, int, int] | None = None
    ) -> dict[str, Any]:
        """Whether lanes are constrained; `percents` sets the shares of lanes 0 to 2, and turns it on unless `mode` is off."""
        if mode is None and percents is not None:
            mode = "on"
        return self._changed(
            {"mode": None if mode is None else "lanes" if mode == "on" else "plain", "lanes": percents}
        )

    @command(is_logged=False)
    def pools(self, ready: int | None = None, rejoin: int | None = None) -> dict[str, Any]:
        """Sizes of the ready pool and the rejoin pool. Requests beyond a new limit stay; none are added."""
        return self._changed({"ready": ready, "rejoin": rejoin})

    # -- owners -------------------------------------------------------------------------------------------------------

    @command(is_logged=False)
    def owners(self) -> list[dict[str, Any]]:
        """Owners of requests: the 100 with the most requests, those with the most ended requests first."""
        return [each.shown() for each in self.component._ledger.inspect(owned)[:LISTED_MAX]]

    @command
    def disown(self, owner: str | int) -> list[dict[str, Any]]:
        """Drop the requests of an owner: withdraw those that have not begun, and discard the results of the others."""
        component = self.component
        found = [each for each in component._ledger.inspect(owned) if each.is_called(str(owner))]
        if not found:
            raise NotFound(
                f"{component.component_name} has no requests of {owner!r:.100}; `owners` lists those that it has"
            )
        for each in found:
            component._ledger.disown(each.owner)
        return [each.shown() for each in found[:LISTED_MAX]]

    # -- operating ----------------------------------------------------------------------------------------------------

    @command
    async def quiesce(self, wait: bool = False) -> dict[str, Any]:
        """Accept no requests from outside; those already posted are executed. `wait`: until all have ended."""
        mode = self.component._mode
        mode.quiesce()
        if wait:
            await mode.ended()
        return mode.report()

    @command
    def hold(self) -> dict[str, Any]:
        """Start no ready requests; executing ones finish, and new ones are accepted while there is room."""
        self.component._mode.hold()
        return self.component._mode.report()

    @command
    async def stop(self, wait: bool = False, now: bool = False) -> dict[str, Any]:
        """Quiesce, then end the workers. `now`: start no more requests; ready ones stay, and continue after `resume`."""
        mode = self.component._mode
        mode.stop(is_now=now)
        if wait:
            await mode.ended()
        return mode.report()

    @command
    def resume(self) -> dict[str, Any]:
        """End `quiesce`, `hold` or `stop`: accept and start requests again, with the number of workers in the settings."""
        self.component._mode.resume()
        return self.component._mode.report()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _changed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the settings that are not None, at once. Returns the current values, and the previous values of those that
        changed.
        """
        component = self.component
        wanted = {name: _meant(name, value) for name, value in settings.items() if value is not None}
        if not wanted:
            now = msgspec.to_builtins(component._ledger.policy)
            return {name: now[name] for name in settings}
        before, after = component._change(wanted)
        was, now = msgspec.to_builtins(before), msgspec.to_builtins(after)
        told = {name: now[name] for name in settings}
        if changed := {name: was[name] for name in now if was[name] != now[name]}:
            told["before"] = changed
            news = ", ".join(f"{name} = {now[name]} (before: {was[name]})" for name in changed)
            log.info("%s: a command has changed %s", component.name, news)
        return told


def _meant(name: str, value: Any) -> Any:
    """True or False for "on" or "off", if the setting is a switch."""
    if value in ("on", "off") and name in _SWITCHES:
        return _SWITCH[value]
    return value


_SWITCHES = frozenset(each.name for each in msgspec.structs.fields(KernelPolicy) if each.type is bool)

CommandHandler.__commands__ = specs_of(CommandHandler)


def handler_of(cls: Any, kernel: str) -> CommandHandler:
    """An object of the class in a kernel's `commands`. Raises `DeclarationError`."""
    if not (isinstance(cls, type) and issubclass(cls, CommandHandler)):
        raise DeclarationError(f"{kernel}.commands: expected a subclass of CommandHandler, or None, got {cls!r:.100}")
    try:
        return cls()
    except Exception as error:
        raise DeclarationError(
            f"{kernel}.commands: the constructor of {cls.__qualname__} failed: {type(error).__name__}: {error}"
        ) from error
