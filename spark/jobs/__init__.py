"""Jobs: one question a file, each a function from a frame of pieces (`../frames.py`) to a small DataFrame of answers.

Spark schedules: each task reads its pieces, has a kernel (`../kernels/`) make sums of them, and a second, small step adds
these up. No rows travel. Columns and units are in each function's docstring. Read `operation_statistics.py` first.
"""
