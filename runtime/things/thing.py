"""Thing: the base class of objects that represent devices on the web. Each describes its own interactions."""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import msgspec

from ..objects.app_object import AppObject
from ..objects.operation import MANAGE, MARK, DeclarationError, Mark, operation
from ..objects.operation_spec import converted
from ..objects.spawned import number_of
from ..permissions.thing_ids import NOTIFICATIONS, id_of
from .affordances import Affordances, affordances_of, share_type
from .declaring import AFFORDANCE, AffordanceMark, Event
from .description import Description, model_of

#: Methods of `Thing` that no subclass may replace, and settings that no affordance may have the name of.
_OWN: Final = ("describe", "notify_all", "notify_changes", "setters")
_SETTINGS: Final = ("title", "types", "context", "language", "place")
log = logging.getLogger(__name__)


class Thing(AppObject):
    """Subclass it, declare properties, actions and events, and add it to a component: `self.add(Lamp(), key="lamp-1")`.

    After each marked method (`@action`, `@operation`, `@every`, `@subscribe`, and those that write properties), the observable
    properties that have changed are published, before the reply leaves. So a client that reads after its own write gets the new
    value. Generators call `notify_changes` themselves.
    """

    #: For people; default: the name of the class.
    title: ClassVar[str] = ""
    #: Semantic types, as prefixed terms: ("saref:LightSwitch",).
    types: ClassVar[Sequence[str]] = ()
    #: IRIs of the prefixes in `types`, beside those of description.PREFIXES.
    context: ClassVar[Mapping[str, str]] = {}
    #: Of its titles and descriptions, for screen readers: a tag of BCP 47, such as "de-AT".
    language: ClassVar[str] = "en"
    #: Where it is, for searches: "ground floor, hall". Set in the class or the object.
    place: str = ""

    #: Its affordances and its Thing Model; filled when the class is made.
    __affordances__: ClassVar[Affordances] = Affordances()
    __model__: ClassVar[Description] = {}
    #: Whether the device is used through another server, so that values which it has told may be older than its own answer.
    __is_proxy__: ClassVar[bool] = False

    #: The last published value of each observable property, packed.
    _notified: dict[str, bytes]

    def __init_subclass__(cls, **options: Any) -> None:
        for attribute, declared in vars(cls).items():
            is_marked = isinstance(declared, Event) or hasattr(declared, MARK)
            if attribute in _OWN or (attribute in _SETTINGS and is_marked):
                raise DeclarationError(
                    f"{cls.__qualname__}.{attribute}: {attribute!r} belongs to the runtime: choose another name"
                )
        for function in list(vars(cls).values()):
            mark = getattr(function, AFFORDANCE, None)
            if isinstance(mark, AffordanceMark) and mark.setter is not None:
                share_type(function, mark.setter)
        for attribute, function in _marked_here(cls):
            setattr(cls, attribute, _notifying(function))
        super().__init_subclass__(**options)
        cls.__affordances__ = affordances_of(cls)
        cls.__access__ = _access(cls)
        cls.__model__ = model_of(
            cls.__qualname__,
            cls.__affordances__,
            title=cls.title or cls.__name__,
            description=inspect.cleandoc(cls.__doc__) if cls.__doc__ else None,
            types=_texts(cls),
            context=cls.context,
            language=cls.language,
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
    def setters(self) -> dict[str, str]:
        """By property: the operation that writes it."""
        affordances = type(self).__affordances__.properties.values()
        return {each.name: each.setter for each in affordances if each.setter is not None}

    @operation(priority=2, idempotent=True)
    def notify_all(self) -> None:
        """Publish all observable properties, changed or not, for a new subscriber that keeps their values."""
        self._notified.clear()
        self.notify_changes()

    def notify_changes(self) -> None:
        """Publish the observable properties that have changed since they were last published. No effect outside a backplane."""
        component = self._component
        if component is None or component._hosted_by is None:
            return
        for each in type(self).__affordances__.properties.values():
            if each.is_observable:
                try:
                    value = msgspec.to_builtins(each.read(self))
                    packed = msgspec.msgpack.encode(
                        value
                    )  # a list that was changed in place is the same object as before
                    if self._notified.get(each.name) != packed:
                        self._notify("property", each.name, value)
                        self._notified[each.name] = packed
                except (
                    Exception
                ):  # the edge: a property that cannot be read must not undo the action behind which it is read
                    log.exception("%s: the new value of property %r is not published", self.name, each.name)
                    self._notified.pop(each.name, None)
                    self._notify("property", each.name, None, is_known=False)

    def _emit(self, event: Event[Any], data: Any) -> None:
        body = msgspec.to_builtins(data)
        try:
            converted(event.kind, body)
        except msgspec.ValidationError as error:
            raise TypeError(f"{type(self).__qualname__}.{event.name}.emit: {error}") from None
        self._notify("event", event.name or "", body)

    def _notify(self, kind: str, name: str, data: Any, *, is_known: bool = True) -> None:
        """`is_known`: the data are the value. Spawned things are in no listing, so nobody could tell them apart."""
        if self._component is not None and number_of(self) is None:
            id = id_of(self._component.component_name, self.key)
            self.publish(
                NOTIFICATIONS, thing=id, process=process_id(), kind=kind, name=name, data=data, is_known=is_known
            )


@functools.cache
def process_id() -> str:
    """Random id of this process in notifications. A gateway discards values whose process has been replaced.

    Made when it is first asked for: a process may be a fork of one that has imported this module.
    """
    return os.urandom(8).hex()


def _access(cls: type[Thing]) -> dict[str, tuple[str, str]]:
    """The access that each operation needs: that of its affordance. Other operations count as actions."""
    access = {spec.name: ("invoke", spec.name) for spec in cls.__operations__.values()}
    for each in cls.__affordances__.properties.values():
        access[each.name] = ("read", each.name)
        if each.setter is not None:
            access[each.setter] = ("write", each.name)
    return access | {"describe": ("", ""), "setters": ("", ""), "notify_all": (MANAGE, "")}


def _texts(cls: type[Thing]) -> Sequence[str]:
    if isinstance(cls.types, str) or not all(isinstance(each, str) for each in cls.types):
        raise DeclarationError(f"{cls.__qualname__}.types = {cls.types!r}: expected a tuple of texts")
    return cls.types


def _marked_here(cls: type) -> list[tuple[str, Callable[..., Any]]]:
    """The marked methods of this class, and of bases that are no things, that may change properties.

    These are all but generators, and methods that read a property.
    """
    found: dict[str, Callable[..., Any]] = {}
    for base in cls.__mro__:
        if base is not cls and issubclass(base, AppObject):
            continue
        for attribute, function in vars(base).items():
            if (
                attribute in found
                or not inspect.isfunction(function)
                or not isinstance(getattr(function, MARK, None), Mark)
            ):
                continue
            affordance = getattr(function, AFFORDANCE, None)
            is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
            if not is_generator and (affordance is None or affordance.kind != "property"):
                found[attribute] = function
    return [(attribute, function) for attribute, function in found.items() if _is_taken_from(cls, attribute, function)]


def _is_taken_from(cls: type, attribute: str, function: Callable[..., Any]) -> bool:
    return inspect.getattr_static(cls, attribute) is function


def _notifying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that changed properties are published after it returns or raises."""
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
