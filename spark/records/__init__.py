"""Records: what backplanes have recorded, as columns of numpy. Nothing here knows Spark.

A reading begins with `pieces` (pieces.py), which says what there is to read, a piece for each task; `read` hands out what
is in a piece as `Actions` (batch.py), a few ten thousand records at a time, each record checked. What is damaged is left
out and counted in `Found` (found.py): it never stops a reading, and it is never read as data.
"""
