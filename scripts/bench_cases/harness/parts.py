"""Parts: eight small components with different names, for systems of many backplanes."""

from __future__ import annotations

from appbackplane.runtime import Component, operation


class Part(Component):
    """Serves `ping`."""

    @operation(priority=1)
    def ping(self) -> None: ...


COUNT = 8
globals().update({f"Part{n}": type(f"Part{n}", (Part,), {"__module__": __name__}) for n in range(COUNT)})


def backplanes(count: int, more: str = "") -> dict[str, str]:
    """So many, a part each: name to the lines of its table."""
    return {f"b{n}": f'components = ["{__name__}:Part{n}"]\n{more}' for n in range(count)}
