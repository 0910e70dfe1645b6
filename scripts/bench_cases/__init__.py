"""Benchmarks: one promise of the project a file, each measured against a reference in the same run.

`scripts/bench` runs them. A case brings both sides up together and measures them in alternating slices, so that a machine
that grows slow, or lets its cores sleep, hits both alike; what is judged is the median over the slices. Nothing is cached
and no figure is typed in. Read `harness/case.py` first, then `call_rtt.py`; `harness/` knows no case.
"""
