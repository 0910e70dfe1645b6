"""Thing: the base class of objects that represent devices on the web. Each describes its own interactions."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import msgspec

from ..objects.app_object import AppObject
from ..objects.operation import MARK, DeclarationError, Mark, operation
from ..objects.operation_spec import converted
from .affordances import Affordances, affordances_of, share_type
from .declaring import AFFORDANCE, AffordanceMark
from .description import Description, id_of, model_of

#: Topic of new values of observable properties, and of events: `{thing, process, kind, name, data}`.
NOTIFICATIONS: Final = "things.notifications"
#: Names this process in notifications: a value that it published says nothing of the things of the process after it.
PROCESS: Final = os.urandom(8).hex()
#: Operations of each thing; no affordance has one of these names.
_OWN: Final = ("describe", "emit", "notify_all", "notify_changes")


class Thing(AppObject):
    """Subclass it, declare properties, actions and events, and add it to a component: `self.add(Lamp(), key="lamp-1")`.

    Each method with a mark (`@action`, `@operation`, `@every`, `@subscribe`, and those that write properties) ends with a look
    at the observable properties: new values are published before its reply leaves, so a client that reads after its own write
    gets the new value. Generators are the exception: call `notify_changes` in them.
    """

    #: For people; default: the name of the class.
    title: ClassVar[str] = ""
    #: Its types, as terms of vocabularies that search engines know: ("saref:LightSwitch",).
    types: ClassVar[Sequence[str]] = ()
    #: IRIs of the prefixes in `types`, beside those of description.PREFIXES.
    context: ClassVar[Mapping[str, str]] = {}

    #: Its affordances and its Thing Model; filled when the class is made.
    __affordances__: ClassVar[Affordances] = Affordances()
    __model__: ClassVar[Description] = {}

    #: The last published value of each observable property, packed.
    _notified: dict[str, bytes]

    def __init_subclass__(cls, **options: Any) -> None:
        for function in list(vars(cls).values()):
            mark = getattr(function, AFFORDANCE, None)
            if isinstance(mark, AffordanceMark) and mark.setter is not None:
                share_type(function, mark.setter)
        for attribute, function in list(vars(cls).items()):
            if _may_change_it(function):
                setattr(cls, attribute, _notifying(function))
        super().__init_subclass__(**options)
        for attribute in _OWN:
            if attribute in vars(cls) and isinstance(getattr(vars(cls)[attribute], MARK, None), Mark):
                raise DeclarationError(
                    f"{cls.__qualname__}.{attribute}: {attribute!r} belongs to the runtime: choose another name"
                )
        cls.__affordances__ = affordances_of(cls)
        cls.__model__ = model_of(
            cls.__qualname__,
            cls.__affordances__,
            title=cls.title or cls.__name__,
            description=inspect.cleandoc(cls.__doc__) if cls.__doc__ else None,
            types=cls.types,
            context=cls.context,
        )

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self._notified = {}
        return self

    @operation(priority=2, idempotent=True)
    def describe(self) -> Description:
        """The Thing Model of its class, with the id of this thing."""
        component = self._component
        return type(self).__model__ | {"id": id_of("" if component is None else component.component_name, self.key)}

    @operation(priority=2, idempotent=True)
    def notify_all(self) -> None:
        """Publish all observable properties, changed or not, for a new subscriber that keeps their values."""
        self._notified.clear()
        self.notify_changes()

    def emit(self, name: str, data: Any = None) -> None:
        """Tell the subscribers of an event. Raises TypeError for an event that is not declared, or data of another type."""
        event = type(self).__affordances__.events.get(name)
        if event is None:
            known = ", ".join(type(self).__affordances__.events) or "none"
            raise TypeError(f"{type(self).__qualname__} declares no event {name!r} (it has: {known})")
        body = msgspec.to_builtins(data)
        try:
            converted(event.kind, body)
        except msgspec.ValidationError as error:
            raise TypeError(f"{type(self).__qualname__}.emit({name!r}): {error}") from None
        self._notify("event", name, body)

    def notify_changes(self) -> None:
        """Publish the observable properties whose values are others than last time. Outside of a backplane it does nothing."""
        component = self._component
        if component is None or component._hosted_by is None:
            return
        for each in type(self).__affordances__.properties.values():
            if not each.is_observable:
                continue
            value = msgspec.to_builtins(each.read(self))
            packed = msgspec.msgpack.encode(value)  # a list that was changed in place is the same object as before
            if self._notified.get(each.name) != packed:
                self._notified[each.name] = packed
                self._notify("property", each.name, value)

    def _notify(self, kind: str, name: str, data: Any) -> None:
        component = self._component
        id = id_of("" if component is None else component.component_name, self.key)
        self.publish(NOTIFICATIONS, thing=id, process=PROCESS, kind=kind, name=name, data=data)


def _may_change_it(function: Any) -> bool:
    """Whether a method of a class runs as an action that may change properties: all do, but those that read one."""
    if not inspect.isfunction(function) or not isinstance(getattr(function, MARK, None), Mark):
        return False
    affordance = getattr(function, AFFORDANCE, None)
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return not is_generator and (affordance is None or affordance.kind != "property")


def _notifying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, after which changes are published, also if it raises: it may have changed something before."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(self: Thing, *arguments: Any, **keywords: Any) -> Any:
            try:
                return await function(self, *arguments, **keywords)
            finally:
                self.notify_changes()

        return run

    @functools.wraps(function)
    def run_now(self: Thing, *arguments: Any, **keywords: Any) -> Any:
        try:
            return function(self, *arguments, **keywords)
        finally:
            self.notify_changes()

    return run_now
