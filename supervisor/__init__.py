"""Turn a TOML file into running, healthy, visible processes.

`run` is the loop that observes, lets the director decide, and carries out. Folders: `configuration` (the TOML: all schemas, and
their checks), `direction` (events in, effects out: all decisions), `control` (requests and replies), `processes` (spawn, place,
limit, reap), `cluster` (which node is primary), `logs`, `metrics`, `doctor`, `live` (the view of `top`), `commands` (one verb a
file). Never on the path of a call: callers and backplanes talk to each other directly. Read first: `direction/director.py`.
"""
