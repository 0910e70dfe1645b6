"""Records: the recordings of backplanes as numpy columns. Independent of Spark.

Reading begins with `pieces` (pieces.py), which lists the data as pieces, each the work of one task. `read` yields a piece's
records as `Actions` (batch.py), a few ten thousand at a time, each record checked. Damaged records are left out and counted in
`Found` (found.py); they never stop the reading, and are never read as data.
"""
