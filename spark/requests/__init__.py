"""Requests: execute a kernel's requests in the tasks of a Spark cluster.

The kernel sees `../request_executor.py`: workers that take requests and report their ends. Each worker makes jobs of the
requests that it takes (`job.py`, split by `sizing.py`). Tasks execute them (`task.py`), and results come back as each task
ends (`arriving.py`). The kernel decides at each `take` which request is next; this folder never does. Requests and results are
never pickled: they travel as msgpack, as to any other process. Read first: `task.py`, then `job.py`.
"""
