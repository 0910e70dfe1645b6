"""Command routes: how commands reach a kernel's handler: by a route each, by lines of words, by the clock.

`index.workers` takes arguments, `index.command` a line, `workers 4`; both make the same action of it, on the handler. Plain
commands run one at a time, in order (law 1); `async` ones, which may wait for minutes, run beside them and each other.
Commands have the highest priority and do not count among the component's requests, so that a kernel full of work can still be
stopped; their number is bounded, too. An operation of the user's with the same name wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from appbackplane.transport.errors import BackplaneError, Busy, FailedPrecondition, InvalidArgument, text_of

from ...execution.actions.method_action import MethodAction
from ...objects.action import Action
from ...objects.app_object import AppObject
from ...objects.endpoint import Endpoint, Request
from ...objects.operation import DeclarationError
from . import schedule
from .command import CommandSpec, parsed
from .schedule import Schedule, When

if TYPE_CHECKING:
    from ..kernel import RequestKernel
    from .commands import CommandHandler

#: Route of lines, under the component's name.
LINE: Final = "command"
#: Summary of that route. `appbackplane requests` recognises a kernel by it, among all routes.
LINE_SUMMARY: Final = "Run a command, such as `workers 4`; `help` lists all commands."
PRIORITY: Final = 0
STATES: Final = ("initializing", "primary", "secondary")
#: Commands that may be outstanding, plain and `async` ones each: an operator asks for a few.
OUTSTANDING_MAX: Final = 100
#: Characters of an outcome in the log, at most.
LOGGED_MAX: Final = 500

log = logging.getLogger("appbackplane.runtime")


class CommandRoutes:
    def __init__(self, kernel: RequestKernel, handler: CommandHandler, specs: Mapping[str, CommandSpec]) -> None:
        """Adds the routes. Call before the backplane reads the component's routes. Raises `DeclarationError`."""
        self._kernel = kernel
        self.handler = handler
        self.specs = specs
        #: Objects on which `async` commands have run, free for others.
        self._free: list[AppObject] = []
        #: Outstanding plain commands, and `async` ones: a hundred of these that wait must not keep out `resume`.
        self._outstanding_counts = [0, 0]
        taken = _names_of(kernel)
        if LINE in taken:
            raise DeclarationError(
                f"{type(kernel).__qualname__}: {LINE!r} is the route by which its commands come: give the operation another "
                "name, or have no commands (commands = None)"
            )
        handler.__attach__(kernel)
        kernel.add(handler, key="commands")
        kernel.expose(_LineEndpoint(self))
        for spec in specs.values():
            if spec.name not in taken and spec.name != LINE:
                kernel.expose(_CommandEndpoint(self, spec))

    @property
    def name(self) -> str:
        """The component's name: the first word of its routes."""
        return self._kernel.component_name

    def lines_of(self, said: Schedule) -> list[tuple[When, str]]:
        """The (time, line) pairs of the class's own commands and of a schedule. Raises ValueError, `BackplaneError`."""
        found = [(spec.mark.when, spec.name) for spec in self.specs.values() if spec.mark.when is not None]
        for when, line in schedule.lines_of(said):
            self.prepare(line)
            found.append((when, line))
        return found

    def check(self, said: Schedule) -> None:
        """Raises `InvalidArgument` for a schedule with an unknown command, or one with arguments that do not fit."""
        try:
            self.lines_of(said)
        except (ValueError, BackplaneError) as error:
            raise InvalidArgument(f"{self.name}: schedule: {text_of(error)}") from error

    def prepare(self, line: str) -> tuple[CommandSpec, Callable[[Any], Any]]:
        """The command that a line names, and a function that runs it on a handler. Raises `NotFound`, `InvalidArgument`."""
        spec, arguments = parsed(line, self.specs, self.name)
        return spec, spec.bind(arguments, f"{self.name}.{spec.name}")

    # -- actions ------------------------------------------------------------------------------------------------------

    def asked(self, spec: CommandSpec, run: Callable[[Any], Any], request: Request) -> Action:
        """The action for a request. Raises `Busy` at `OUTSTANDING_MAX`."""
        if self._outstanding_counts[spec.is_async] >= OUTSTANDING_MAX:
            raise Busy(f"{self.name}: {OUTSTANDING_MAX} commands have not ended", retry_after=1.0)
        self._outstanding_counts[spec.is_async] += 1
        action = self._action(spec, run, request.priority, request.deadline_ns)
        action.on_end = partial(self._ended, spec, dict(request.body))
        return action

    def by_clock(self, line: str, when: When, on_end: Callable[[], None]) -> Action:
        """The action for a line that is due. `on_end`: called when it has ended."""
        spec, run = self.prepare(line)
        action = self._action(spec, run, PRIORITY, None)

        def ended(action: Action) -> None:
            self._is_free(action)
            on_end()
            is_own = when is spec.mark.when
            if action.error is None:
                if is_own and not spec.mark.is_logged:
                    return
                log.info("%s: %s (%s): %s", self.name, line, when.text, _shown(action.result))
            else:
                log.error("%s: %s (%s) failed: %s", self.name, line, when.text, text_of(action.error, LOGGED_MAX))

        action.on_end = ended
        return action

    def _action(
        self, spec: CommandSpec, run: Callable[[Any], Any], priority: int, deadline_ns: int | None
    ) -> MethodAction:
        handler, name = self.handler, f"{self.name}.{spec.name}"
        arguments = (self._kernel, handler, run)
        if not spec.is_async:
            return MethodAction(handler, name, priority, _run, arguments, deadline_ns)
        beside = self._free.pop() if self._free else self._kernel.add(AppObject())
        return MethodAction(beside, name, priority, _await, arguments, deadline_ns)

    def _is_free(self, action: Action) -> None:
        if action.object is not self.handler:
            self._free.append(action.object)

    def _ended(self, spec: CommandSpec, arguments: dict[str, Any], action: Action) -> None:
        self._outstanding_counts[spec.is_async] -= 1
        self._is_free(action)
        if spec.mark.is_logged and action.error is None:
            said = " ".join(f"{name}={value!r:.100}" for name, value in arguments.items())
            log.info("%s: %s(%s), as a command: %s", self.name, spec.name, said, _shown(action.result))


