"""Echo: the component that the cases of a bare call talk to, and the executor's twin of it."""

from __future__ import annotations

from appbackplane.runtime import Component, operation

COMPONENT = 'components = ["bench_cases.harness.echo:Echo"]'


class Echo(Component):
    """Serves one trivial operation, for small and for large bodies."""

    @operation(priority=1, export=True)
    def echo(self, text: str) -> str:
        return text

    @operation(priority=1)
    def give_back(self, data: bytes) -> bytes:
        return data
