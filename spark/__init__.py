"""Analyse the recordings of a system with Apache Spark, at any size.

`records/` reads the recordings of backplanes as numpy columns and does not depend on Spark. `kernels/` reduce columns to small
sums. `jobs/` run the kernels on Spark, one question a file. `datasource.py` (parts in `source/`) offers the same records to
any Spark program as rows, batch or stream; `writer.py` sends rows into the system, each once. On top: `advice/`, `report/`,
`stream/`, `compaction.py`. Separate from these: `request_executor.py` executes the requests of a kernel on a cluster. No code
here is on the path of a call. Of the runtime it uses only the file layout (`runtime/observation/segments.py`) and the executor
port; `replay/`, which `advice/` asks for predictions, runs the real scheduler, too. Read first: that file, then
`records/pieces.py` and `jobs/operation_statistics.py`.
"""
