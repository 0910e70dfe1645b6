"""Hub: which handler is called for which message, with which data. All there is to read to know who shares what."""

from __future__ import annotations

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, SelectiveProtector

from . import business, incoming, outgoing
from .data import Alarms, Device, Heating, Rules


class Hub(Dispatcher):
    """The house's centre. `wanted`: how warm rooms are to be, °C, until somebody says otherwise."""

    def __init__(self, wanted: float = 21.0) -> None:
        # Locks are taken in the order of construction.
        self.devices = SelectiveProtector[str, Device](lambda device: Device(), keys_max=1000, name="device")
        self.rules = DataProtector(Rules(celsius=wanted))
        self.heating = DataProtector(Heating())
        self.alarms = DataProtector(Alarms())

    def setup(self) -> None:
        """Incoming, business, outgoing."""
        self.register(incoming.take_measurement, self.devices)
        self.register(incoming.take_wish, self.rules)

        self.register(business.watch_limits, self.devices, self.rules, self.alarms)
        self.register(business.keep_warm, self.devices, self.rules, self.heating)

        self.register(outgoing.report, self.heating, self.alarms)
