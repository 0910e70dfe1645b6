"""Outlet: by which handlers send, without knowing to whom they belong."""

from __future__ import annotations

import pytest

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, NoHandler, message
from appbackplane.runtime.dispatcher.sources import Outlet
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InvalidArgument, UnknownRoute


@message(category=961, id=1)
class Order(Message):
    thing: str


@message(category=961, id=2, topic="shipped")
class Shipped(Message):
    thing: str


@message(category=961, id=3)
class Unheard(Message):
    pass


class Stock:
    shipped = 0


def order(message: Order, outlet: Outlet) -> None:
    outlet.post(Shipped(message.thing))
    outlet.cast("printer.label", text=message.thing)
    outlet.send("archive", message)
    outlet.publish(Shipped(message.thing))
    outlet.publish("log", line=message.thing)


def shipped(message: Shipped, stock: Stock) -> None:
    stock.shipped += 1


class Shop(Dispatcher):
    def __init__(self) -> None:
        self.outlet, self.stock = Outlet(), Stock()

    def setup(self) -> None:
        self.register(order, self.outlet)
        self.register(shipped, DataProtector(self.stock))


def test_a_handler_is_tested_with_an_outlet_of_nobodys() -> None:
    """It keeps what was sent."""
    outlet = Outlet()
    order(Order("pen"), outlet)
    assert outlet.posted == outlet.emitted == [Shipped("pen")]
    assert outlet.casts == [("printer.label", {"text": "pen"})]
    assert outlet.sent == [("archive", Order("pen"))]
    assert outlet.published == [("shipped", {"thing": "pen"}), ("log", {"line": "pen"})]


def test_what_could_not_be_sent_fails_the_test_of_its_handler() -> None:
    """With an outlet of nobody's as with one that sends."""

    class Undeclared(Message):
        pass

    outlet = Outlet()
    with pytest.raises(InvalidArgument, match="5 is not a message"):
        outlet.post(5)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="Undeclared has no identity"):
        outlet.send("archive", Undeclared())
    with pytest.raises(DeclarationError, match="Message has no identity"):
        outlet.publish(Message())
    with pytest.raises(InvalidArgument, match="a topic is words"):
        outlet.publish(5)  # type: ignore[arg-type]
    assert outlet.emitted == outlet.sent == outlet.published == []


def test_what_a_handler_sends_arrives() -> None:
    """Here, elsewhere, and at whoever listens."""
    shop = Shop()
    backplane = VirtualBackplane(shop, outside=("printer.label", "archive.order"), topics=("shipped", "log"))
    backplane.call("shop.order", thing="pen").result()
    assert shop.stock.shipped == 2, "posted, and heard on its topic"
    assert backplane.casts == [("printer.label", {"text": "pen"}), ("archive.order", {"thing": "pen"})]
    assert backplane.published == [("shipped", {"thing": "pen"}), ("log", {"line": "pen"})]


def test_what_cannot_be_sent_is_told_to_the_handler() -> None:
    """It is its mistake, and nobody else would hear of it."""
    shop = Shop()
    backplane = VirtualBackplane(shop)
    backplane.run_until_idle()
    _ = backplane.backplane
    with pytest.raises(NoHandler):
        shop.outlet.post(Unheard())
    with pytest.raises(UnknownRoute):
        shop.outlet.send("nobody", Order("pen"))
    with pytest.raises(InvalidArgument, match="Order has no topic"):
        shop.outlet.publish(Order("pen"))


def test_handlers_that_end_the_work_may_send() -> None:
    """While it is drained, and when it is down: what they send belongs to what has begun."""
    shop = Shop()
    backplane = VirtualBackplane(shop)
    backplane.run_until_idle()
    backplane.backplane.engine.lifecycle.suspend_timers()
    backplane.move("down")
    shop.outlet.post(Shipped("pen"))
    backplane.run_until_idle()
    assert shop.stock.shipped == 1
