"""People: search all the time, at a steady pace, so that there is something to watch."""

from __future__ import annotations

from itertools import cycle

from appbackplane.runtime import BackplaneError, Component, every

#: What is searched for: names that are in any Python library.
WORDS = ("self", "path", "encode", "Thread", "dataclass", "gather", "__init__", "OrderedDict", "maxsize", "isinstance")


class People(Component):
    """Those who search. `failed` counts what was not answered."""

    depends_on = ("query",)

    def __init__(self) -> None:
        self.failed = 0
        self._words = cycle(WORDS)

    @every(0.02, priority=0)
    async def search(self) -> None:
        """Search for the next word, and wait for what is found."""
        try:
            await self.call("query.search", text=next(self._words), limit=20, timeout=2.0)
        except BackplaneError:  # `query` restarts: the next one may be answered
            self.failed += 1
