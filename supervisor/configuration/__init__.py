"""Configuration: the schema of the TOML file, and the check of a whole file before anything starts. All of it is pure.

Read first: `config` (one system's `Config`, and `load`). `reader` converts a table into the fields of a struct, and every
problem into one line. The tables with rules of their own have a file each: `cluster_settings`, `log_settings`, `node_settings`,
`record_settings`, `metrics_address`; `replica_names` names the backplanes that one table makes. All other folders of the
supervisor may import this one; it imports none of them.
"""
