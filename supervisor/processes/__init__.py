"""Processes: everything that is asked of the operating system. Carries out the decisions of `direction`.

`spawn` starts and reaps processes, `placement` with `cgroups` groups and limits them, `orphans` and `run_dir` see to it that
nothing is left.
"""
