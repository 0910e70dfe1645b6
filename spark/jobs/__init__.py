"""Jobs: one question a file, each a function from a frame of pieces (`../frames.py`) to a small DataFrame of answers.

In each task a kernel (`../kernels/`) reduces the task's pieces to sums, and a second, small step adds these up; records never
travel between tasks. Columns and units are in each function's docstring. Read `operation_statistics.py` first.
"""
