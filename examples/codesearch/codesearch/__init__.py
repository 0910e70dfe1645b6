"""Code search: find any identifier of a source tree while the tree is still being indexed at full load.

`Index` is a request kernel whose workers, processes of their own, read and tokenize files (bulk), `Query` holds the index in
keyed shards and answers (urgent), `Host` publishes what the machine is doing. `tokens` and `shard_index` are plain computation
and know nothing of a backplane; read these two first, then `query.py`, `indexing.py` and `index.py`.
"""
