"""fairness: two tenants call one object, and one of them floods it: the share of the other in one second, against its weight.

Calls of 200 us: 2,400 of the flood are outstanding at a time, and 600 of the other tenant, so that neither ever has none.
Against the same where who came first is first. A surprise would be a share that depends on how much the flood sends.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.transport import Client, PendingCall

from .harness.bulk import compute
from .harness.case import Case, Requirement, Sides
from .harness.systems import running

CALL_S = 0.0002
#: How many calls of each tenant are outstanding.
TENANTS = {"flood": 2_400, "other": 600}
#: Of the other tenant, where that of the flood is 1; and its share then.
WEIGHTS = {"equal": 1, "threefold": 3}
SLICE_S, QUICK_SLICE_S = 1.0, 0.5


class Clerk(AppObject):
    def __init__(self, served: Counter[str]) -> None:
        self.served = served

    @operation()
    def serve(self, tenant: str) -> None:
        compute(CALL_S)
        self.served[tenant] += 1


class Desk(Component):
    """One clerk, and counts of whom it has served."""

    def setup(self) -> None:
        self.served = Counter[str]()
        self.add(Clerk(self.served), key="clerk")

    @operation(priority=0)
    def counts(self) -> dict[str, int]:
        return dict(self.served)


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    desk = f'components = ["{__name__}:Desk"]\n'
    fair = {
        name: f'{desk}fair_by = "arguments.tenant"\nweights = {{ other = {weight} }}'
        for name, weight in WEIGHTS.items()
    }
    with (
        running({"desk": fair["equal"]}) as equal,
        running({"desk": fair["threefold"]}) as threefold,
        running({"desk": desk}) as plain,
    ):
        yield Sides(
            lambda: {
                "equal_percent": share(equal.client, seconds),
                "threefold_percent": share(threefold.client, seconds),
            },
            lambda: dict.fromkeys(("equal_percent", "threefold_percent"), share(plain.client, seconds)),
        )


def share(client: Client, seconds: float) -> float:
    """Percent of what was served in so many seconds that was the other tenant's."""
    is_over = threading.Event()
    callers = [
        threading.Thread(target=keep, args=(client, tenant, count, is_over)) for tenant, count in TENANTS.items()
    ]
    for caller in callers:
        caller.start()
    while len(client.call("desk.counts")) < len(TENANTS):
        pass
    before = Counter(client.call("desk.counts"))
    is_over.wait(seconds)
    served = Counter(client.call("desk.counts")) - before
    is_over.set()
    for caller in callers:
        caller.join()
    return 100.0 * served["other"] / served.total()


def keep(client: Client, tenant: str, count: int, is_over: threading.Event) -> None:
    """Keep so many calls of a tenant outstanding."""
    outstanding: deque[PendingCall] = deque()
    while not is_over.is_set():
        while len(outstanding) < count:
            outstanding.append(client.submit("desk.serve", tenant=tenant, timeout=60.0))
        outstanding.popleft().result()
    for pending in outstanding:
        pending.result()


def off(name: str) -> Requirement:
    """The other tenant's share, as a part of what its weight says."""
    meant = 100.0 * WEIGHTS[name] / (WEIGHTS[name] + 1)
    figure = f"{name}_percent"
    return Requirement(
        f"share of weight {WEIGHTS[name]} to 1", lambda ours, _: ours[figure] / meant, at_least=0.95, at_most=1.05
    )


CASE = Case(
    name="fairness",
    what="share of a tenant beside another one that floods the backplane; reference: first come, first served",
    requirements=tuple(off(name) for name in WEIGHTS),
    open=both,
    rounds=4,
    quick_rounds=2,
)
