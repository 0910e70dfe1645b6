"""Requests of a kernel's, executed by the tasks of a Spark cluster.

`../request_executor.py` is what the kernel knows: workers that take requests and say how they ended. Each worker makes jobs of
what it takes (`job.py`, cut up by `sizing.py`), tasks execute them (`task.py`), and results come back as each task ends
(`arriving.py`). Never here: what is executed next, which the kernel decides at each `take`; and pickled requests or results:
they travel as msgpack, as they do to any other process. Read first: `task.py`, then `job.py`.
"""
