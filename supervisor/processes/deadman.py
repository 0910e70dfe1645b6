"""Deadman: the kernel kills this process at a given moment, unless the process postpones it; its backplanes die with it.

For a primary node whose supervisor is stopped, or sleeps, or hangs: it must not come back after its lease and go on as if it
were still primary. A kernel timer (timer_create(2)) sends SIGKILL, on a clock that goes on while the machine sleeps: it also
reaches a stopped process, and one that wakes is dead before it runs. Backplanes of a cluster ask the kernel to die with
their supervisor (runtime/process.py), which reaches stopped ones as well.
"""

from __future__ import annotations

import ctypes
import os
import signal

from appbackplane.transport.errors import FailedPrecondition

#: linux/time.h, asm-generic/siginfo.h.
_CLOCK_BOOTTIME, _SIGEV_SIGNAL, _TIMER_ABSTIME = 7, 0, 1
_NS = 1_000_000_000


class _Sigevent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48),
    )  # fmt: skip


class _Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Deadman:
    """One timer of this process; a child does not inherit it."""

    def __init__(self) -> None:
        """Raises OSError; `FailedPrecondition` in process 1, to which the kernel delivers no SIGKILL of its own timers."""
        if os.getpid() == 1:
            what = "the kernel does not kill process 1 of a container at the end of its lease"
            raise FailedPrecondition(f"cluster: {what}: run it below an init (docker run --init, tini)")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer = ctypes.c_void_p()
        event = _Sigevent(None, signal.SIGKILL, _SIGEV_SIGNAL, b"")
        self._check(self._libc.timer_create(_CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._timer)))

    def set(self, at_ns: int | None) -> None:
        """Set the moment, by CLOCK_BOOTTIME; a past one kills at once. None: never."""
        at = _Timespec() if at_ns is None else _Timespec(*divmod(max(1, at_ns), _NS))
        spec = _Itimerspec(_Timespec(), at)
        self._check(self._libc.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(spec), None))

    def _check(self, result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"a timer of the kernel's: {os.strerror(number)}")
