"""Monitors: tells objects, and other processes, that an object, a backplane or a node has ended.

Where the end of a target is noticed: of an object here, by `Spawning`, which ends it; of a backplane of this system, in the
routing table, so nothing has to come from the dead; of an object elsewhere, by a call of `watch` (watching.py), which waits
there until the object has ended, or ends in PEER_DOWN with the process. Another node is asked the same (`node.watch`), and
looks at its own system; if the connection to it breaks, the target is unreachable. Each monitor tells once.

Cost: 600 bytes for a target here; for one elsewhere, a coroutine and an outstanding call (`ELSEWHERE_MAX`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Final

from appbackplane.transport.address import Address
from appbackplane.transport.addressing import OF_NODE, backplane_route
from appbackplane.transport.call_checks import TIMEOUT_MAX_S
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    InvalidArgument,
    PeerDown,
    Unavailable,
    text_of,
)

from ...objects.action import Action, ParkableAction
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.monitor import ENDED, KILLED, NEVER_EXISTED, REASONS, UNREACHABLE, EndNotice
from ...scheduling.throttle import OwnWork
from ..actions.method_action import MethodAction
from ..loop.engine import Engine
from ..workers.user_functions import pause

#: Monitors of one backplane whose targets are elsewhere: a coroutine and an outstanding call each, 4 KB here and 2 KB there.
ELSEWHERE_MAX: Final = 10_000
#: How long the routing table may be behind: an address may come before the table that says that its process is up. With twenty
#: programs on two cores a quarter of a second was too short: objects that lived were told as killed.
TABLE_LATE_S: Final = 2.0
#: Until then, and while the other process is busy, it is asked again after this.
ASK_AGAIN_S: Final = 0.1
#: The operation of each backplane that waits for the end of an object; and the route of each node, for all in its system.
WATCH: Final = "watch"
NODE_WATCH: Final = "node.watch"
_NONE: Final[dict[int, Watch]] = {}


class Watch:
    """One target, and its watcher: a subclass defines how the watcher is told."""

    __slots__ = ("action", "backplane", "generation", "is_over", "number", "of", "owner")

    def __init__(self, of: Any, owner: AppObject | None) -> None:
        """`owner`: the monitoring object, which the watch keeps alive; None: another process."""
        self.of, self.owner = of, owner
        self.is_over = False
        #: Of an object here; 0: it is another target.
        self.number = 0
        #: Of a backplane of this system, and its generation when it was first watched.
        self.backplane, self.generation = "", 0
        #: Waits for the answer of another process.
        self.action: MethodAction | None = None

    def tell(self, reason: str, because: str) -> None:
        """The target has ended (objects/monitor.py). Called once, under the lead."""
        raise NotImplementedError

    def dropped(self) -> None:
        """Nothing will be told: it is cancelled, or its owner has ended. Called under the lead."""


class Monitors:
    """All monitors of one backplane, and those that other processes have of objects here. Used under the lead."""

    def __init__(self, engine: Engine) -> None:
        self.lead: threading.RLock = engine.lead
        #: The component of the backplane itself, for which the calls to other processes are made.
        self.own: Component | None = None
        self._engine = engine
        self._backplane, self._registry, self._routing = engine.backplane, engine.registry, engine.routing
        self._by_number: dict[int, dict[int, Watch]] = {}
        self._by_backplane: dict[str, dict[int, Watch]] = {}
        #: By the identity of the monitoring object. In dictionaries, as one may watch 100,000.
        self._by_owner: dict[int, dict[int, Watch]] = {}
        self._elsewhere_count = 0
        self._numbers = itertools.count(1)
        self.told_count = 0
        #: Waiting requests of other processes (watching.py): by identity, a function that answers at the end of this process.
        self.watchers: dict[int, Callable[[], None]] = {}
        engine.directory_hearers.append(self.directory_changed)

    def __len__(self) -> int:
        return sum(len(watches) for watches in self._by_owner.values())

    def figures(self) -> dict[str, int]:
        """For the statistics."""
        spawned = self._registry.spawned
        return {
            "spawned": spawned.last - spawned.ended_count,
            "ended": spawned.ended_count,
            "monitors": len(self),
            "told": self.told_count,
            "watchers": len(self.watchers),
        }

    def add(self, watch: Watch, priority: int, *, of_ours: bool = False) -> None:
        """Begin to watch. `tell` is called before this returns if there is nothing to watch.

        `of_ours`: refuse targets of other nodes, which another node asks for. Raises `InvalidArgument`, `Busy`.
        """
        of, owner = watch.of, watch.owner
        home, backplane, address = self._parsed(of)
        if owner is not None:
            self._by_owner.setdefault(id(owner), {})[id(watch)] = watch
        try:
            if home != self._routing.directory.home:
                if of_ours:
                    raise InvalidArgument(
                        f"{of!r} is of node {home!r}, not of {self._routing.directory.home!r}: ask that"
                    )
                self._ask(watch, f"{home}{OF_NODE}{NODE_WATCH}", priority)
            elif address is not None:
                self._watch_object(watch, address, priority)
            elif backplane in ("", self._backplane):
                if owner is not None:
                    raise InvalidArgument(f"{of!r} is where this object is: it ends with it, and could not be told")
            else:
                self._watch_backplane(watch, backplane)
        except BaseException:
            self._forget(watch)
            raise

    def drop(self, watch: Watch) -> None:
        """Tell nothing of this watch any more. Does nothing if it is over."""
        if watch.is_over:
            return
        self._forget(watch)
        watch.dropped()
        action = watch.action
        if action is not None:
            now_ns = self._engine.now_ns()
            withdrawn = self._engine.withdrawal.take_out(action, Cancelled(f"{action.name}: cancelled"), now_ns)
            if not withdrawn:
                action.cancel()
                if action.is_awaiting:
                    self._engine.outgoing.give_up(action, now_ns)
            self._engine.poll_leader.notify()

    def object_ended(self, number: int, because: str) -> None:
        """An object here has ended."""
        for watch in self._by_number.pop(number, _NONE).values():
            self._tell(watch, ENDED, because)

    def owner_ended(self, object: AppObject) -> None:
        """A monitoring object is no more: so are its monitors."""
        for watch in [*self._by_owner.get(id(object), _NONE).values()]:
            self.drop(watch)

    def directory_changed(self) -> None:
        """A new routing table: backplanes that are down, or up again as others, have ended."""
        for name, watches in [*self._by_backplane.items()]:
            place = self._routing.directory.backplanes.get(name)
            for watch in [*watches.values()]:
                if place is None:
                    self._tell(watch, ENDED, f"backplane {name} was removed")
                elif not place.is_up or place.generation != watch.generation:
                    has_finished = place.generation == watch.generation and place.has_finished
                    self._tell(watch, *_end_of(name, has_finished=has_finished))

    def stop(self) -> None:
        """This process ends in order: tell all others that wait for its objects."""
        for answer in [*self.watchers.values()]:
            answer()

    def resume(self, action: ParkableAction) -> None:
        """Let an action go on that has waited for an end."""
        self._engine.parking.resume(action, self._engine.now_ns())

    def answer(self, action: Action) -> None:
        """Answer an action that will not run any more, because this process ends."""
        self._engine.completion.answer(action, self._engine.now_ns())

    # -- steps --------------------------------------------------------------------------------------------------------

    def _parsed(self, of: Any) -> tuple[str, str, Address | None]:
        """The node or system of a target, its backplane ("": the node itself), and its address if it is an object."""
        if not isinstance(of, str) or not of:
            raise InvalidArgument(
                f"a monitor watches an address, or a backplane by its name, got {text_of(repr(of), 80)}"
            )
        if ":" in of:
            address = Address(of)
            return address.home, address.backplane, address
        home, mark, backplane = of.partition(OF_NODE)
        return (home, backplane, None) if mark else (self._routing.directory.home, of, None)

    def _watch_object(self, watch: Watch, address: Address, priority: int) -> None:
        if address.backplane != self._backplane:
            directory = self._routing.directory
            if address.backplane in directory.backplanes:
                self._ask(watch, backplane_route(address.backplane, WATCH), priority)
            else:
                is_known = address.backplane in directory.missing
                because = f"backplane {address.backplane} {'has not started again' if is_known else 'is unknown'}"
                self._tell(watch, ENDED if is_known else NEVER_EXISTED, because)
            return
        spawned, component = self._registry.spawned, self._registry.components.get(address.component)
        number = address.number
        if address.incarnation != spawned.incarnation:
            self._tell(watch, ENDED, f"its process of backplane {self._backplane} ended before")
        elif component is None or number > spawned.last:
            self._tell(watch, NEVER_EXISTED, f"backplane {self._backplane} has not given this address to any object")
        elif number not in component._spawned:
            self._tell(watch, ENDED, "it ended before")
        else:
            watch.number = number
            self._by_number.setdefault(number, {})[id(watch)] = watch

    def _watch_backplane(self, watch: Watch, name: str) -> None:
        directory = self._routing.directory
        place = directory.backplanes.get(name)
        if place is None and name not in directory.missing:
            self._tell(watch, NEVER_EXISTED, f"there is no backplane {name}")
        elif place is None:
            self._tell(watch, ENDED, f"backplane {name} has not started yet")
        elif not place.is_up:
            self._tell(watch, *_end_of(name, has_finished=place.has_finished))
        else:
            watch.backplane, watch.generation = name, place.generation
            self._by_backplane.setdefault(name, {})[id(watch)] = watch

    def _ask(self, watch: Watch, route: str, priority: int) -> None:
        """Have another process wait for the end of the target."""
        if self._elsewhere_count >= ELSEWHERE_MAX:
            raise Busy(f"{ELSEWHERE_MAX:,} monitors of this backplane have their targets elsewhere", retry_after=1.0)
        asker = AppObject.__new__(AppObject)
        assert self.own is not None
        asker._component, asker._name = self.own, f"{self.own._name}.monitor-{next(self._numbers)}"
        name = f"{self.own.component_name}.monitor"
        watch.action = MethodAction(asker, name, priority, _wait_elsewhere, (self, watch, route))
        self._elsewhere_count += 1
        self._engine.post(watch.action, self._engine.now_ns())

    def _tell(self, watch: Watch, reason: str, because: str) -> None:
        if not watch.is_over:
            self._forget(watch)
            self.told_count += 1
            watch.tell(reason, because)

    def told(self, watch: Watch, reason: str, because: str) -> None:
        """Another process has answered, or has ended. Takes the lead."""
        with self.lead:
            self._tell(watch, reason, because)

    def _forget(self, watch: Watch) -> None:
        watch.is_over = True
        if watch.action is not None:
            self._elsewhere_count -= 1
        if watch.number:
            _take_out(self._by_number, watch.number, watch)
        if watch.backplane:
            _take_out(self._by_backplane, watch.backplane, watch)
        if watch.owner is not None:
            _take_out(self._by_owner, id(watch.owner), watch)


async def _wait_elsewhere(asker: AppObject, monitors: Monitors, watch: Watch, route: str) -> None:
    """Call `watch` of another process until it has an answer, and tell that."""
    is_elsewhere, tries_left = OF_NODE in route, round(TABLE_LATE_S / ASK_AGAIN_S)
    try:
        while not watch.is_over:
            try:
                told = await asker.request(route, {"target": watch.of}, timeout=TIMEOUT_MAX_S, retry=False)
                monitors.told(watch, *_checked(told, route))
            except DeadlineExceeded:
                continue
            except Busy as error:
                await pause(error.retry_after or ASK_AGAIN_S)
            except Unavailable as error:
                if is_elsewhere or not tries_left:
                    monitors.told(watch, UNREACHABLE if is_elsewhere else KILLED, error.message)
                else:
                    tries_left -= 1
                    await pause(ASK_AGAIN_S)
            except BackplaneError as error:
                is_down = isinstance(error, PeerDown) and not is_elsewhere
                if isinstance(error, Cancelled) and watch.is_over:
                    raise
                monitors.told(watch, KILLED if is_down else UNREACHABLE, error.message)
    except Cancelled:
        return  # the monitor is over


def _checked(told: Any, route: str) -> tuple[str, str]:
    """The answer of another process; one that makes no sense is none."""
    if isinstance(told, list) and len(told) == 2 and told[0] in REASONS and isinstance(told[1], str):
        return told[0], told[1]
    return UNREACHABLE, f"{route} answered {text_of(repr(told), 80)}"


def _end_of(backplane: str, *, has_finished: bool) -> tuple[str, str]:
    if has_finished:
        return ENDED, f"backplane {backplane} has finished its work and stopped"
    return KILLED, f"the process of backplane {backplane} died"


def _take_out(table: dict[Any, dict[int, Watch]], key: Any, watch: Watch) -> None:
    watches = table.get(key)
    if watches is not None:
        watches.pop(id(watch), None)
        if not watches:
            del table[key]


class ObjectMonitor(Watch):
    """A monitor of an object, and its handle (`Monitor` of objects/monitor.py): it tells by an action of the object."""

    __slots__ = ("_account", "_engine", "_method", "_monitors", "_name", "_priority")

    def __init__(
        self, of: Any, owner: AppObject, monitors: Monitors, engine: Engine, *, name: str, priority: int,
        method: Callable[..., Any], account: OwnWork,
    ) -> None:  # fmt: skip
        """`name`, `priority`: of the action, which runs `method` of the owner. `account`: has admitted the monitor."""
        super().__init__(of, owner)
        self._monitors, self._engine = monitors, engine
        self._name, self._priority, self._method, self._account = name, priority, method, account

    def tell(self, reason: str, because: str) -> None:
        """Post the action, which takes the monitor's place in `max_posted`."""
        owner = self.owner
        assert owner is not None
        notice = EndNotice(of=self.of, reason=reason, because=because)
        action = MethodAction(owner, self._name, self._priority, self._method, (notice,))
        action.throttle = self._account
        self._engine.post(action, self._engine.now_ns())

    def dropped(self) -> None:
        """Free its place in `max_posted`."""
        self._account.ended(self._engine.now_ns())

    def cancel(self) -> bool:
        """As `Monitor.cancel`."""
        with self._monitors.lead:
            if self.is_over:
                return False
            self._monitors.drop(self)
            return True
