"""Cluster: which node of a system is primary, by a lease in a store that is there already. `[cluster]` in the TOML.

Decides: `record` (what stands in the store, and the times of a lease), `lease` (take, renew, step down, hand over),
`settings`. Does: `stores` (the port), a file for each kind, `opening`; `keeper` (the thread that speaks with it);
`tenure` (one supervisor's part, between all of these and the director). No node votes, and none asks another: who can swap
the record in the store is primary, and no longer than its lease lasts. What becomes of the components is direction's affair
(direction/standing_by.py). Read first: `lease`.
"""
