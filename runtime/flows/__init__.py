"""Flows: stages joined into a pipeline over backplanes, with credits from each consumer to its producer (seed 004, SEDA).

`declaring.py` makes stages of functions, `flow.py` checks how they fit together and makes a component of each. The items of a
stage wait in its outlet (`outlet.py`, which decides what is sent and when), and its sender calls the next stage with chunks of
them. Never here: threads of a stage's own (stages share the workers), and new kinds of messages (a chunk is a call, its reply
is the credit). A chunk of 256 items costs two actions a stage, so that most time is that of the functions and of packing.
Read `outlet.py` first, then `parts.py`.
"""
