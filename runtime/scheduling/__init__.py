"""Scheduling: chooses the next action to run in this process. Pure: facts and `now_ns` come in, a choice goes out.

Nothing here starts a thread, reads a clock or touches a socket, so every law of DESIGN section 4 can be tested by calling
it. It never runs an action (execution does) and never measures one (observation does). Read `scheduler.py` first: it
composes the rest and is where the laws are kept; then `object_queue.py` and `ready_queues.py`.
"""
