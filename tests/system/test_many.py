"""Many backplanes: what one more peer costs. How long a system takes to come up is measured by `scripts/bench startup`."""

from __future__ import annotations

import psutil

from tests.figures import IS_LONG

from .conftest import Up

LEAVES_COUNT = 30 if IS_LONG else 5


def test_talking_to_many_backplanes_adds_no_thread(up: Up) -> None:
    """One link a process: with a thread a peer, a large system would spend its time between threads."""
    leaves = [f"leaf{number}" for number in range(LEAVES_COUNT)]
    toml = '[backplane.hub]\ncomponents = ["components:Hub"]\n'
    for leaf in leaves:
        toml += f'[backplane.{leaf}]\ncomponents = ["components:Leaf"]\nsettings.Leaf.name = "{leaf}"\n'
    system = up(toml)
    pids = system.pids()
    hub = psutil.Process(pids["hub"])
    with system.connect() as client:
        assert client.call("hub.ask", leaves=[]) == []
        threads, python_threads, fds = hub.num_threads(), client.call("hub.threads"), hub.num_fds()
        assert client.call("hub.ask", leaves=leaves) == [pids[leaf] for leaf in leaves]
        assert (hub.num_threads(), client.call("hub.threads")) == (threads, python_threads)
        assert hub.num_fds() - fds <= 2 * LEAVES_COUNT
