"""Drivers: what they are asked for, and what becomes of their errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from appbackplane.runtime import BackplaneError, Busy, FailedPrecondition, InternalError, Unavailable
from appbackplane.runtime.things.proxies import Driver, DriverForm
from appbackplane.runtime.things.proxies.consumed_description import DescriptionError, Form, description_from
from appbackplane.runtime.things.proxies.driver import DriverBinding, driver_of

TD = {
    "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": "urn:dev:boiler", "title": "Boiler", "security": "key",
    "securityDefinitions": {"key": {"scheme": "psk"}},
    "properties": {"level": {"forms": [
        {"href": "modbus+tcp://10.0.0.7:502/1", "op": ["readproperty", "writeproperty"], "modv:address": 40001},
        {"href": "modbus+tcp://10.0.0.7:502/2", "op": ["observeproperty"]}]}},
    "actions": {"purge": {"forms": [{"href": "modbus+tcp://10.0.0.7:502/3"}]}},
    "events": {"leak": {"forms": [{"href": "modbus+tcp://10.0.0.7:502/4"}]}},
}  # fmt: skip


class Boiler(Driver):
    """Answers with what it was asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Any] = []

    async def read(self, form: DriverForm) -> Any:
        if self.error is not None:
            raise self.error
        self.asked.append(("read", form.name, form.href, form.members.get("modv:address")))
        return 7

    async def write(self, form: DriverForm, value: Any) -> None:
        self.asked.append(("write", form.name, value))

    async def follow(self, form: DriverForm) -> AsyncIterator[Any]:
        yield form.name
        yield 2


def request(driver: Driver, form: Form | None, body: Any = None) -> Any:
    """One request to it."""
    assert form is not None
    return asyncio.run(DriverBinding(driver).request(form, body, 1.0))


def test_forms_of_any_protocol_are_for_the_driver() -> None:
    """As they stand in the description, its security included."""
    td = description_from(msgspec.json.encode(TD), "", (), has_driver=True)
    level, boiler = td.properties["level"], Boiler()
    assert td.left_out == [] and td.security.scheme == "nosec"
    assert request(boiler, level.read) == 7 and request(boiler, level.write, 3) is None
    assert boiler.asked == [("read", "level", "modbus+tcp://10.0.0.7:502/1", 40001), ("write", "level", 3)]

    async def heard() -> list[Any]:
        assert td.events["leak"].stream is not None
        return [each async for each in DriverBinding(boiler).messages(td.events["leak"].stream)]

    assert asyncio.run(heard()) == ["leak", 2] and level.said["observable"] is True
    with pytest.raises(FailedPrecondition, match="Boiler has no actions"):
        request(boiler, td.actions["purge"].invoke)
    with pytest.raises(DescriptionError, match="its security is psk"):
        description_from(msgspec.json.encode(TD), "", ())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("no route to host"), Unavailable),
        (TimeoutError("silent"), Unavailable),
        (Busy("it moves", retry_after=2.0), Busy),
        (ValueError("a bug"), InternalError),
    ],
)
def test_errors_of_a_driver(error: Exception, kind: type[BackplaneError]) -> None:
    """A device that is away is no bug; a bug is logged with its traceback, and told without."""
    form = description_from(msgspec.json.encode(TD), "", (), has_driver=True).properties["level"].read
    with pytest.raises(kind, match=str(error)):
        request(Boiler(error), form)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("nowhere_at_all:Boiler", {}, "No module named 'nowhere_at_all'"),
        (f"{__name__}:TD", {}, "expected module:Class, a subclass of Driver"),
        (__name__, {}, "expected module:Class, a subclass of Driver"),
        (f"{__name__}:Boiler", {"eror": 1}, "unexpected keyword argument 'eror'"),
    ],
)
def test_a_driver_that_cannot_be_made_says_why(name: str, options: dict[str, Any], words: str) -> None:
    """In one line, of its proxy alone."""
    with pytest.raises(DescriptionError) as caught:
        driver_of(name, options)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert isinstance(driver_of(f"{__name__}:Boiler", {}), Driver)
