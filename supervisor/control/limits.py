"""Limits: changes a running backplane's CPU limit, for an operator (through the backplane) or for a reload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from appbackplane.transport.errors import Unavailable

from ..direction.effects import Caller
from ..direction.events import Event, Placed
from ..processes.placement import Placement
from ..processes.spawn import Process
from .control_socket import ControlSocket


@dataclass(frozen=True, slots=True)
class Limits:
    """Changes CPU limits in one system."""

    placement: Placement
    control: ControlSocket
    #: Running processes by backplane.
    processes: Callable[[], Mapping[str, Process]]
    #: Pass an event to the director.
    take: Callable[[Event], None]
    warn: Callable[[list[str]], None]

    def change(self, caller: Caller, name: str, generation: int, percent: int | None) -> None:
        """Change this generation's limit and reply to it. Raises `Unavailable`."""
        process = self.processes().get(name)
        if process is None or process.generation != generation:
            raise Unavailable(f"supervisor.limit: {name} generation {generation} does not run")
        self.control.reply(caller, self.place(name, percent))

    def place(self, name: str, percent: int | None) -> dict[str, Any]:
        """Change a running backplane's limit. Returns the placement that it must be told."""
        process, folder = self.processes()[name], self.placement.folder_of(name)
        self.warn(self.placement.change(name, percent, process.pid))
        moved_to = self.placement.folder_of(name)
        if moved_to is not None and moved_to != folder:
            self.take(Placed(name, process.generation, moved_to))
        return self.placement.told(name)
