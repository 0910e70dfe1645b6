"""Hub: which handler is called for which message, with which data. All there is to read to know who shares what."""

from __future__ import annotations

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, SelectiveProtector
from appbackplane.runtime.dispatcher.sources import Outlet, TimerSource

from . import business, incoming, outgoing
from .data import Alarms, Device, Heating, Rules
from .messages import Collect

#: How often heaters are told what to do. A room takes minutes to become a degree warmer; this is for those who watch.
ORDERS_S = 1.0
#: Devices at most: a network full of strangers must not fill the memory.
DEVICES_MAX = 1000


class Hub(Dispatcher):
    """The house's centre. `wanted`: how warm rooms are to be, °C, until somebody says otherwise."""

    def __init__(self, wanted: float = 21.0) -> None:
        # Locks are taken in the order of construction.
        self.devices = SelectiveProtector[str, Device](Device, keys_max=DEVICES_MAX)
        self.rules = DataProtector(Rules(celsius=wanted))
        self.heating = DataProtector(Heating())
        self.alarms = DataProtector(Alarms())
        # These look after themselves.
        self.timers = self.attach(TimerSource())
        self.out = self.attach(Outlet())

    def setup(self) -> None:
        """Incoming, business, outgoing."""
        self.register(incoming.take_measurement, self.devices, self.timers)
        self.register(incoming.take_silence, self.devices)
        self.register(incoming.take_wish, self.rules)

        self.register(business.watch, self.rules, self.alarms, self.out)
        self.register(business.keep_warm, self.rules, self.heating)
        self.register(business.reconsider, self.rules, self.heating)

        self.register(outgoing.send_orders, self.heating, self.out)
        self.register(outgoing.send_alert, self.out)
        self.register(outgoing.report, self.heating, self.alarms)
        self.timers.begin(ORDERS_S, Collect(), every=ORDERS_S)
