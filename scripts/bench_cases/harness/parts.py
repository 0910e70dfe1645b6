"""Parts: equal components with different names, for systems of many backplanes. A system names one by its class."""

from __future__ import annotations

from appbackplane.runtime import Component, operation


class Part(Component):
    @operation(priority=1)
    def ping(self) -> None: ...


def numbered(kind: type[Component], count: int) -> dict[str, type[Component]]:
    """Its subclasses `Part0`, `Part1` and so on, for the globals of its module."""
    names = [f"{kind.__name__}{n}" for n in range(count)]
    return {name: type(name, (kind,), {"__module__": kind.__module__}) for name in names}


COUNT = 8
globals().update(numbered(Part, COUNT))


def backplanes(count: int, more: str = "") -> dict[str, str]:
    """So many, a part each: name to the lines of its table."""
    return {f"b{n}": f'components = ["{__name__}:Part{n}"]\n{more}' for n in range(count)}
