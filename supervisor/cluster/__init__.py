"""Cluster: which node of a system is primary, by a lease in an existing store. `[cluster]` in the TOML.

Decides: `record` (the stored record, and the times of a lease), `lease` (take, renew, step down, hand over), `settings`.
Does: `stores` (the port), a file for each kind of store, `opening`; `keeper` (the thread that calls the store); `tenure`
(connects all of these with the director). Nodes neither vote nor ask each other: the node that swaps the record in the store
is primary, no longer than its lease lasts. The consequences for components are in direction/standing_by.py.
Read first: `lease`.
"""
