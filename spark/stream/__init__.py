"""Stream: what a running system does, told in windows of time while it does it, each window once.

`partials.py` makes small sums of each micro-batch, in Spark's tasks; `windows.py` decides what becomes of them (windows that
are open, closed, late), `alerts.py` what is worth an alert; `ledger.py` keeps what was decided, so that it is decided once;
`telling.py` tells it; `program.py` lets Spark run it. It never keeps an action, and forgets a window once it is closed.
Read `windows.py` first; why it is exact is in docs/decisions/exactly_once.md.
"""
