"""peers: calls a second from a client of one node to a component of another, 1000 outstanding; and one at a time.

Two systems on this host, each a node with keys of its own, over TCP on loopback, encrypted. A call passes four processes and
as many back: client, node a, node b, echo. References: raw pyzmq with CURVE between two processes, one frame a call and the
same window; and a call on this host that passes two processes more on its way, by operations that pass it on. A surprise would
be less than the first: coalescing has to pay for two processes more.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from appbackplane.transport import connect
from appbackplane.transport.errors import BackplaneError
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder

from .call_pipelined import CALLS, WINDOW, raw_per_s
from .harness import relay
from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.echo import COMPONENT
from .harness.raw import raw_echo_by_curve
from .harness.systems import running, up
from .harness.timing import pipelined_per_s, round_trips_us

LONE_CALLS = 300
NAMES = ("a", "b")
MET_S_MAX = 30.0
#: The other node's, not this one's own.
THERE = "b/echo.echo"


@contextmanager
def both(_is_quick: bool) -> Iterator[Sides]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ab-")))
        run_dirs = [stack.enter_context(up(toml)) for toml in nodes(folder)]
        client = stack.enter_context(connect(run_dirs[0]))
        end_s = time.monotonic() + MET_S_MAX
        while True:
            try:
                client.call(THERE, text="are you there?", timeout=1.0)
                break
            except BackplaneError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)
        raw = stack.enter_context(raw_echo_by_curve())
        near = stack.enter_context(running(relay.BACKPLANES)).client

        def ours() -> Figures:
            taken = sorted(round_trips_us(lambda: client.call(THERE, text="x"), LONE_CALLS))
            per_s = pipelined_per_s(lambda: client.submit(THERE, text="x"), CALLS, WINDOW)
            return {"per_s": per_s, "p50_us": taken[len(taken) // 2]}

        def reference() -> Figures:
            taken = sorted(round_trips_us(lambda: raw.call(text="x"), LONE_CALLS))
            relayed_per_s = pipelined_per_s(lambda: near.submit(relay.ROUTE, text="x"), CALLS, WINDOW)
            return {"per_s": raw_per_s(raw), "relayed_per_s": relayed_per_s, "p50_us": taken[len(taken) // 2]}

        yield Sides(ours, reference)


def nodes(folder: Path, components: Mapping[str, str] | None = None) -> list[Path]:
    """The TOML of each; each knows the others. `components`: the lines of the table of its backplane, by node."""
    rings = {name: Keyring(folder / name / "keys") for name in NAMES}
    keys = {name: ring.make_own() for name, ring in rings.items()}
    for name, ring in rings.items():
        for other in NAMES:
            if other != name:
                ring.change(lambda before, other=other: before.trusting(Holder(other, keys[other])))
    ports = free_ports(len(NAMES))
    tomls = []
    for name, port in zip(NAMES, ports, strict=True):
        toml = folder / name / "bench.toml"
        others = ((other, at) for other, at in zip(NAMES, ports, strict=True) if other != name)
        seeds = "[peers]\n" + "".join(f'"tcp://127.0.0.1:{at}" = "{other}"\n' for other, at in others)
        node = f'[node]\nname = "{name}"\nlisten = "tcp://127.0.0.1:{port}"\nkeys = "{folder / name / "keys"}"\n'
        backplane = f"[backplane.worker]\n{COMPONENT if components is None else components[name]}\n"
        toml.write_text(f'[system]\nname = "bench-{name}"\nrun_dir = "run"\n{node}{seeds}{backplane}', encoding="utf-8")
        tomls.append(toml)
    return tomls


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


CASE = Case(
    name="peers",
    what="1000 outstanding calls from node to node; reference: raw pyzmq CURVE between two processes, one frame a call",
    requirements=(
        Requirement("calls/s ratio", ratio("per_s"), at_least=1.0),
        Requirement(
            "calls/s, of those of a call by as many processes on one host",
            lambda ours, reference: ours["per_s"] / reference["relayed_per_s"],
            at_least=0.8,
        ),
    ),
    open=both,
    rounds=8,
    quick_rounds=3,
)
