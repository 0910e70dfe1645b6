"""Host: the devices of this machine as things, one for each kind, which look once a second.

What a machine does not tell is null, and the property `unknown` says why: most virtual machines have neither thermometers nor
a battery, and the energy counters of processors are readable by root alone on most systems.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

import psutil

from appbackplane.runtime import Component, every
from appbackplane.runtime.things import Thing, prop

from .rates import CounterRate

POWERCAP: Final = Path("/sys/class/powercap")
_FIRST: Final = "a rate needs two looks"
_NO_DISK: Final = "the kernel shows no disk"
#: Chips that know the temperature of a processor, by what they call themselves to psutil.
_THERMOMETERS: Final = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "acpitz")


class HostDevice(Thing):
    """A kind of device of this host."""

    types: ClassVar[Sequence[str]] = ("sosa:Sensor",)

    def __init__(self) -> None:
        self._unknown: dict[str, str] = {}
        self.look(time.monotonic_ns())

    @prop(observable=True)
    def unknown(self) -> dict[str, str]:
        """Why a property is null, by its name."""
        return self._unknown

    @every(1.0)
    def sample(self) -> None:
        """Look at the device."""
        self.look(time.monotonic_ns())

    def look(self, now_ns: int) -> None:
        """Subclasses read their values here, and call `_why`."""
        raise NotImplementedError

    def _why(self, **reasons: str | None) -> None:
        """Keep the reasons that are given."""
        self._unknown = {name: reason for name, reason in reasons.items() if reason is not None}


class HostCpu(HostDevice):
    """The processor."""

    _has_looked = False

    def look(self, now_ns: int) -> None:
        use = psutil.cpu_percent()  # since the last look; at first it is 0
        self._use, self._has_looked = use if self._has_looked else None, True
        frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
        self._frequency = frequency.current if frequency is not None and frequency.current > 0 else None
        chips = psutil.sensors_temperatures() if hasattr(psutil, "sensors_temperatures") else {}
        found = [each.current for chip in _THERMOMETERS for each in chips.get(chip, ()) if each.current is not None]
        self._temperature = max(found, default=None)
        self._why(
            use=_FIRST if self._use is None else None,
            frequency="the kernel does not tell it" if self._frequency is None else None,
            temperature="the processor has no thermometer that is visible here" if self._temperature is None else None,
        )

    @prop(observable=True, unit="percent")
    def use(self) -> float | None:
        return self._use

    @prop(observable=True, unit="megahertz")
    def frequency(self) -> float | None:
        return self._frequency

    @prop(observable=True, unit="celsius")
    def temperature(self) -> float | None:
        """Of its hottest part."""
        return self._temperature


class HostMemory(HostDevice):
    """The memory."""

    def look(self, now_ns: int) -> None:
        found = psutil.virtual_memory()
        self._total, self._use = found.total, found.percent

    @prop(observable=True, unit="percent")
    def use(self) -> float:
        return self._use

    @prop(observable=True, unit="bytes")
    def total(self) -> int:
        return self._total


class HostBattery(HostDevice):
    """The battery of a laptop."""

    def look(self, now_ns: int) -> None:
        found = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        self._level = None if found is None else found.percent
        self._is_plugged = None if found is None else found.power_plugged
        why = "this host has no battery" if found is None else "the battery does not tell it"
        self._why(
            level=why if self._level is None else None, is_plugged=why if self._is_plugged is None else None
        )  # fmt: skip

    @prop(observable=True, unit="percent")
    def level(self) -> float | None:
        return self._level

    @prop(observable=True)
    def is_plugged(self) -> bool | None:
        return self._is_plugged


class HostPower(HostDevice):
    """The power that the processors draw, from their own energy counters (Linux powercap, RAPL)."""

    types = ("sosa:Sensor", "saref:Meter")

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._powercap = powercap
        self._rates: dict[Path, CounterRate] = {}
        super().__init__()

    def look(self, now_ns: int) -> None:
        try:
            packages = list(self._packages())
            watts = [self._watts(package, now_ns) for package in packages]
        except OSError as error:
            self._rates.clear()
            self._power, why = None, f"{error.filename}: {error.strerror}"
        else:
            known = [each for each in watts if each is not None]
            self._power = sum(known) if known and len(known) == len(packages) else None
            why = _FIRST if packages else f"no energy counter of a processor in {self._powercap}"
        self._why(power=why if self._power is None else None)

    @prop(observable=True, unit="watt")
    def power(self) -> float | None:
        """Of all processors together, memory not included."""
        return self._power

    def _packages(self) -> Iterator[Path]:
        """The counters of whole processors. Those of their parts would be counted twice."""
        for zone in sorted(self._powercap.glob("*:*")):
            if (zone / "name").read_text().startswith("package"):
                yield zone

    def _watts(self, package: Path, now_ns: int) -> float | None:
        microjoules = int((package / "energy_uj").read_text())
        if package not in self._rates:
            self._rates[package] = CounterRate(int((package / "max_energy_range_uj").read_text()))
        rate = self._rates[package].take(microjoules, now_ns)
        return None if rate is None else rate / 1e6


class HostDisk(HostDevice):
    """The disks. `path`: a folder on the file system whose space is told."""

    def __init__(self, path: str = "/") -> None:
        self._path = path
        self._read_rate, self._written_rate = CounterRate(), CounterRate()
        super().__init__()

    def look(self, now_ns: int) -> None:
        self._use = psutil.disk_usage(self._path).percent
        found = psutil.disk_io_counters()
        self._read = self._read_rate.take(None if found is None else found.read_bytes, now_ns)
        self._written = self._written_rate.take(None if found is None else found.write_bytes, now_ns)
        why = _NO_DISK if found is None else _FIRST
        self._why(read=why if self._read is None else None, written=why if self._written is None else None)

    @prop(observable=True, unit="percent")
    def use(self) -> float:
        return self._use

    @prop(observable=True, unit="bytes per second")
    def read(self) -> float | None:
        return self._read

    @prop(observable=True, unit="bytes per second")
    def written(self) -> float | None:
        return self._written


class HostNetwork(HostDevice):
    """The network interfaces, without the loopback."""

    def __init__(self) -> None:
        self._received_rate, self._sent_rate = CounterRate(), CounterRate()
        super().__init__()

    def look(self, now_ns: int) -> None:
        found = [each for name, each in psutil.net_io_counters(pernic=True).items() if name != "lo"]
        self._received = self._received_rate.take(sum(each.bytes_recv for each in found) if found else None, now_ns)
        self._sent = self._sent_rate.take(sum(each.bytes_sent for each in found) if found else None, now_ns)
        why = _FIRST if found else "this host has no network interface beside the loopback"
        self._why(received=why if self._received is None else None, sent=why if self._sent is None else None)

    @prop(observable=True, unit="bytes per second")
    def received(self) -> float | None:
        return self._received

    @prop(observable=True, unit="bytes per second")
    def sent(self) -> float | None:
        return self._sent


class HostDevices(Component):
    """The devices of this host. `disk`: a folder on the file system whose space is told."""

    component_name = "host"

    def __init__(self, disk: str = "/") -> None:
        self._disk = disk

    def setup(self) -> None:
        """Each of them has a key."""
        self.add(HostCpu(), key="cpu")
        self.add(HostMemory(), key="memory")
        self.add(HostBattery(), key="battery")
        self.add(HostPower(), key="power")
        self.add(HostDisk(self._disk), key="disk")
        self.add(HostNetwork(), key="network")