class _CommandEndpoint(Endpoint):
    """The route of one command, by arguments."""

    #: False: `CommandRoutes` counts the requests itself.
    is_counted = False

    def __init__(self, routes: CommandRoutes, spec: CommandSpec) -> None:
        super().__init__(spec.name, priority=PRIORITY, states=STATES, summary=spec.summary, signature=spec.signature)
        self._routes, self._spec = routes, spec

    def create_action(self, request: Request) -> Action:
        """Check the arguments; the action runs on the handler."""
        return self._routes.asked(self._spec, self._spec.bind(request.body, request.route), request)


class _LineEndpoint(Endpoint):
    """The route of all commands, by lines."""

    is_counted = False

    def __init__(self, routes: CommandRoutes) -> None:
        super().__init__(
            LINE, priority=PRIORITY, states=STATES, summary=LINE_SUMMARY, signature="(line: str = status) -> Any"
        )
        self._routes = routes

    def create_action(self, request: Request) -> Action:
        """Check the line; the action runs on the handler."""
        given = dict(request.body)
        line = given.pop("line", "status")
        if given or not isinstance(line, str):
            wrong = (
                f"unknown argument {min(given)!r}" if given else f"argument 'line': expected `str`, got {line!r:.100}"
            )
            raise InvalidArgument(f"{request.route}: {wrong}; expected {self.signature}")
        spec, run = self._routes.prepare(line)
        return self._routes.asked(spec, run, request)


def _run(_object: AppObject, kernel: RequestKernel, handler: CommandHandler, run: Callable[[Any], Any]) -> Any:
    _check_runs(kernel)
    return run(handler)


async def _await(_object: AppObject, kernel: RequestKernel, handler: CommandHandler, run: Callable[[Any], Any]) -> Any:
    _check_runs(kernel)
    return await run(handler)


def _check_runs(kernel: RequestKernel) -> None:
    if kernel._executor is None:
        raise FailedPrecondition(f"{kernel.name} has gone down")


def _names_of(kernel: RequestKernel) -> set[str]:
    """Names of the routes that the user's classes declare."""
    classes = {type(kernel), *kernel.declares, *(type(object) for object in kernel.objects)}
    own = {spec.name for cls in classes for spec in cls.__operations__.values() if spec.mark.kind == "operation"}
    return own | {endpoint.name for endpoint in kernel._endpoints}


def _shown(result: Any) -> str:
    return text_of("done" if result is None else result, LOGGED_MAX)
