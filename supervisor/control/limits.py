"""Limits: the CPU limit of a backplane is changed while it runs, by an operator through the backplane, or by a reload."""

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
    """Of one system."""

    def __init__(
        self,
        placement: Placement,
        control: ControlSocket,
        processes: Callable[[], Mapping[str, Process]],
        *,
        take: Callable[[Event], None],
        warn: Callable[[list[str]], None],
    ) -> None:
        """`processes`: those that run, by their backplanes. `take`: have the director judge an event."""
        self._placement, self._control, self._processes = placement, control, processes
        self._take, self._warn = take, warn

    def change(self, caller: Caller, name: str, generation: int, percent: int | None) -> None:
        """Of this generation, which is told. Raises `Unavailable`."""
        process = self._processes().get(name)
        if process is None or process.generation != generation:
            raise Unavailable(f"supervisor.limit: {name} generation {generation} does not run")
        self._control.reply(caller, self.place(name, percent))

    def place(self, name: str, percent: int | None) -> dict[str, Any]:
        """Change the limit of one that runs; what it is to be told."""
        process, folder = self._processes()[name], self._placement.folder_of(name)
        self._warn(self._placement.change(name, percent, process.pid))
        moved_to = self._placement.folder_of(name)
        if moved_to is not None and moved_to != folder:
            self._take(Placed(name, process.generation, moved_to))
        return self._placement.told(name)
