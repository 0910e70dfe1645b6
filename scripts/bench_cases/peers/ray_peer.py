"""ray: an actor in a local cluster of one node."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from ..harness.bulk import compute


class Server:
    def echo(self, text: str) -> str:
        return text

    def work(self, seconds: float) -> None:
        compute(seconds)


class Pending:
    """A reference, with the words of a future."""

    __slots__ = ("_reference",)

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def result(self) -> Any:
        return ray.get(self._reference)


class Client:
    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def submit(self, text: str) -> Pending:
        return Pending(self._actor.echo.remote(text))

    def submit_work(self, seconds: float) -> Pending:
        return Pending(self._actor.work.remote(seconds))


@contextmanager
def serving() -> Iterator[Client]:
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        client = Client(ray.remote(Server).remote())
        client.submit("are you there?").result()
        yield client
    finally:
        ray.shutdown()
