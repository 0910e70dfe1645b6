"""ComponentLimits: how much outstanding work each component may have (law 9)."""

from __future__ import annotations

from ...objects.component import Component
from ...objects.operation import DeclarationError
from ...scheduling.throttle import OwnWork, Throttle


class ComponentLimits:
    """The throttle and the own-work account of each component, by its name. Used under the lead."""

    def __init__(self) -> None:
        #: Requests from callers: `max_requests`.
        self.requests: dict[str, Throttle] = {}
        #: Work that components give themselves: `max_posted`.
        self.own_work: dict[str, OwnWork] = {}

    def add(self, component: Component) -> None:
        """Add a component with the limits that it declares. Raises `DeclarationError`."""
        self.requests[component.component_name] = Throttle(_declared(component, "max_requests"))
        self.own_work[component.component_name] = OwnWork(_declared(component, "max_posted"))

    def refused_count(self) -> int:
        return sum(throttle.refused_count for throttle in list(self.requests.values()))

    def figures(self, component: str) -> dict[str, int]:
        """Outstanding work, limits and refusals of one component, for the statistics."""
        throttle, own_work = self.requests[component], self.own_work[component]
        own_work.settle()
        return {
            "outstanding": throttle.outstanding,
            "max_requests": throttle.limit,
            "refused": throttle.refused_count,
            "posted": own_work.outstanding,
            "max_posted": own_work.limit,
            "posted_refused": own_work.refused_count,
        }


def _declared(component: Component, key: str) -> int:
    """The limit that a component declares under `key`. Raises `DeclarationError` unless it is a whole number above 0."""
    limit: object = getattr(component, key)
    if type(limit) is not int or limit < 1:
        would = f"{limit} would refuse everything: " if type(limit) is int else ""
        raise DeclarationError(
            f"{type(component).__qualname__}.{key}: {would}expected a whole number, 1 or more, got {limit!r}"
        )
    return limit
