"""Limits: changes a running backplane's CPU limit, for an operator (through the backplane) or for a reload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from appbackplane.transport.errors import Unavailable

from ..direction.effects import Caller
from ..direction.events import Event, Placed
from ..processes.placement import Placement
from ..processes.spawn import Process
from .control_socket import ControlSocket


class Limits:
    """Changes CPU limits in one system."""

    def __init__(
        self,
        placement: Placement,
        control: ControlSocket,
        processes: Callable[[], Mapping[str, Process]],
        *,
        take: Callable[[Event], None],
        warn: Callable[[list[str]], None],
    ) -> None:
        """`processes`: running processes by backplane. `take`: pass an event to the director."""
        self._placement, self._control, self._processes = placement, control, processes
        self._take, self._warn = take, warn

    def change(self, caller: Caller, name: str, generation: int, percent: int | None) -> None:
        """Change this generation's limit and reply to it. Raises `Unavailable`."""
        process = self._processes().get(name)
        if process is None or process.generation != generation:
            raise Unavailable(f"supervisor.limit: {name} generation {generation} does not run")
        self._control.reply(caller, self.place(name, percent))

    def place(self, name: str, percent: int | None) -> dict[str, Any]:
        """Change a running backplane's limit. Returns the placement that it must be told."""
        process, folder = self._processes()[name], self._placement.folder_of(name)
        self._warn(self._placement.change(name, percent, process.pid))
        moved_to = self._placement.folder_of(name)
        if moved_to is not None and moved_to != folder:
            self._take(Placed(name, process.generation, moved_to))
        return self._placement.told(name)
