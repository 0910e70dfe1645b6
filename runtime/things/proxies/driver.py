"""Driver: a class that speaks the protocol of a device, where that is not HTTP. The description says what the device can do.

A driver knows nothing of callers, permissions and limits: those are the proxy's. Its methods run in the event loop of all
proxies of a component, so they must not block it: a blocking library is called by `asyncio.to_thread`.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from appbackplane.transport.errors import BackplaneError, FailedPrecondition, InternalError, Unavailable

from .consumed_description import DescriptionError, Form

#: Seconds after which a caller of a device that cannot be reached may come again.
RETRY_AFTER_S: Final = 1.0
log = logging.getLogger("appbackplane.proxies")


@dataclass(frozen=True, slots=True)
class DriverForm:
    """A form of the description. `name`: of the affordance. `members`: all of the form, such as `modv:address`."""

    name: str
    href: str
    members: Mapping[str, Any] = field(default_factory=dict)


class Driver:
    """Subclass it, and name the class in the settings of the proxy: `driver = "heating:Heater"`. `options` are its keywords.

    A device that cannot be reached: raise OSError or TimeoutError, and callers get `Unavailable`. Errors of this project reach
    them as they are. The time of a call is limited: the method is cancelled at its end.
    """

    async def read(self, form: DriverForm) -> Any:
        """The value of a property."""
        raise FailedPrecondition(f"{type(self).__qualname__} reads no properties")

    async def write(self, form: DriverForm, value: Any) -> None:
        """Set a property."""
        raise FailedPrecondition(f"{type(self).__qualname__} writes no properties")

    async def invoke(self, form: DriverForm, arguments: Any) -> Any:
        """Do an action; its result. `arguments`: by name; None: it has none."""
        raise FailedPrecondition(f"{type(self).__qualname__} has no actions")

    def follow(self, form: DriverForm) -> AsyncIterator[Any]:
        """The values of an observed property, or the data of an event, for as long as the device tells them."""
        raise FailedPrecondition(f"{type(self).__qualname__} observes nothing")

    async def close(self) -> None:
        """The process ends."""


class DriverBinding:
    """Passes the requests of one thing to its driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def request(self, form: Form, body: Any, limit_s: float) -> Any:
        """The value that answers a request. Raises `BackplaneError`."""
        driver, asked = self.driver, _asked(form)
        try:
            if form.op == "readproperty":
                return msgspec.to_builtins(await driver.read(asked))
            if form.op == "writeproperty":
                return await driver.write(asked, body)
            return msgspec.to_builtins(await driver.invoke(asked, body))
        except BackplaneError:
            raise
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"{form.url} cannot be reached: {error}", retry_after=RETRY_AFTER_S) from None
        except Exception as error:
            log.exception("%s failed at %s of %s", type(driver).__qualname__, form.op, form.url)
            raise InternalError(f"{type(driver).__qualname__}: {type(error).__name__}: {error}") from None

    async def messages(self, form: Form) -> AsyncIterator[Any]:
        """Those of a stream. Raises what the driver raises."""
        async for each in self.driver.follow(_asked(form)):
            yield msgspec.to_builtins(each)

    async def close(self) -> None:
        await self.driver.close()


def _asked(form: Form) -> DriverForm:
    return DriverForm(form.name, form.url, form.members)


def driver_of(name: str, options: Mapping[str, Any]) -> Driver:
    """The driver of a class, "module:Class". Raises `DescriptionError`."""
    module_name, _, class_name = name.partition(":")
    try:
        cls = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise DescriptionError(f"driver {name!r}: {error}") from None
    if not (isinstance(cls, type) and issubclass(cls, Driver)):
        raise DescriptionError(f"driver {name!r}: expected module:Class, a subclass of Driver")
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        raise DescriptionError(f"driver {name!r}: {error}") from None
