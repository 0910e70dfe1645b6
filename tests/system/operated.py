"""Kernels for tests of their commands (test_request_commands.py): one on threads, one on processes."""

from __future__ import annotations

from pathlib import Path

from appbackplane.runtime import operation
from appbackplane.runtime.execution.workers.user_functions import pause
from appbackplane.runtime.requests import (
    CommandHandler,
    Context,
    KernelPolicy,
    RequestKernel,
    Runnable,
    command,
)

#: Between two looks whether the file is there.
LOOK_S = 0.005


class Waits(Runnable):
    """Until a file is there."""

    async def execute(self, request: str, kernel: Context) -> bool:
        while not Path(request).exists():
            await pause(LOOK_S)
        return True


class Feeding(RequestKernel):
    """Takes requests from outside, for those that test it."""

    runnables = (Waits,)

    @operation(priority=1)
    def feed(self, file: str, count: int) -> int:
        self.kernel.post_all([file] * count, Waits, owner="fed", priority=98)
        return count

    @operation(priority=1)
    def joined(self) -> list[bool]:
        return [done.result for done in self.kernel.joined("fed")]


class Handler(CommandHandler):
    """One command more, and a beat."""

    def __init__(self) -> None:
        self.beats = 0

    @command
    def beats_so_far(self) -> int:
        return self.beats

    @command(every=0.05, is_logged=False)
    def beat(self) -> None:
        self.beats += 1


class Index(Feeding):
    """On threads."""

    policy = KernelPolicy(workers=2, ready=50)
    commands = Handler


class Spread(Feeding):
    """On processes."""

    policy = KernelPolicy(kind="processes", workers=1, ready=50)
