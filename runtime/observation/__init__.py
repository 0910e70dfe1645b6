"""Observation: statistics, records and reports of past actions. Execution passes the facts; nothing here runs an action.

It never calls the scheduler: that chooses, this counts. Read `histogram.py` first, then `statistics.py`.
"""
