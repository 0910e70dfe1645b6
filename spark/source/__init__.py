"""Source: how Spark reads records and recorded topics, part by part. `datasource.py` above puts the parts together.

`rows.py` says which columns there are and turns `Actions` into them; `filters.py` says what a reader leaves out; `batch.py`
and `stream.py` read records, `topics.py` recorded messages; `positions.py` walks along segments that grow. What it decides
is decided from positions and headers alone, so the same range is the same rows for ever.
"""
