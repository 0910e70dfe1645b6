"""Execution: running what scheduling chose. Threads, sockets, clocks and the shared board live here, and nowhere below.

It never decides what is next (scheduling does) and knows no user class (objects describe them). Read `engine.py` first:
what the workers share, and one turn of the loop; then `worker.py`, `intake.py`, `outgoing.py` and `sentinel.py`.
"""
