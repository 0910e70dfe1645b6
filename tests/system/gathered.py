"""Components whose work a test holds until it has gathered what it wants behind it."""

from __future__ import annotations

import threading

from appbackplane.runtime import Adaptive, AppObject, Batch, Component, operation


class Press(AppObject):
    """Its first piece of work holds it until `go`."""

    def __init__(self, may_go: threading.Event) -> None:
        self.may_go = may_go
        self.printed: list[int] = []

    @operation(admit=Adaptive(aim_ms=20))
    def print(self, page: int) -> int:
        self.may_go.wait()
        self.printed.append(page)
        return page

    @operation(batch=Batch(max=64))
    def bind(self, page: list[int]) -> list[int]:
        self.may_go.wait()
        return [len(page)] * len(page)

    @operation()
    def pages(self) -> list[int]:
        return self.printed


class Desk(AppObject):
    """Serves as many at a time as it has threads."""

    concurrency = 3

    def __init__(self, may_go: threading.Event) -> None:
        self.may_go = may_go
        self.names: list[str] = []

    @operation()
    def sign(self) -> list[str]:
        self.names.append(threading.current_thread().name)
        self.may_go.wait()
        return self.names


class Shop(Component):
    """A press and a desk, and whoever lets them go."""

    def setup(self) -> None:
        self.may_go = threading.Event()
        self.add(Press(self.may_go), key="press")
        self.desk = Desk(self.may_go)
        self.add(self.desk, key="desk")

    @operation(priority=0)
    def go(self) -> None:
        self.may_go.set()

    @operation(priority=0)
    def signed_count(self) -> int:
        return len(self.desk.names)
