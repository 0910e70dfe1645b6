"""The applications of the architectures, without processes: what their answers say, and how a ticket moves."""

import os

from applications import Alerts, Application, Billing, Orders

from appbackplane.runtime import FailedPrecondition
from appbackplane.runtime.testing import VirtualBackplane


def test_an_answer_says_who_served_it() -> None:
    """Without that, an architecture could not be told from another from outside."""
    backplane = VirtualBackplane(Orders(), Billing(), Alerts())
    for application in ("orders", "billing", "alerts"):
        served = backplane.call(f"{application}.work", seconds=0).result()
        assert served["application"] == application
        assert served["process"] == os.getpid()
        assert served["began_ns"] <= served["ended_ns"]
        assert backplane.call(f"{application}.threads").result()["served"] == {str(served["thread"]): 1}


def test_the_three_differ_in_name_only() -> None:
    """The same class, unchanged, is the point of the example: a method here would end it."""
    for kind in (Orders, Billing, Alerts):
        assert kind.__mro__[1] is Application
        assert {name for name in vars(kind) if not name.startswith("__")} <= {"component_name"}
        assert "__init__" not in vars(kind)


def test_a_shipment_waits_for_its_payment() -> None:
    """A machine takes what its state accepts; what came too early is neither lost nor done out of order."""
    backplane = VirtualBackplane(Orders(desks=0, tickets=2))
    early = backplane.call("orders.ship", key="ticket-1")
    backplane.run_until_idle()
    assert not early.done()
    assert backplane.call("orders.pay", key="ticket-1").result()["state"] == "paid"
    assert early.result()["state"] == "shipped"
    error = backplane.call("orders.pay", key="ticket-1").error()
    assert isinstance(error, FailedPrecondition)
    assert "SHIPPED" in str(error)
    assert backplane.call("orders.pay", key="ticket-0").result()["state"] == "paid", "another machine, another state"
