"""Observation: what happened, counted. Execution hands facts over; nothing here decides or runs anything.

The scheduler and this step never meet: one chooses, the other counts. Read `histogram.py` first, then `statistics.py`.
"""
