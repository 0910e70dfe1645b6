"""A driver, for test_proxies.py: a device that is a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from appbackplane.runtime.things.proxies import Driver, DriverForm


class Boiler(Driver):
    """Its level is what stands in the file. It leaks whenever it is purged."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._leaks: asyncio.Queue[int] = asyncio.Queue()

    async def read(self, form: DriverForm) -> Any:
        return int(self._path.read_text())

    async def write(self, form: DriverForm, value: Any) -> None:
        self._path.write_text(str(value))

    async def invoke(self, form: DriverForm, arguments: Any) -> Any:
        await self._leaks.put(arguments["liters"])

    async def follow(self, form: DriverForm) -> AsyncIterator[Any]:
        while True:
            yield await self._leaks.get()
