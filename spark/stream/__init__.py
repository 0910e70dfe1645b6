"""Stream: statistics of a running system in windows of time, published while it runs, each window once.

`partials.py` reduces each micro-batch to small sums, in Spark's tasks. `windows.py` decides which windows are open, closed or
late; `alerts.py` decides on alerts. `ledger.py` stores each decision, so that it is made once; `telling.py` publishes it;
`program.py` runs this on Spark. No action is kept, and a window is forgotten once it is closed. Read `windows.py` first; the
proof of exactness is in docs/decisions/exactly_once.md.
"""
