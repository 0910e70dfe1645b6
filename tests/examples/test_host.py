"""Host publishes what the machine does, at its own pace."""

from codesearch.host import Host

from appbackplane.runtime.testing import VirtualBackplane


def test_four_samples_a_second_are_published() -> None:
    """Whoever shows the machine need not ask, and sees a load before it has passed."""
    backplane = VirtualBackplane(Host(), topics=("host.sample",))
    backplane.advance(1.0)
    assert [topic for topic, _ in backplane.published] == ["host.sample"] * 4
    sample = dict(backplane.published[-1][1])
    assert backplane.call("host.latest").result() == sample
    assert 0 <= sample["cpu_percent"] <= 100
    assert 0 < sample["memory_used"] < sample["memory_total"]
    assert 0 < sample["disk_used"] < sample["disk_total"]
