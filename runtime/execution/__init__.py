"""Execution: runs the actions that scheduling chose. Threads, sockets, clocks and the shared board live here, nowhere below.

It never decides which action is next (scheduling does) and knows no user class (objects describe them). Read `engine.py`
first: the state that workers share, and one iteration. Then `worker.py`, `intake.py`, `outgoing_calls.py` and `sentinel.py`.
"""
