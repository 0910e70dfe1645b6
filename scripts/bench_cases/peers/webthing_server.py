"""webthing-python serves one thing: python -m bench_cases.peers.webthing_server PORT SECONDS. Its action computes so long."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import webthing

from ..harness.bulk import compute


class Crunch(webthing.Action):  # type: ignore[misc]
    seconds = 0.0

    def __init__(self, thing: Any, input_: Any) -> None:
        super().__init__(uuid.uuid4().hex, thing, "crunch", input_=input_)

    def perform_action(self) -> None:
        compute(self.seconds)


def main(port: int, seconds: float) -> None:
    Crunch.seconds = seconds
    thing = webthing.Thing("urn:bench:machine", "machine")
    thing.add_property(webthing.Property(thing, "level", webthing.Value(7), {"type": "integer", "readOnly": True}))
    thing.add_available_action("crunch", {}, Crunch)
    server = webthing.WebThingServer(webthing.SingleThing(thing), port=port, hostname="127.0.0.1")
    print("ready", flush=True)
    server.start()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
