"""Source: how Spark reads records and recorded topics, part by part. `datasource.py` above puts the parts together.

`rows.py` defines the columns and makes them from `Actions`; `selection.py` holds the time range and the backplanes that a
caller asks for; `batch.py` and `stream.py` read actions, `topics.py` recorded messages; `lines.py` walks along segments that
grow. A reader never changes: its rows depend on options, positions and headers alone, not on the queries before.
"""
