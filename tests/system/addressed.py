"""What the systems of test_addresses.py run. Copied beside each system's TOML, as a user's module would lie there."""

from __future__ import annotations

import os
import signal
import time

from appbackplane.runtime import Address, AppObject, Component, EndNotice, operation


class Account(AppObject):
    """A light object."""

    def __init__(self, owner: str) -> None:
        self.owner, self.cents = owner, 0

    @operation(export=True)
    def deposit(self, cents: int) -> int:
        """Return the balance."""
        self.cents += cents
        return self.cents

    @operation(export=True)
    def close(self, reason: str = "") -> float:
        """End it; returns when, by the clock that all processes of this host share."""
        self.end_self(reason)
        return time.monotonic()


class Accounts(Component):
    """Has accounts, its own and those of others."""

    declares = (Account,)
    spawnable = (Account,)

    @operation()
    def open(self, owner: str) -> Address:
        """A new one."""
        return self.spawn(Account(owner))

    @operation(export=True)
    def kill(self) -> None:
        """Kill this process, as the kernel would."""
        os.kill(os.getpid(), signal.SIGKILL)


class Watcher(Component):
    """Is told what has ended."""

    def __init__(self) -> None:
        #: As told, and when.
        self.told: list[tuple[EndNotice, float]] = []

    @operation()
    def watch(self, target: str) -> None:
        """Monitor it."""
        self.monitor(target, self.on_end)

    @operation()
    def forget(self) -> None:
        """What it was told."""
        self.told.clear()

    def on_end(self, notice: EndNotice) -> None:
        """Remember."""
        self.told.append((notice, time.monotonic()))

    @operation()
    async def open_there(self, component: str, owner: str, backplane: str | None = None) -> Address:
        """Spawn an account elsewhere."""
        return await self.spawn_at(component, "Account", backplane=backplane, owner=owner)

    @operation()
    async def deposit_at(self, account: Address, cents: int) -> int:
        """Call it."""
        return int(await self.call(account.to("deposit"), cents=cents))

    @operation()
    def all_told(self) -> list[list[object]]:
        """[target, reason, because, when] of each, in order."""
        return [[notice.of, notice.reason, notice.because, at_s] for notice, at_s in self.told]
