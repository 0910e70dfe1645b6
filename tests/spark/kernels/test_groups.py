"""Groups: what is numbered together is the same route and priority, whatever the file called it."""

from __future__ import annotations

import numpy as np

from appbackplane.spark.kernels.groups import RouteGroups


def test_a_group_is_the_same_under_other_numbers() -> None:
    """Each segment numbers its names anew; an operation that is counted twice apart has wrong percentiles."""
    groups = RouteGroups()
    seen = []
    for routes in ([("a", "x"), ("b", "x"), ("a", "y")], [("a", "y"), ("a", "x"), ("b", "x"), ("c", "z")]):
        random = np.random.default_rng(len(routes))
        route, priority = random.integers(0, len(routes), 5000), random.integers(0, 256, 5000).astype(np.int16)
        groups.naming(routes)
        found = groups.of(route, priority)
        expected = [(*routes[n], p) for n, p in zip(route.tolist(), priority.tolist(), strict=True)]
        assert [groups.keys[n] for n in found.tolist()] == expected
        seen += expected
    assert sorted(groups.keys) == sorted(set(seen))


def test_no_records_are_no_groups() -> None:
    """A piece in which nothing is left is none of the job's business."""
    groups = RouteGroups()
    groups.naming([("a", "x")])
    assert len(groups.of(np.zeros(0, np.int32), np.zeros(0, np.int32))) == 0
    assert groups.keys == []
