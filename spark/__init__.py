"""Turn what happened into answers, at any size.

`records/` reads what backplanes have recorded, as columns of numpy, and knows no Spark; `kernels/` make small sums of them;
`jobs/` let Spark schedule these, one question a file. `datasource.py` (parts in `source/`) shows the same records to any
program of Spark's as rows, batch or stream, and `writer.py` brings rows back into the system, each once. On top: `advice/`,
`report/`, `stream/`, `compaction.py`. Apart from these: `request_executor.py` has a cluster execute the requests of a kernel.
Never here: anything on the path of a call, and nothing of the runtime but the layout of the files
(`runtime/observation/segments.py`), the replay, and the port of executors. Read first: that file, then `records/pieces.py` and
`jobs/operation_statistics.py`.
"""
