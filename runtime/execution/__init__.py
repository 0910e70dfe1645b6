"""Execution: runs the actions that scheduling chose. Threads, sockets, clocks and the shared board live here, nowhere below.

Its rooms follow the way of a call: `intake/` admits it, `actions/` runs and ends it, `outgoing/` sends the calls that it makes.
`loop/` puts the parts together, `workers/` has the threads, `urgency/` shows their priority to others. `sentinel/` keeps the
process in order; `logs/`, `records/` and `services/` are for those who look. It never decides which action is next (scheduling
does) and knows no user class (objects describe them). Read `loop/engine.py` first: one iteration of a worker.
"""
