"""FaultProxy: a bad network between any clients and one address, for tests; needs no privilege.

    with FaultProxy(("127.0.0.1", port), down=Faults(delay_s=0.02)) as proxy:
        sock = socket.create_connection(proxy.address)
        proxy.cut("up")                      # what the clients say is heard no more; proxy.heal()
        proxy.wait_for(down_bytes=1000)      # the event, not a time

Every call has taken effect when it returns. The same seed hits the same places of the same connections (loss, corruption,
jitter); what depends on when bytes come does not repeat exactly. What it is not: a handshake is answered at once whatever
the delay, for the kernel does that; and who connects is connected before the upstream address is.
"""

from __future__ import annotations

import dataclasses
import json
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from tests.network.faults import Counts, Direction, Faults
from tests.waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]


class FaultProxy:
    """A link to `upstream` that is as good or bad as it is told to be. Several threads may use it."""

    def __init__(
        self,
        upstream: tuple[str, int],
        *,
        up: Faults | None = None,
        down: Faults | None = None,
        both: Faults | None = None,
        seed: int = 1,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        """`host`: where it listens; `prefix`: words before its command, as those that run it in a network namespace."""
        words = ["-S", "-m", "tests.network.forwarder", host, upstream[0], str(upstream[1]), str(seed)]
        self.upstream, self.seed = upstream, seed
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            [*prefix, sys.executable, *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # select() sees what the kernel has, and nothing of a buffer here
        )
        self._is_owed = False  # an answer that nobody waited for to the end
        try:
            self.address = (host, int(self._line(LIMIT_S)))
            self.set(up=up, down=down, both=both)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        """With its seed, as pytest shows it where a test fails."""
        return f"<FaultProxy {self.address} to {self.upstream}, seed {self.seed}>"

    def __enter__(self) -> Self:
        """As itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """End it, and with it all its connections."""
        with self.process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    # What is wrong

    def set(self, *, up: Faults | None = None, down: Faults | None = None, both: Faults | None = None) -> Counts:
        """From now on; a direction that is not named stays as it is."""
        faults = {name: dataclasses.asdict(f) for name, f in (("up", up or both), ("down", down or both)) if f}
        return self._do("set", **faults)

    def stall(self, stall_s: float, direction: Direction = "both") -> Counts:
        """Hold everything for so long, and then let it go in order."""
        return self._do("stall", lanes=lanes(direction), stall_s=stall_s)

    def cut(self, direction: Direction = "both") -> Counts:
        """Silence: nothing moves, no end of a connection is seen, nobody can connect. Nothing is lost if it heals."""
        return self._do("cut", lanes=lanes(direction))

    def reset(self) -> Counts:
        """End all connections with an RST, and refuse others until `heal`."""
        return self._do("reset")

    def forget(self, side: Literal["client", "upstream"]) -> Counts:
        """Half-open: that side is gone (it sees an RST), and the other side's connections stay, and nobody answers.

        Until `heal`, when they meet an RST, as from a host that has started anew. New connections are as always.
        """
        if side not in ("client", "upstream"):
            raise ValueError(f"side is {side!r}: give 'client' or 'upstream', the one that is gone")
        return self._do("forget", side=side)

    def heal(self) -> Counts:
        """No cut and no stall any more; what `set` says stays. Who could not connect tries again in its own time."""
        return self._do("heal")

    # What became of it

    def counts(self) -> Counts:
        """Of now."""
        return self._do("count")

    def wait_for(self, limit_s: float = LIMIT_S, **at_least: int) -> Counts:
        """Until the counts are that high: `wait_for(accepted=2, up_bytes=1000)`."""
        unknown = set(at_least) - {field.name for field in dataclasses.fields(Counts)} | {"open"} & set(at_least)
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: no count that only grows (tests/network/faults.py)")
        try:
            return self._do("wait", limit_s, **at_least)
        except TimeoutError:
            raise TimeoutError(f"after {limit_s} s waiting for {at_least}: {self.counts()}") from None

    # Its process

    def _do(self, name: str, limit_s: float = LIMIT_S, /, **words: Any) -> Counts:
        with self._lock:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"do": name, **words}).encode() + b"\n")
            if self._is_owed:
                self._line(LIMIT_S)
                self._is_owed = False
            try:
                return Counts(**json.loads(self._line(limit_s)))
            except TimeoutError:
                self._is_owed = True
                raise

    def _line(self, limit_s: float) -> bytes:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], limit_s)[0]:
            raise TimeoutError(f"the proxy has not answered within {limit_s} s")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the proxy's process has ended: the reason is on standard error")
        return line


def lanes(direction: Direction) -> list[str]:
    """The names of the lanes of a direction."""
    if direction not in ("up", "down", "both"):
        raise ValueError(f"direction is {direction!r}: give 'up' (from the clients), 'down' or 'both'")
    return ["up", "down"] if direction == "both" else [direction]
