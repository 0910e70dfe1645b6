"""Source: the readers of the data source, for records and recorded topics. `datasource.py` above chooses among them.

`rows.py` defines the columns and makes them from `Actions`; `selection.py` holds the time range and the backplanes that a
caller selects; `batch.py` and `stream.py` read actions, `topics.py` recorded messages; `lines.py` follows growing segments. A
reader keeps no state: its rows depend on options, positions and headers alone, not on earlier queries.
"""
