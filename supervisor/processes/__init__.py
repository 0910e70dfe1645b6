"""Processes: what the operating system is asked for, and asked about. Does what the direction decides.

`spawn` begins and ends them, `placement` with `cgroups` says where they run and with how much, `orphans` and `run_dir` see
to it that nothing is left.
"""
