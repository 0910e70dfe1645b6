"""System things: the component that asks the supervisor once a second, and keeps a thing for each backplane.

One call a second while nothing runs or waits. While something does, the supervisor also asks each backplane for its statistics,
and up to WHYS_MAX questions follow, why the oldest calls wait. So the things cost the same, however many read them.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from appbackplane.transport.errors import BackplaneError, FailedPrecondition, Unavailable

from ...objects.component import Component
from ...objects.operation import every
from .backplane_thing import BackplaneThing
from .memory import resident_bytes
from .properties import BackplaneProperties, Death, RestartedBackplane, Start, cpu_share, news_of, properties_of
from .status import SystemStatus, reason_of, status_of
from .supervisor_client import SupervisorAnswer, SupervisorClient, SupervisorPort

#: Seconds between two looks. A person does not see more, and a heartbeat, the age of the figures, is a quarter of it.
LOOK_EVERY_S: Final = 1.0
#: Seconds for the status: a supervisor answers in milliseconds, and waits for statistics no longer than the second figure.
STATUS_S, STATISTICS_S = 2.0, 0.2
#: Calls that are outstanding for less time are not asked about: nearly all end by themselves before somebody reads why.
WHY_AFTER_S: Final = 1.0
#: Calls that are asked about in one look, the oldest of the system: each costs a message to each backplane of its chain.
WHYS_MAX: Final = 4
#: Seconds for one such question. Sentinels answer in milliseconds unless an extension holds the interpreter lock.
WHY_S: Final = 1.0
#: Seconds for an order, as for `appbackplane restart` and `scale`. It goes on when they are over.
ORDER_S: Final = 90.0
#: Looks in a row that have to fail to be logged: the first may come before the connection stands.
FAILED_TOLD: Final = 3
#: Seconds that the end of the thread is waited for.
STOP_S: Final = 3.0
log = logging.getLogger(__name__)


class SystemThings(Component):
    """Add it to any one backplane: `components = ["appbackplane.runtime.things.system:SystemThings"]`.

    actions: let each caller of the things restart and scale backplanes. Otherwise these actions raise `FailedPrecondition`.
    """

    component_name = "system"
    declares = (BackplaneThing,)

    def __init__(self, actions: bool = False) -> None:
        self._may_act = actions
        self._supervisor: SupervisorPort | None = None
        self._things: dict[str, BackplaneThing] = {}
        #: The last status, and by backplane the properties that its thing was given.
        self._status: SystemStatus | None = None
        self._given: dict[str, BackplaneProperties] = {}
        #: Looks in a row that have failed.
        self._failed_count = 0

    def on_initializing(self) -> None:
        """Connect to the supervisor."""
        if self._supervisor is None:
            self._supervisor = self._connection()
            self._supervisor.start()

    def on_down(self) -> None:
        """Close the connection."""
        self._ends(STOP_S)

    def _ends(self, limit_s: float) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.stop(limit_s)

    def _connection(self) -> SupervisorPort:
        return SupervisorClient(self._platform, f"{self.name}.supervisor")

    @every(LOOK_EVERY_S, priority=2)
    async def look(self) -> None:
        """Look at the system, and have the things publish changes."""
        before = self._status
        is_busy = before is not None and any(each.is_busy for each in before.backplanes)
        try:
            body = {"statistics": is_busy, "limit": STATISTICS_S}
            now = self._status = status_of(await self._ask("supervisor.status", body, STATUS_S))
        except (BackplaneError, msgspec.ValidationError) as error:
            self._failed_count += 1
            if self._failed_count == FAILED_TOLD:
                log.warning("the things of the system keep their values: supervisor.status: %s", error)
            return
        self._failed_count = 0
        asked = _to_ask(now)
        earlier = {} if before is None else {each.name: each for each in before.backplanes}
        passed_s = 0.0 if before is None else now.uptime - before.uptime
        for entry in now.backplanes:
            known = self._given.get(entry.name, BackplaneProperties())
            properties = properties_of(
                entry,
                known,
                cpu=cpu_share(earlier.get(entry.name), entry, passed_s),
                memory=resident_bytes(entry.pid),
                waiting_for=known.waiting_for if entry.name in asked else "",
            )
            self._give(entry.name, properties, () if before is None else news_of(earlier.get(entry.name), entry))
        self._remove_others({entry.name for entry in now.backplanes})
        for name, subject in asked.items():
            self._give(name, msgspec.structs.replace(self._given[name], waiting_for=await self._reason(subject)))

    async def restart(self, backplane: str, *, rolling: bool) -> list[RestartedBackplane]:
        """Restart a backplane; `rolling`: all its replicas. Raises `FailedPrecondition`, and as the supervisor does."""
        self._expect_allowed("restart")
        group = self._group_of(backplane)
        if backplane == self._host.backplane or (rolling and group == self._group_of(self._host.backplane)):
            raise _waits_for_itself("restart", group if rolling else backplane)
        answer = await self._order("restart", {"backplanes": [group if rolling else backplane], "rolling": rolling})
        return [RestartedBackplane(name, generation) for name, generation in answer["backplanes"].items()]

    async def scale(self, backplane: str, *, threads: int | None, replicas: int | None) -> None:
        """Change the numbers of a backplane, or of all its replicas. None: as they are. Raises as `restart`."""
        self._expect_allowed("scale")
        group = self._group_of(backplane)
        if replicas is not None and group == self._group_of(self._host.backplane):
            raise _waits_for_itself("scale", group)
        numbers = {key: number for key, number in (("threads", threads), ("replicas", replicas)) if number is not None}
        answer = await self._order("scale", {"backplane": group, **numbers})
        if answer["problems"]:
            raise FailedPrecondition("\n".join(answer["problems"]))

    def _expect_allowed(self, verb: str) -> None:
        if not self._may_act:
            table = f"[backplane.{self._host.backplane}.settings.{type(self).__name__}]"
            raise FailedPrecondition(
                f"the actions of the system are off: set actions = true in {table}, or use appbackplane {verb}"
            )

    async def _order(self, verb: str, body: dict[str, Any]) -> Any:
        return await self._ask(f"supervisor.{verb}", {**body, "timeout": ORDER_S}, ORDER_S)

    async def _ask(self, route: str, body: dict[str, Any], timeout_s: float) -> Any:
        supervisor = self._supervisor
        if supervisor is None:
            raise Unavailable(f"{self.name} is going down")
        answer = SupervisorAnswer(route, timeout_s)
        supervisor.ask(answer, body)
        return await answer.wait()

    async def _reason(self, subject: str) -> str:
        try:
            return reason_of(await self._ask("supervisor.why", {"asked": subject}, WHY_S))
        except BackplaneError as error:  # it has just ended, or its backplane does not answer
            return error.message

    def _group_of(self, backplane: str) -> str:
        entries = () if self._status is None else self._status.backplanes
        return next((entry.group for entry in entries if entry.name == backplane), backplane)

    def _give(self, name: str, properties: BackplaneProperties, news: tuple[Death | Start, ...] = ()) -> None:
        """Have a thing take its properties in an action of its own, if there is anything new."""
        if name not in self._things:
            self._things[name] = BackplaneThing(self, name)
            self.add(self._things[name], key=name)
        elif properties == self._given[name] and not news:
            return
        self._given[name] = properties
        thing = self._things[name]
        thing.after(0.0, thing.take, properties, news)

    def _remove_others(self, names: set[str]) -> None:
        for name in self._things.keys() - names:
            try:
                self.remove(self._things[name])
            except FailedPrecondition:  # somebody calls it: the next look removes it
                continue
            del self._things[name], self._given[name]


def _waits_for_itself(verb: str, name: str) -> FailedPrecondition:
    return FailedPrecondition(
        f"{name} has the things of the system, and would wait for the end of this very action: appbackplane {verb} {name}"
    )


def _to_ask(status: SystemStatus) -> dict[str, str]:
    """By backplane, the call or object to ask about: the oldest of the system, at most WHYS_MAX."""
    oldest = [(*each.oldest, each.name) for each in status.backplanes if each.oldest is not None]
    longest = sorted((each for each in oldest if each[0] >= WHY_AFTER_S), reverse=True)
    return {name: subject for _, subject, name in longest[:WHYS_MAX]}
