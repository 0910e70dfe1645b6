"""What users may import: all that `__all__` says, and none of it before it is asked for."""

import subprocess
import sys

from appbackplane import transport


def test_all_that_is_promised_is_there() -> None:
    """Half of it is imported later: a typing error there would be found by users."""
    assert sorted(transport.__all__) == list(transport.__all__)
    for name in transport.__all__:
        assert getattr(transport, name).__doc__, f"{name} tells its caller nothing"
    assert set(transport.__all__) <= set(dir(transport))
    assert not hasattr(transport, "nonsense")


def test_a_backplane_does_not_pay_for_the_clients() -> None:
    """DESIGN 11. Every process of a system imports this folder at every start."""
    code = "import sys, appbackplane.transport; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"asyncio", "zmq", "socket", "appbackplane.transport.client"}.isdisjoint(run.stdout.split())
